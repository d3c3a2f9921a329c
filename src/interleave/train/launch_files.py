"""Checks launch files of accelerate and verl against the recipe before a cluster is requested."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interleave import ConfigurationError
from interleave.train.recipes import Recipe

SHARDED = {"FSDP": "FSDP", "DEEPSPEED": "DeepSpeed ZeRO"}
ESTIMATOR, MODULE = "interleave_grpo", "interleave.train.trainers.verl_advantages"
"""The estimator that excludes samples without a reward, and the module from which verl imports it."""
OLD_PACKAGE = ("interleave.train.", "interleave.train.")
"""The package name in old scripts, which can still be imported, and the current one."""
REWARD_OPTIONS = "reward.custom_reward_function.reward_kwargs"
_DEFAULT = re.compile(r"\$\{(\w+):-([^}]{0,1000})\}")
_ASSIGNED = re.compile(r"^(?:export )?(\w+)=(\S*)$")
_UNLESS_FILE = re.compile(r'^\[ -f "\$(\w+)" \] \|\| (\w+)=(\S+)$')
"""The only supported condition: another file if the first is missing."""
_SETTING = re.compile(r"\s*+\+{0,2}([\w.]+)=(.*)")
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'")
_PLAIN = re.compile(r"[\w/\-+.$%*@?|:]*")
"""Characters that Hydra reads as one value without quotes."""


@dataclass(frozen=True)
class LaunchFile:
    """Contents of a launch file."""

    path: Path
    kind: str
    processes: int
    nodes: int
    sharded: bool
    problems: tuple[str, ...] = field(default=())


def read_launch(path: Path, recipe: Recipe, layers: Iterable[str] = ()) -> LaunchFile:
    """Read a launch file and its problems with this recipe; `layers` are the class names in the model."""
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
    except Exception as error:  # the library's YAML reader and checks raise many types
        reason = str(error).strip().splitlines()[0]
        raise ConfigurationError(f"{path} is not a launch file of accelerate ({reason})") from None
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
        yield "fsdp_transformer_layer_cls_to_wrap is missing: each device would hold the whole model"


def _wrong_deepspeed(deepspeed: Mapping[str, Any], recipe: Recipe) -> Iterable[str]:
    if deepspeed.get("zero_stage") not in (2, 3):
        yield f"zero_stage is {deepspeed.get('zero_stage')!r}: write 2 or 3"
    if recipe.task == "grpo" and deepspeed.get("zero_stage") == 3 and not deepspeed.get("zero3_init_flag"):
        yield "zero3_init_flag should be true with zero_stage 3: otherwise one device builds the whole model"


def _wrong_batches(recipe: Recipe, processes: int) -> Iterable[str]:
    global_batch = recipe.training.device_batch * processes
    total = recipe.grpo.completions if recipe.task == "grpo" else recipe.training.batch
    if total % global_batch:
        yield f"{total} rows a step do not split into batches of {recipe.training.device_batch} × {processes}"


def _verl(path: Path, recipe: Recipe) -> LaunchFile:
    script = path.read_text("utf-8")
    settings = verl_settings(script)
    nodes, gpus = (int(settings.get(f"trainer.{name}", "1")) for name in ("nnodes", "n_gpus_per_node"))
    wanted = {
        "algorithm.adv_estimator": ESTIMATOR,
        f"{REWARD_OPTIONS}.failed": "mark",
        "ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_MODULES": MODULE,
    }
    problems = [
        f"{key} is {settings.get(key)!r}, not {value!r}: samples whose reward failed would be dropped one by "
        "one, which teaches the critic to accept wrong images"
        for key, value in wanted.items()
        if settings.get(key, "").replace(*OLD_PACKAGE) != value
    ]
    wanted = {
        "data.train_batch_size": str(recipe.grpo.prompts),
        "actor_rollout_ref.rollout.n": str(recipe.grpo.samples),
        "actor_rollout_ref.actor.ppo_mini_batch_size": str(recipe.grpo.prompts // recipe.grpo.updates),
        "actor_rollout_ref.actor.use_kl_loss": str(bool(recipe.grpo.kl)),
        "algorithm.use_kl_in_reward": "False",
        "reward.custom_reward_function.name": "compute_score",
    }
    problems += [
        f"{key} is {settings.get(key)!r}, but the recipe says {value!r}"
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
        f"{key} is {settings.get(key)!r}, but the recipe says {number:g}"
        for key, number in numbers.items()
        if not _equal(settings.get(key), number)
    ]
    for key in ("generator", "scorer"):
        if f"{REWARD_OPTIONS}.{key}" not in settings:
            problems.append(f"{REWARD_OPTIONS}.{key} is missing")
    problems += [*_unquoted(script), *_missing_files(settings)]
    return LaunchFile(path, "verl", nodes * gpus, nodes, True, tuple(problems))


def _unquoted(script: str) -> Iterable[str]:
    """Find values that Hydra would not read as one text: bare variables, and bare commas, = or brackets."""
    for key, value in _arguments(script).items():
        if _QUOTED.fullmatch(value) or value.startswith(("[", "{")):
            continue
        resolved = _resolved(value, _variables(script))
        if not _PLAIN.fullmatch(resolved) or (f".{key}".endswith((".generator", ".scorer")) and "$" in value):
            yield f"{key} is not quoted, and Hydra parses commas, = and brackets: write {key}=\"'…'\""


def _missing_files(settings: Mapping[str, str]) -> Iterable[str]:
    """Find missing row files, if their export is on this machine."""
    train = Path(settings.get("data.train_files", ""))
    for key in ("data.train_files", "data.val_files"):
        if train.parent.is_dir() and not Path(settings.get(key, "")).is_file():
            yield (
                f"{key} is {settings.get(key)!r}, which does not exist: verl opens it even without "
                "validation. Small exports have no validation rows: set it to data.train_files"
            )


def verl_settings(script: str) -> dict[str, str]:
    """Return the settings that a script passes to verl, with shell variables expanded."""
    names = _variables(script)
    settings = {}
    for key, value in _arguments(script).items():
        resolved = _resolved(value, names)
        quoted = _QUOTED.fullmatch(resolved)
        settings[key] = resolved[1:-1].replace("\\'", "'") if quoted else resolved
    return settings


def _arguments(script: str) -> dict[str, str]:
    """Return the arguments of the form `key.key=value`, before variables are expanded."""
    found = (_SETTING.match(line) for line in script.splitlines())
    return {
        match[1]: " ".join(shlex.split(match[2].removesuffix("\\")))
        for match in found
        if match and "." in match[1]
    }


def _variables(script: str) -> dict[str, str]:
    """Return the variables of a script: from the environment, else its defaults."""
    names: dict[str, str] = {}
    for line in script.splitlines():
        if assigned := _ASSIGNED.match(line):
            value = _DEFAULT.sub(lambda match: os.environ.get(match[1]) or match[2], assigned[2])
            names[assigned[1]] = _resolved(" ".join(shlex.split(value)), names)
        elif (other := _UNLESS_FILE.match(line)) and not Path(names.get(other[1], "")).is_file():
            names[other[2]] = _resolved(other[3], names)
    return names


def _resolved(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\$\{?(\w+)\}?", lambda name: names.get(name[1], name[0]), text)


def _equal(text: str | None, number: float) -> bool:
    try:
        return text is not None and float(text) == float(number)
    except ValueError:
        return False
