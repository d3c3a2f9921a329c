"""Publishes the result of a training: its `README.md`, and a private repository on the Hub.

The card states what the model is, what it was trained on and how, and how to load it. It contains no local
path. The publisher adds the licence, which depends on those of the base model and the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleave import ConfigurationError, InterleaveError, StorageError, __version__
from interleave.plugin import count, write_atomic
from interleave.train.logs import read_log
from interleave.train.pages import rendered
from interleave.train.recipes import Recipe, Task

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
    """Contents of a model card."""

    task: Task
    recipe: Recipe
    base: str
    """The base model: a Hub name or a path."""
    data: Path
    rows: int
    digest: str
    steps: int
    log: Path


def write_card(folder: Path, trained: TrainedModel) -> Path:
    """Write the card of the model in a folder."""
    from huggingface_hub import ModelCardData

    recipe, base = trained.recipe, _public(trained.base)
    adapter = bool(recipe.model.lora_rank)
    metadata = ModelCardData(
        base_model=base,
        library_name="peft" if adapter else "transformers",
        pipeline_tag="image-text-to-text",
        tags=["interleavethinker", recipe.task],
    )
    text = rendered(
        "model_card.md.j2",
        metadata=metadata.to_yaml(),
        trained=trained,
        recipe=recipe,
        role=ROLES.get(trained.task, trained.task),
        base=base or "a local model",
        adapter=adapter,
        rows=count(trained.rows, "row"),
        generator=_public_spec(recipe.reward.generator),
        scorer=_public_spec(recipe.reward.scorer),
        settings=_settings(trained),
        figures=_figures(trained.log),
        option="--planner" if trained.task in ("planner", "agent") else "--critic",
        version=__version__,
    )
    write_atomic(folder / CARD, text.encode())
    return folder / CARD


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


def _figures(log: Path) -> dict[str, str]:
    """Return the last value of each metric in the log."""
    last: dict[str, float] = {}
    for line in read_log(log):
        last.update({name: line[name] for name in FIGURES if name in line})
    return {FIGURES[name]: f"{value:.4g}" for name, value in last.items()}


def _public(base: str) -> str | None:
    """Return the name of a model on the Hub; None for a local path."""
    return None if base.startswith(("/", ".", "~")) else base


def _public_spec(spec: str) -> str:
    """Return a spec without addresses, paths and options, which are private."""
    name, colon, model = spec.partition("?")[0].partition("@")[0].partition(":")
    if model.startswith(("/", ".", "~")) or name in ("http", "https"):
        return f"{name} (a private address)" if name.startswith("http") else name
    return f"{name}{colon}{model}"


def prepare_upload(repository: str) -> None:
    """Create the repository, private if new, so that a missing permission shows before days of training."""
    from huggingface_hub import HfApi

    with _hub_errors_as(
        lambda reason: ConfigurationError(
            f"--push-to {repository!r}: cannot upload there ({reason}). Write ORG/NAME, and log in "
            "with `hf auth login` or HF_TOKEN"
        )
    ):
        HfApi().create_repo(repository, private=True, exist_ok=True)


def upload(folder: Path, repository: str) -> str:
    """Upload a result and return its address; the local copy stays."""
    from huggingface_hub import HfApi

    with _hub_errors_as(
        lambda reason: StorageError(
            f"the result is in {folder}, but was not uploaded to {repository!r} ({reason}): log in with "
            f"`hf auth login`, then run the same command again, or: hf upload {repository} {folder}"
        )
    ):
        api = HfApi()
        made = api.create_repo(repository, private=True, exist_ok=True)
        api.upload_folder(repo_id=repository, folder_path=folder, commit_message="Trained by interleave")
        return str(made)


@contextmanager
def _hub_errors_as(error_of: Callable[[str], InterleaveError]) -> Iterator[None]:
    """Convert exceptions of the Hub's library into errors that say what to do."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        yield
    except (HfHubHTTPError, HFValidationError, OSError, ValueError) as error:
        raise error_of(" ".join(str(error).split())[:200]) from None
