"""`README.md` of a trained model: what it is, what it was trained on and how, and how to load it.

Only facts of the training; no path of this machine. The licence is left to whoever publishes it: it follows
from those of the base model and the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleave import __version__
from interleave.plugin import count, write_atomic
from interleave.train.logs import read_log
from interleave.train.recipes import Recipe
from interleave.train.rows import Task

CARD = "README.md"
ROLES = {"grpo": "critic", "agent": "planner and critic"}
FIGURES = {
    "loss": "loss",
    "mean_token_accuracy": "tokens right",
    "reward": "reward",
    "judgement/accuracy": "judgements right",
    "eval_loss": "validation loss",
    "eval_reward": "validation reward",
}


@dataclass(frozen=True)
class TrainedModel:
    """What a card tells."""

    task: Task
    recipe: Recipe
    base: str
    """The model that was trained, as on the Hub or as a path."""
    data: Path
    rows: int
    digest: str
    steps: int
    log: Path


def write_card(folder: Path, trained: TrainedModel) -> Path:
    """Write the card of the model in a folder."""
    from huggingface_hub import ModelCardData

    adapter = bool(trained.recipe.model.lora_rank)
    metadata = ModelCardData(
        base_model=_public(trained.base),
        library_name="peft" if adapter else "transformers",
        pipeline_tag="image-text-to-text",
        tags=["interleavethinker", trained.recipe.task],
    )
    text = f"---\n{metadata.to_yaml()}\n---\n\n{_text(trained, adapter=adapter)}"
    write_atomic(folder / CARD, text.encode())
    return folder / CARD


def _text(trained: TrainedModel, *, adapter: bool) -> str:
    recipe = trained.recipe
    base = _public(trained.base) or "a local model"
    what = "A LoRA adapter" if adapter else "A model"
    role = ROLES.get(trained.task, trained.task)
    spec = "transformers:BASE?adapter=/path/to/this" if adapter else "transformers:/path/to/this"
    option = "--planner" if trained.task in ("planner", "agent") else "--critic"
    return f"""\
# {role.capitalize()} for interleaved generation

{what} for the {role} of InterleaveThinker, trained by {recipe.task.upper()} from {base}.

## Trained on

{count(trained.rows, "row")} of the export `{trained.data.name}` (SHA-256 of its files `{trained.digest}`).
{_rewards(recipe)}
## How

| | |
|---|--:|
{_table(_settings(trained))}
{_figures(trained.log)}
## Use

```bash
interleave generate "How a frog grows up, in four pictures" {option} "{spec}"
```

interleave {__version__}
"""


def _rewards(recipe: Recipe) -> str:
    if recipe.task != "grpo":
        return ""
    reward = recipe.reward
    return (
        f"Refined prompts were drawn by `{_public_spec(reward.generator)}` and scored by "
        f"`{_public_spec(reward.scorer)}`.\n"
    )


def _settings(trained: TrainedModel) -> Mapping[str, Any]:
    recipe, training = trained.recipe, trained.recipe.training
    settings: dict[str, Any] = {
        "steps": trained.steps,
        "learning rate": f"{training.learning_rate:g}, {training.schedule}",
        "weight decay": f"{training.weight_decay:g}",
        "seed": training.seed,
    }
    if recipe.task == "sft":
        settings["rows a step"] = training.batch
    else:
        grpo = recipe.grpo
        settings["prompts × answers a step"] = f"{grpo.prompts} × {grpo.samples}"
        settings["KL"] = f"{grpo.kl:g}"
        settings["reward"] = recipe.reward.form
    if recipe.model.lora_rank:
        settings["LoRA rank"] = recipe.model.lora_rank
    elif not recipe.model.train_vision:
        settings["vision tower"] = "held still"
    return settings


def _figures(log: Path) -> str:
    last: dict[str, float] = {}
    for line in read_log(log):
        last.update({name: line[name] for name in FIGURES if name in line})
    if not last:
        return ""
    listed = {FIGURES[name]: f"{value:.4g}" for name, value in last.items()}
    return f"\nLast logged:\n\n| | |\n|---|--:|\n{_table(listed)}\n"


def _table(rows: Mapping[str, Any]) -> str:
    return "\n".join(f"| {name} | {value} |" for name, value in rows.items())


def _public(base: str) -> str | None:
    """The name of a model on the Hub; none for a path of this machine."""
    return None if base.startswith(("/", ".", "~")) else base


def _public_spec(spec: str) -> str:
    """A spec without addresses, paths and options: they are nobody else's business."""
    name, colon, model = spec.partition("?")[0].partition("@")[0].partition(":")
    if model.startswith(("/", ".", "~")) or name in ("http", "https"):
        return f"{name} (an address of its own)" if name.startswith("http") else name
    return f"{name}{colon}{model}"
