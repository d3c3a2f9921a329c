"""Writes launch files next to the rows, for LLaMA-Factory, ms-swift and EasyR1.

Default settings silently lose data: LLaMA-Factory cuts rows at `cutoff_len`, which loses the end of the
request, and ms-swift and EasyR1 drop rows that are too long. Length limits here fit the longest row; the
other settings are the values of the paper. The names of settings are those of LLaMA-Factory 0.9.5, ms-swift
4.6 and EasyR1 of July 2026, which `make test-trainers` runs on these files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from interleave.train.data.export.rows import CRITIC_RL, SFT_KINDS, VALIDATION, Kind
from interleave.train.pages import rendered

MODEL = "Qwen/Qwen3-VL-8B-Instruct"
MODEL_TYPE = "qwen3_vl"
"""Model type, which ms-swift cannot infer for a folder: three of its types have the same architecture."""
MIN_PIXELS, MAX_PIXELS = 3136, 1024 * 1024
PIXELS_PER_TOKEN = 32 * 32
COMPLETION = 4096
TEMPLATE_TOKENS = 512
"""Allowance for the tokens of a chat template."""
STEP = 1024
ESTIMATE_FACTOR = 1.3
"""Safety factor: an estimate of 4 bytes per token is too low by up to this if texts are not plain English."""
EPOCHS = {"planner_sft": 3, "critic_sft": 2, "agent_sft": 2}


@dataclass(frozen=True)
class RowLengths:
    """The longest row of each kind in tokens, and whether a tokenizer counted them."""

    longest: Mapping[Kind, int]
    counted: bool

    def limit(self, kind: Kind) -> int:
        """Return a limit above every row of a kind."""
        kinds: tuple[Kind, ...] = ("planner_sft", "critic_sft") if kind == "agent_sft" else (kind,)
        longest = max((self.longest.get(each, 0) for each in kinds), default=0)
        needed = longest * (1.0 if self.counted else ESTIMATE_FACTOR) + TEMPLATE_TOKENS
        return -(-int(needed) // STEP) * STEP

    @property
    def how(self) -> str:
        return "counted" if self.counted else "estimated; count with `data export --tokenizer DIR`"


RunFiles = Callable[[Path, Mapping[str, Path], RowLengths], None]


def write_llamafactory(folder: Path, files: Mapping[str, Path], lengths: RowLengths) -> None:
    """Write `train_critic_sft.yaml` and the like."""
    for kind in _sft_kinds(files):
        _write(folder / f"train_{kind}.yaml", "llamafactory.yaml.j2", files, kind, lengths)


def write_swift(folder: Path, files: Mapping[str, Path], lengths: RowLengths) -> None:
    """Write `train_critic_sft.sh` and the like, and `train_critic_rl.sh`."""
    for kind in _sft_kinds(files):
        _write(folder / f"train_{kind}.sh", "swift_sft.sh.j2", files, kind, lengths)
    if CRITIC_RL in files:
        _write(folder / f"train_{CRITIC_RL}.sh", "swift_grpo.sh.j2", files, CRITIC_RL, lengths)


def write_easyr1(folder: Path, files: Mapping[str, Path], lengths: RowLengths) -> None:
    """Write `train_critic_rl.sh`, to be run in a checkout of EasyR1."""
    if CRITIC_RL in files:
        _write(folder / f"train_{CRITIC_RL}.sh", "easyr1_grpo.sh.j2", files, CRITIC_RL, lengths)


def _sft_kinds(files: Mapping[str, Path]) -> list[Kind]:
    return [kind for kind in SFT_KINDS if kind in files]


def _write(path: Path, template: str, files: Mapping[str, Path], kind: Kind, lengths: RowLengths) -> None:
    """Render a template of this package; scripts are made executable."""
    text = rendered(
        template,
        kind=kind,
        validated=f"{kind}_{VALIDATION}" in files,
        lengths=lengths,
        epochs=EPOCHS.get(kind),
        model=MODEL,
        model_type=MODEL_TYPE,
        min_pixels=MIN_PIXELS,
        max_pixels=MAX_PIXELS,
        pixels_per_token=PIXELS_PER_TOKEN,
        completion=COMPLETION,
    )
    path.write_text(text, "utf-8")
    if path.suffix == ".sh":
        path.chmod(0o755)
