"""Recipes: TOML files with every training setting; the shipped ones are in `configs/`.

Missing settings have defaults here; the command line takes precedence. The complete recipe is stored in the
output folder, and a training resumes only with the same one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from interleave import ConfigurationError
from interleave.plugin import Value, did_you_mean, entry_points, files, first_problem, read_text
from interleave.train.rewards.core import CONCURRENCY
from interleave.train.rewards.formula import Weights
from interleave.train.rewards.health import (
    MOST_FAILURES,
    MOST_GROUP_FAILURES,
    MOST_UNHEALTHY_STEPS,
    WINDOW,
    FailureLimits,
)

Task = Literal["planner", "critic", "agent", "grpo"]
SHIPPED = Path(__file__).parent / "configs"
LORA_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Layers of the language model; those of the vision tower have other names."""


class ModelPart(Value):
    """The model to train, and which parts of it."""

    name: str = ""
    """`ORG/NAME` on the Hub, or a folder; --model takes precedence."""
    revision: str | None = None
    lora_rank: int = Field(default=0, ge=0, le=1024)
    """0 trains the weights themselves."""
    lora_alpha: float | None = Field(default=None, gt=0)
    """None: twice the rank."""
    lora_dropout: float = Field(default=0.0, ge=0, lt=1)
    lora_targets: tuple[str, ...] = LORA_TARGETS
    train_vision: bool = True
    """Whether the vision tower and the projector are trained too."""
    weights: Literal["float32", "bfloat16"] = "float32"
    """Dtype of the weights: float32 with bf16 arithmetic, or bf16 alone, which halves the memory."""
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2", "flash_attention_3"] = "auto"
    gradient_checkpointing: bool = False
    """Whether to recompute activations in the backward pass: less memory, a third more time."""
    min_pixels: int | None = Field(default=None, ge=1024)
    max_pixels: int | None = Field(default=None, ge=1024)
    """Pixel limit above which images are scaled down. None: the limits of the model's processor."""


class TrainingPart(Value):
    """The optimizer, its schedule, batches and checkpoints."""

    epochs: float = Field(default=1.0, gt=0)
    steps: int | None = Field(default=None, ge=1)
    """Number of steps after which to end instead."""
    batch: int = Field(default=32, ge=1)
    """Rows per step, over all devices (SFT)."""
    device_batch: int = Field(default=2, ge=1)
    """Rows per device and forward pass."""
    learning_rate: float = Field(default=2e-5, gt=0)
    schedule: Literal["cosine", "linear", "constant", "constant_with_warmup"] = "cosine"
    warmup: float = Field(default=0.0, ge=0)
    """Below 1: share of all steps; from 1 on: number of steps."""
    weight_decay: float = Field(default=0.0, ge=0)
    optimizer: str = "adamw_torch"
    adam_beta2: float = Field(default=0.999, gt=0, lt=1)
    max_grad_norm: float = Field(default=1.0, gt=0)
    seed: int = Field(default=0, ge=0)
    max_length: int | None = Field(default=None, ge=1)
    """Maximum tokens per row; longer rows are rejected before training, never truncated."""
    pad_to: int = Field(default=1, ge=1)
    """Length multiple that batches are padded to, so that fewer shapes occur."""
    group_by_length: bool = False
    """Whether to batch rows of similar length (SFT), which reduces padding."""
    compile: bool = False
    """Whether to compile the layers of a Qwen3-VL model (SFT): a minute at the start, then faster steps."""
    save_every: int = Field(default=500, ge=1)
    keep: int = Field(default=3, ge=1)
    """Number of checkpoints to keep."""
    log_every: int = Field(default=10, ge=1)
    validate_every: int | None = Field(default=None, ge=1)
    validation_rows: int = Field(default=256, ge=1)
    workers: int = Field(default=0, ge=0, le=128)
    """Data-loader processes."""
    report_to: tuple[str, ...] = ()
    """Additional reporters, by the trainer's names: wandb, trackio, mlflow, … (`--report-to`)."""
    push_to: str = ""
    """Hub repository `ORG/NAME` to upload the result to, private if new."""
    picture_cache_mb: int = Field(default=256, ge=0)
    """Size of the cache of decoded images, in memory shared by all data-loader processes."""


class GrpoPart(Value):
    """GRPO settings."""

    prompts: int = Field(default=16, ge=1)
    """Rows answered in one generation, over all devices."""
    samples: int = Field(default=8, ge=2)
    """Answers per row: a group."""
    updates: int = Field(default=1, ge=1)
    """Optimizer steps per generation."""
    max_completion: int = Field(default=4096, ge=1)
    temperature: float = Field(default=1.0, gt=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0)
    kl: float = Field(default=0.0, ge=0)
    clip_low: float = Field(default=0.2, gt=0)
    clip_high: float = Field(default=0.2, gt=0)
    loss: Literal["dapo", "grpo", "dr_grpo", "bnpo"] = "dapo"
    """`dapo`: every token has the same weight, and masked samples have none."""
    scale: Literal["group", "none"] = "group"
    rollouts: Literal["auto", "graphs", "library"] = "auto"
    """Decoder of the answers: ours by CUDA graphs, or the library's `generate`. `auto`: ours on a GPU if it
    supports model and settings."""
    rollout_batch: int = Field(default=64, ge=1)
    """Answers decoded together by our decoder; each needs memory for its KV cache."""

    @property
    def completions(self) -> int:
        return self.prompts * self.samples


class RewardPart(Weights):
    """The weights of the reward, the models that compute it, and its limits."""

    generator: str = ""
    scorer: str = ""
    prompts: str = "default"
    """Prompt pack of the rows and the scorer; it determines the format of replies."""
    concurrency: int = Field(default=CONCURRENCY, ge=1, le=4096)
    deadline: float = Field(default=300.0, gt=0)
    """Seconds to draw and score one sample."""
    during_rollout: bool = False
    """Whether to draw for each answer as soon as it is complete, while others are still being decoded: for
    generators on other devices."""
    patience: float = Field(default=600.0, ge=0)
    """Total seconds to wait while every reward of a step fails, before training stops."""
    most_failures: float = Field(default=MOST_FAILURES, ge=0, le=1)
    """Share of redraws that may fail; above it the step is discarded."""
    most_failures_of_group: float = Field(default=MOST_GROUP_FAILURES, ge=0, le=1)
    """The same for one group of answers."""
    unhealthy_steps: int = Field(default=MOST_UNHEALTHY_STEPS, ge=1)
    """Number of consecutive discarded steps that stops the training."""
    health_window: int = Field(default=WINDOW, ge=1)
    """Number of steps over which a total share above `most_failures` stops it as well."""

    @property
    def weights(self) -> Weights:
        return Weights(**{name: getattr(self, name) for name in Weights.model_fields})

    @property
    def limits(self) -> FailureLimits:
        return FailureLimits(
            step=self.most_failures,
            group=self.most_failures_of_group,
            running=self.unhealthy_steps,
            window=self.health_window,
        )


class Recipe(Value):
    """All settings that determine a training."""

    description: str = ""
    task: Literal["sft", "grpo"] = "sft"
    model: ModelPart = ModelPart()
    training: TrainingPart = TrainingPart()
    grpo: GrpoPart = GrpoPart()
    reward: RewardPart = RewardPart()

    @model_validator(mode="after")
    def a_group_is_updated_whole_batches(self) -> Recipe:
        if self.task == "grpo" and self.grpo.completions % self.grpo.updates:
            raise ValueError(
                f"grpo.updates: {self.grpo.completions} answers do not split into {self.grpo.updates} updates"
            )
        return self

    @model_validator(mode="after")
    def some_settings_are_for_sft(self) -> Recipe:
        if self.task == "grpo" and self.training.group_by_length:
            raise ValueError("training.group_by_length: not supported by GRPO, which groups rows by prompt")
        if self.task == "grpo" and self.training.compile:
            raise ValueError("training.compile: not supported by GRPO, whose answers vary in length")
        return self


@dataclass(frozen=True)
class TrainingJob:
    """A training as requested: recipe, data, output folder, and how to treat both."""

    task: Task
    recipe: Recipe
    data: Path
    out: Path
    max_minutes: float | None = None
    fall_back: bool = False
    """Whether to resume from an older checkpoint if the last one is broken."""
    trust_data: bool = False
    """Whether to skip the check of every row."""
    fail_on_leak: bool = False
    """Whether to reject data whose validation rows are also training rows."""
    skip_bad: bool = False
    """Whether to skip unusable rows."""

    def __post_init__(self) -> None:
        if self.max_minutes is not None and not self.max_minutes > 0:
            raise ConfigurationError(
                f"--max-minutes {self.max_minutes:g} leaves no time to train: give a larger number"
            )


def load_recipe(name: str | None, *, task: str, changes: Mapping[str, Any] | None = None) -> Recipe:
    """Load a recipe by name or path, with some values changed: `{"training.batch": 64}`."""
    values = _read(name) if name else {}
    values.setdefault("task", task)
    if values["task"] != task:
        raise ConfigurationError(f"the recipe {name!r} is for {values['task']!r}, not for {task!r}")
    for key, value in (changes or {}).items():
        _change(values, key, value)
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise _bad_value(error, name) from None


def shipped_recipes() -> dict[str, Path]:
    """Return the recipes of this package and of plugins, by name."""
    folders = [*entry_points.folders("recipes"), SHIPPED]
    return dict(sorted((path.stem, path) for folder in folders for path in folder.glob("*.toml")))


def parse_changes(texts: Sequence[str]) -> dict[str, Any]:
    """Parse settings such as `training.batch=64`; values are TOML, a bare word is a string."""
    changes: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or "." not in key:
            raise ConfigurationError(f"--set {text!r}: write PART.KEY=VALUE, as in training.batch=64")
        try:
            changes[key.strip()] = files.parse_toml(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            changes[key.strip()] = value
    return changes


def _read(name: str) -> dict[str, Any]:
    known = shipped_recipes()
    path = known.get(name) or Path(name)
    if name not in known and not path.is_file():
        raise ConfigurationError(f"no recipe named {name!r}. {did_you_mean(name, known)}")
    try:
        return files.parse_toml(read_text(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror})") from None


def _change(values: dict[str, Any], key: str, value: Any) -> None:
    part, _, name = key.partition(".")
    section = values.setdefault(part, {})
    if not name or not isinstance(section, dict):
        raise ConfigurationError(f"no setting {key!r}: write PART.KEY, as in training.batch")
    section[name] = value


def _bad_value(error: ValidationError, name: str | None) -> ConfigurationError:
    first = error.errors()[0]
    place = ".".join(str(piece) for piece in first["loc"])
    where = f"the recipe {name!r}" if name else "the settings"
    if first["type"] == "extra_forbidden":
        part = Recipe.model_fields.get(str(first["loc"][0]))
        model = part.annotation if part is not None and len(first["loc"]) > 1 else Recipe
        known = getattr(model, "model_fields", {})
        return ConfigurationError(
            f"{where}: no setting {place!r}. {did_you_mean(str(first['loc'][-1]), known)}"
        )
    return ConfigurationError(f"{where}: {first_problem(error)}")
