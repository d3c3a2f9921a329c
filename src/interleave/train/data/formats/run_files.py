"""Files beside the rows that start a training on them with LLaMA-Factory, ms-swift or EasyR1.

Stock settings do harm without a word: LLaMA-Factory cuts rows at `cutoff_len`, which loses the end of the
request; ms-swift and EasyR1 drop rows that are too long. Lengths here are those of the longest row, and the
rest are the values of the paper. The names of settings are those of LLaMA-Factory 0.9.5, ms-swift 4.6 and
EasyR1 of July 2026, which `make test-trainers` runs on these files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from interleave.train.data.export.rows import CRITIC_RL, SFT_KINDS, VALIDATION, Kind

MODEL = "Qwen/Qwen3-VL-8B-Instruct"
MODEL_TYPE = "qwen3_vl"
"""ms-swift does not guess it for a folder: three of its types have the same architecture."""
MIN_PIXELS, MAX_PIXELS = 3136, 1024 * 1024
PIXELS_PER_TOKEN = 32 * 32
COMPLETION = 4096
TEMPLATE_TOKENS = 512
"""Room for the tokens of a chat template."""
STEP = 1024
ESTIMATE_FACTOR = 1.3
"""An estimate of 4 bytes to a token is short by up to this where texts are not plain English."""
EPOCHS = {"planner_sft": 3, "critic_sft": 2, "agent_sft": 2}


@dataclass(frozen=True)
class RowLengths:
    """The longest row of each kind in tokens, and whether a tokenizer has counted them."""

    longest: Mapping[Kind, int]
    counted: bool

    def limit(self, kind: Kind) -> int:
        """A limit above every row of a kind."""
        kinds: tuple[Kind, ...] = ("planner_sft", "critic_sft") if kind == "agent_sft" else (kind,)
        longest = max((self.longest.get(each, 0) for each in kinds), default=0)
        needed = longest * (1.0 if self.counted else ESTIMATE_FACTOR) + TEMPLATE_TOKENS
        return -(-int(needed) // STEP) * STEP

    @property
    def how(self) -> str:
        return "counted" if self.counted else "estimated; count with `data export --tokenizer DIR`"


def write_llamafactory(folder: Path, files: Mapping[str, Path], lengths: RowLengths) -> None:
    """`train_critic_sft.yaml` and the like."""
    for kind in _kinds(files):
        validated = f"{kind}_{VALIDATION}" in files
        text = f"""\
# pip install llamafactory, in an environment of its own: it needs trl <= 0.24 and transformers <= 5.6.
# In this folder: llamafactory-cli train {_yaml_name(kind)}
model_name_or_path: {MODEL}
image_max_pixels: {MAX_PIXELS}

stage: sft
do_train: true
finetuning_type: full
freeze_vision_tower: true
freeze_multi_modal_projector: true
deepspeed: ds_z3_config.json  # from examples/deepspeed of LLaMA-Factory; for one GPU: finetuning_type lora

dataset_dir: .
media_dir: .
dataset: interleave_{kind}
template: qwen3_vl_nothink  # answers hold their thinking themselves: nothing is added
cutoff_len: {lengths.limit(kind)}  # the longest row ({lengths.how}), with room; longer rows would be cut

output_dir: trained/{kind}
per_device_train_batch_size: 2
gradient_accumulation_steps: 2  # on 8 GPUs, 32 rows a step
learning_rate: 2.0e-5
num_train_epochs: {EPOCHS[kind]}
lr_scheduler_type: cosine
warmup_ratio: 0.1
weight_decay: 1.0e-6
bf16: true
logging_steps: 10
save_steps: 2000
save_only_model: true
"""
        if validated:
            text += f"""
eval_dataset: interleave_{kind}_{VALIDATION}
eval_strategy: steps
eval_steps: 500
per_device_eval_batch_size: 1
"""
        (folder / _yaml_name(kind)).write_text(text, "utf-8")


def _yaml_name(kind: str) -> str:
    return f"train_{kind}.yaml"


def write_swift(folder: Path, files: Mapping[str, Path], lengths: RowLengths) -> None:
    """`train_critic_sft.sh` and the like, and `train_critic_rl.sh`."""
    for kind in _kinds(files):
        _script(
            folder / f"train_{kind}.sh",
            f"""\
# pip install ms-swift, in an environment of its own: it needs trl < 1 and transformers < 5.20.
set -euo pipefail
cd "$(dirname "$0")"
export ROOT_IMAGE_DIR=$PWD
export IMAGE_MAX_TOKEN_NUM={MAX_PIXELS // PIXELS_PER_TOKEN}
export NPROC_PER_NODE=${{GPUS:-8}}

# --max_length: the longest row ({lengths.how}), with room.
swift sft \\
    --model "${{MODEL:-{MODEL}}}" \\
    --model_type "${{MODEL_TYPE:-{MODEL_TYPE}}}" \\
    --dataset {kind}.jsonl \\{_val_dataset(files, kind)}
    --tuner_type full \\
    --freeze_vit true \\
    --freeze_aligner true \\
    --torch_dtype bfloat16 \\
    --max_length {lengths.limit(kind)} \\
    --truncation_strategy delete \\
    --per_device_train_batch_size 2 \\
    --gradient_accumulation_steps 2 \\
    --learning_rate 2e-5 \\
    --num_train_epochs {EPOCHS[kind]} \\
    --lr_scheduler_type cosine \\
    --warmup_ratio 0.1 \\
    --weight_decay 1e-6 \\
    --deepspeed zero3 \\
    --save_steps 2000 \\
    --output_dir trained/{kind}
""",
        )
    if CRITIC_RL in files:
        _script(folder / "train_critic_rl.sh", _swift_grpo(files, lengths))


def _swift_grpo(files: Mapping[str, Path], lengths: RowLengths) -> str:
    return f"""\
# pip install ms-swift msgspec vllm "interleavethinker[api]": its GRPO imports msgspec without installing it.
# An environment of its own, as for train_critic_sft.sh. The reward draws and scores:
#   GENERATOR=http://draw-1:8011 SCORER=gemini:gemini-2.5-pro MODEL=trained/critic_sft ./train_critic_rl.sh
set -euo pipefail
cd "$(dirname "$0")"
export ROOT_IMAGE_DIR=$PWD
export IMAGE_MAX_TOKEN_NUM={MAX_PIXELS // PIXELS_PER_TOKEN}
export NPROC_PER_NODE=${{GPUS:-8}}
export INTERLEAVE_GENERATOR=${{GENERATOR:?the spec of the model that draws}}
export INTERLEAVE_SCORER=${{SCORER:?the spec of the model that scores}}
PLUGIN=$(python -c "import interleave.train.trainers.ms_swift as plugin; print(plugin.__file__)")

# --per_device_train_batch_size is --num_generations, so that a group is in one process.
swift rlhf \\
    --rlhf_type grpo \\
    --model "${{MODEL:?a critic after supervised fine-tuning}}" \\
    --model_type "${{MODEL_TYPE:-{MODEL_TYPE}}}" \\
    --dataset {CRITIC_RL}.jsonl \\{_val_dataset(files, CRITIC_RL)}
    --external_plugins "$PLUGIN" \\
    --reward_funcs interleave \\
    --tuner_type full \\
    --torch_dtype bfloat16 \\
    --max_length {lengths.limit(CRITIC_RL)} \\
    --max_completion_length {COMPLETION} \\
    --num_generations 8 \\
    --per_device_train_batch_size 8 \\
    --gradient_accumulation_steps 2 \\
    --temperature 1.0 \\
    --beta 0.001 \\
    --epsilon 0.2 \\
    --epsilon_high 0.3 \\
    --learning_rate 2e-6 \\
    --weight_decay 0.01 \\
    --num_train_epochs 1 \\
    --use_vllm true \\
    --vllm_mode colocate \\
    --deepspeed zero3 \\
    --save_steps 50 \\
    --output_dir trained/{CRITIC_RL}
"""


def _val_dataset(files: Mapping[str, Path], kind: str) -> str:
    """The validation rows, where there are any; without them ms-swift must not split some off."""
    if f"{kind}_{VALIDATION}" in files:
        return f"\n    --val_dataset {VALIDATION}/{kind}.jsonl \\"
    return "\n    --split_dataset_ratio 0 \\"


def write_easyr1(folder: Path, files: Mapping[str, Path], lengths: RowLengths) -> None:
    """`train_critic_rl.sh`, to be run in a checkout of EasyR1."""
    if CRITIC_RL not in files:
        return
    validation = f"{VALIDATION}/" if f"{CRITIC_RL}_{VALIDATION}" in files else ""
    _script(
        folder / "train_critic_rl.sh",
        f"""\
# In a checkout of EasyR1, with what it requires in an environment of its own and "interleavethinker[api]":
#   GENERATOR=http://draw-1:8011 SCORER=gemini:gemini-2.5-pro MODEL=/…/critic /…/easyr1/train_critic_rl.sh
set -euo pipefail
ROWS=$(cd "$(dirname "$0")" && pwd)
export INTERLEAVE_GENERATOR=${{GENERATOR:?the spec of the model that draws}}
export INTERLEAVE_SCORER=${{SCORER:?the spec of the model that scores}}
export INTERLEAVE_IMAGES=$ROWS
REWARD=$(python -c "import interleave.train.trainers.easyr1 as reward; print(reward.__file__)")

# data.max_prompt_length: the longest row ({lengths.how}), with room; longer ones would be dropped.
# data.format_prompt is none: rows hold the whole prompt, and the example of EasyR1 adds one for mathematics.
python -m verl.trainer.main \\
    config=examples/config.yaml \\
    data.train_files="$ROWS/{CRITIC_RL}.jsonl" \\
    data.val_files="$ROWS/{validation}{CRITIC_RL}.jsonl" \\
    data.prompt_key=problem \\
    data.answer_key=answer \\
    data.image_key=images \\
    data.image_dir="$ROWS" \\
    data.format_prompt=null \\
    data.max_prompt_length={lengths.limit(CRITIC_RL)} \\
    data.max_response_length={COMPLETION} \\
    data.min_pixels={MIN_PIXELS} \\
    data.max_pixels={MAX_PIXELS} \\
    data.rollout_batch_size=16 \\
    worker.actor.model.model_path="${{MODEL:?a critic after supervised fine-tuning}}" \\
    worker.actor.global_batch_size=16 \\
    worker.actor.optim.lr=2e-6 \\
    worker.actor.clip_ratio_low=0.2 \\
    worker.actor.clip_ratio_high=0.3 \\
    worker.rollout.n=8 \\
    worker.rollout.temperature=1.0 \\
    worker.reward.reward_function="$REWARD:compute_score" \\
    algorithm.kl_coef=1e-3 \\
    trainer.total_epochs=1 \\
    trainer.val_before_train=false \\
    trainer.val_freq=-1 \\
    trainer.save_freq=50 \\
    trainer.n_gpus_per_node="${{GPUS:-8}}" \\
    trainer.project_name=interleave \\
    trainer.experiment_name=critic-grpo
""",
    )


def _kinds(files: Mapping[str, Path]) -> list[Kind]:
    return [kind for kind in SFT_KINDS if kind in files]


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/usr/bin/env bash\n{text}", "utf-8")
    path.chmod(0o755)


RunFiles = Callable[[Path, Mapping[str, Path], RowLengths], None]
