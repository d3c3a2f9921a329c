"""Stands for the program `swift` when a run file of an export is started: the same arguments, on a CPU.

Rows go through ms-swift's own loader and template, then its trainer makes one step. What was found is given
as one line. FOUND_OUT names the output folder.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import cuda_builds_on_cpu  # noqa: F401  (before transformers)
from answer import give

ON_CPU = {
    "--torch_dtype": "float32",
    "--use_vllm": "false",
    "--max_completion_length": "8",
    "--num_generations": "4",
    "--per_device_train_batch_size": "4",
    "--gradient_accumulation_steps": "1",
    "--output_dir": os.environ["FOUND_OUT"],
}
NOT_ON_CPU = ("--deepspeed", "--vllm_mode", "--val_dataset")
IGNORED = -100


def on_cpu(arguments: list[str]) -> list[str]:
    """The arguments of the run file, with those for GPUs changed and one step."""
    pairs = list(zip(arguments[::2], arguments[1::2], strict=True))
    kept = [(name, ON_CPU.get(name, value)) for name, value in pairs if name not in NOT_ON_CPU]
    flat = [word for pair in kept for word in pair]
    return [
        *flat,
        "--max_steps",
        "1",
        "--use_cpu",
        "true",
        "--report_to",
        "none",
        "--split_dataset_ratio",
        "0",
    ]


def encoded(pipeline: Any) -> list[dict[str, Any]]:
    """Every row as the template writes it for training."""
    rows, _ = pipeline.args.load_dataset()
    return [pipeline.template.encode(dict(row)) for row in rows]


def decoded(template: Any, tokens: Any) -> str:
    return str(template.tokenizer.decode([token for token in tokens if token != IGNORED]))


kind, arguments = sys.argv[1], on_cpu(sys.argv[2:])
os.environ.pop("NPROC_PER_NODE", None)  # no torchrun: this process is the only one

import swift  # noqa: E402
from swift.pipelines.train.rlhf import SwiftRLHF  # noqa: E402
from swift.pipelines.train.sft import SwiftSft  # noqa: E402

pipeline = (SwiftSft if kind == "sft" else SwiftRLHF)(arguments)
pipeline.template.image_token_id = (
    pipeline.processor.image_token_id
)  # written there as that of Qwen's tokenizer
found: dict[str, Any] = {"limit": pipeline.args.max_length, "version": swift.__version__}
if kind == "sft":
    rows = encoded(pipeline)
    found |= {
        "rows": len(rows),
        "longest": max(len(row["input_ids"]) for row in rows),
        "asked": decoded(pipeline.template, rows[0]["input_ids"]),
        "learned": [decoded(pipeline.template, row["labels"]) for row in rows],
    }
else:
    rows, _ = pipeline.args.load_dataset()
    row = {name: value for name, value in dict(rows[0]).items() if name in ("messages", "images")}
    pipeline.template.set_mode("transformers")
    found |= {"rows": len(rows), "columns": sorted(rows[0])}
    found["asked"] = decoded(pipeline.template, pipeline.template.encode(row)["input_ids"])
    pipeline.template.set_mode("train")
trained = pipeline.main()
found |= {"steps": trained["global_step"], "log": trained["log_history"]}
give(**found)
