"""LLaMA-Factory's own loader on an export: what it tokenises, what it learns, and one step on a CPU.

Arguments: the folder of the export for LLaMA-Factory, the model, the kind of rows, the output folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cuda_builds_on_cpu  # noqa: F401  (before transformers)
import yaml
from answer import give

IGNORED = -100


def arguments(folder: Path, model: str, kind: str, out: Path) -> dict[str, Any]:
    """The run file of the export, changed for a CPU and a tiny model."""
    given = yaml.safe_load((folder / f"train_{kind}.yaml").read_text("utf-8"))
    for name in ("deepspeed", "bf16", "eval_dataset", "eval_strategy", "eval_steps"):
        given.pop(name, None)
    given |= {"model_name_or_path": model, "dataset_dir": str(folder), "media_dir": str(folder)}
    given |= {"output_dir": str(out), "max_steps": 1, "gradient_accumulation_steps": 1, "use_cpu": True}
    return {**given, "logging_steps": 1, "report_to": "none", "preprocessing_num_workers": None}


def tokenised(given: dict[str, Any], **changes: Any) -> tuple[list[dict[str, Any]], Any]:
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.hparams import get_train_args
    from llamafactory.model import load_tokenizer

    model_args, data_args, training_args, _, _ = get_train_args({**given, **changes})
    module = load_tokenizer(model_args)
    template = get_template_and_fix_tokenizer(module["tokenizer"], data_args)
    rows = get_dataset(template, model_args, data_args, training_args, stage="sft", **module)
    return list(rows["train_dataset"]), module["tokenizer"]


def learned(row: dict[str, Any], tokenizer: Any) -> str:
    return str(tokenizer.decode([token for token in row["labels"] if token != IGNORED]))


folder, model, kind, out = Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
given = arguments(folder, model, kind, out)
rows, tokenizer = tokenised(given)
whole, _ = tokenised(given, cutoff_len=1_000_000)
stock, _ = tokenised(given, cutoff_len=2048)

from llamafactory.train.tuner import run_exp  # noqa: E402

run_exp(dict(given))

import llamafactory  # noqa: E402

give(
    version=llamafactory.__version__,
    rows=len(rows),
    longest=max(len(row["input_ids"]) for row in whole),
    limit=given["cutoff_len"],
    cut=sum(row["input_ids"] != other["input_ids"] for row, other in zip(rows, whole, strict=True)),
    cut_by_stock=sum(row["input_ids"] != other["input_ids"] for row, other in zip(stock, whole, strict=True)),
    asked=tokenizer.decode(rows[0]["input_ids"]),
    learned=[learned(row, tokenizer) for row in rows],
    images=[len(row["images"] or ()) for row in rows],
    trained=(out / "model.safetensors").is_file(),
)
