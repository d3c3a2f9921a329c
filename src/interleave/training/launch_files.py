"""Launch files of accelerate and verl, checked against the recipe before a cluster is asked for."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interleave.errors import ConfigurationError
from interleave.training.recipes import Recipe

SHARDED = {"FSDP": "FSDP", "DEEPSPEED": "DeepSpeed ZeRO"}
_DEFAULT = re.compile(r"\$\{(\w+):-([^}]{0,1000})\}")
_SETTING = re.compile(r"\s*+\+{0,2}([\w.]+)=(.*)")


@dataclass(frozen=True)
class LaunchFile:
    """What a launch file starts."""

    path: Path
    kind: str
    processes: int
    nodes: int
    sharded: bool
    problems: tuple[str, ...] = field(default=())


def read_launch(path: Path, recipe: Recipe, layers: Iterable[str] = ()) -> LaunchFile:
    """A launch file and what is wrong with it for this recipe; `layers` are the class names in the model."""
    if not path.is_file():
        raise ConfigurationError(f"the launch file {str(path)!r} does not exist")
    if path.suffix in (".yaml", ".yml"):
        return _accelerate(path, recipe, set(layers))
    if path.suffix == ".sh":
        return _verl(path, recipe)
    raise ConfigurationError(f"{path}: launch files are .yaml (accelerate) or .sh (verl)")


def _accelerate(path: Path, recipe: Recipe, layers: set[str]) -> LaunchFile:
    from accelerate.commands.config.config_args import load_config_from_file

    try:
        config = load_config_from_file(str(path))
    except Exception as error:  # the library raises whatever its YAML reader and its checks do
        reason = str(error).strip().splitlines()[0]
        raise ConfigurationError(f"{path} is no launch file of accelerate ({reason})") from None
    kind = str(getattr(config.distributed_type, "value", config.distributed_type))
    problems = [
        *_wrong_precision(config),
        *(_wrong_wrapping(config.fsdp_config or {}, layers) if kind == "FSDP" else ()),
        *(_wrong_deepspeed(config.deepspeed_config or {}, recipe) if kind == "DEEPSPEED" else ()),
        *_wrong_batches(recipe, config.num_processes),
    ]
    name = f"accelerate, {SHARDED.get(kind, kind)}"
    return LaunchFile(path, name, config.num_processes, config.num_machines, kind in SHARDED, tuple(problems))


def _wrong_precision(config: Any) -> Iterable[str]:
    if config.mixed_precision not in ("bf16", None):
        yield f"mixed_precision is {config.mixed_precision!r}: write bf16"


def _wrong_wrapping(fsdp: Mapping[str, Any], layers: set[str]) -> Iterable[str]:
    wrapped = str(fsdp.get("fsdp_transformer_layer_cls_to_wrap") or "")
    for name in filter(None, wrapped.split(",")):
        if layers and name not in layers:
            yield f"fsdp_transformer_layer_cls_to_wrap names {name!r}, which this model does not have"
    if not wrapped:
        yield "fsdp_transformer_layer_cls_to_wrap is missing: each device would hold the model whole"


def _wrong_deepspeed(deepspeed: Mapping[str, Any], recipe: Recipe) -> Iterable[str]:
    if deepspeed.get("zero_stage") not in (2, 3):
        yield f"zero_stage is {deepspeed.get('zero_stage')!r}: write 2 or 3"
    if recipe.task == "grpo" and deepspeed.get("zero_stage") == 3 and not deepspeed.get("zero3_init_flag"):
        yield "zero3_init_flag should be true with zero_stage 3: the model is built on one device else"


def _wrong_batches(recipe: Recipe, processes: int) -> Iterable[str]:
    at_once = recipe.training.device_batch * processes
    total = recipe.grpo.completions if recipe.task == "grpo" else recipe.training.batch
    if total % at_once:
        yield f"{total} rows a step do not split into batches of {recipe.training.device_batch} × {processes}"


def _verl(path: Path, recipe: Recipe) -> LaunchFile:
    settings = verl_settings(path.read_text("utf-8"))
    nodes, gpus = (int(settings.get(f"trainer.{name}", "1")) for name in ("nnodes", "n_gpus_per_node"))
    wanted = {
        "algorithm.adv_estimator": "grpo",
        "data.train_batch_size": str(recipe.grpo.prompts),
        "actor_rollout_ref.rollout.n": str(recipe.grpo.samples),
        "actor_rollout_ref.actor.ppo_mini_batch_size": str(recipe.grpo.prompts // recipe.grpo.updates),
        "actor_rollout_ref.actor.use_kl_loss": str(bool(recipe.grpo.kl)),
        "reward.custom_reward_function.name": "compute_score",
    }
    problems = [
        f"{key} is {settings.get(key)!r}, and the recipe says {value!r}"
        for key, value in wanted.items()
        if str(settings.get(key)).lower() != value.lower()
    ]
    numbers = {
        "actor_rollout_ref.actor.optim.lr": recipe.training.learning_rate,
        "actor_rollout_ref.actor.clip_ratio_low": recipe.grpo.clip_low,
        "actor_rollout_ref.actor.clip_ratio_high": recipe.grpo.clip_high,
        "data.max_response_length": recipe.grpo.max_completion,
    }
    problems += [
        f"{key} is {settings.get(key)!r}, and the recipe says {number:g}"
        for key, number in numbers.items()
        if not _equal(settings.get(key), number)
    ]
    for key in ("generator", "scorer"):
        if f"reward.custom_reward_function.reward_kwargs.{key}" not in settings:
            problems.append(f"reward.custom_reward_function.reward_kwargs.{key} is missing")
    return LaunchFile(path, "verl", nodes * gpus, nodes, True, tuple(problems))


def verl_settings(script: str) -> dict[str, str]:
    """The settings that a script gives to verl, its variables replaced by their defaults."""
    plain = _DEFAULT.sub(lambda match: match[2], script)
    names = dict(re.findall(r"^(\w+)=(\S*)$", plain, re.MULTILINE))
    settings = {}
    for line in plain.splitlines():
        if (match := _SETTING.match(line)) and "." in match[1]:
            value = " ".join(shlex.split(match[2].removesuffix("\\")))
            settings[match[1]] = re.sub(
                r"\$\{?(\w+)\}?", lambda name: " ".join(shlex.split(names.get(name[1], name[0]))), value
            )
    return settings


def _equal(text: str | None, number: float) -> bool:
    try:
        return text is not None and float(text) == float(number)
    except ValueError:
        return False
