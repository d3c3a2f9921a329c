"""The systems that are compared: the generator alone, with a planner, with planner and critic.

`choices_for` sets up one system for a run; `ROWS` are the systems of the ablation table, with their agents.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from interleave import ConfigurationError, CriticInput, Outcome, Plan, PlanStep, Request, Verdict
from interleave.plugin import backends, did_you_mean, images, load_pack, parse_spec
from interleave_mini.bench.tasks import SUITES, Task

SYSTEMS = {
    "base": "the generator alone: as many images as the truth has steps, each from the request itself and "
    "the image before; no text",
    "plan": "planner and generator, one attempt a step",
    "full": "planner, generator and critic",
}


class RequestAsPrompts:
    """The planner of the base system: the request itself is the prompt of every image."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._steps = {_key(task.request()): (task.first_number, len(task.steps)) for task in tasks}

    async def plan(self, request: Request) -> Plan:
        first, count = self._steps[_key(request)]
        return Plan(
            steps=tuple(
                PlanStep(number=number, prompt=request.text) for number in range(first, first + count)
            )
        )


class NoCritic:
    """Accepts every image."""

    async def judge(self, seen: CriticInput) -> Verdict:
        return Verdict(outcome=Outcome.ACCEPTED)


def choices_for(system: str, tasks: Iterable[Task], chosen: dict[str, Any]) -> dict[str, Any]:
    """The user's choices, without the agents that the system leaves out."""
    if system not in SYSTEMS:
        raise ConfigurationError(f"no system named {system!r}: choose one of {', '.join(SYSTEMS)}")
    if system == "full":
        return chosen
    without_critic = {**chosen, "critic": NoCritic(), "max_attempts": 1}
    if system == "plan":
        return without_critic
    tasks = list(tasks)
    if any(task.text_only for task in tasks):
        raise ConfigurationError(
            "a bare generator writes no text: 'annotate' is for the systems plan and full"
        )
    return {**without_critic, "planner": RequestAsPrompts(tasks)}


def _key(request: Request) -> tuple[str, ...]:
    return (request.text, *map(images.pixel_digest, request.images))


# The rows of the ablation table

ORACLE = "oracle"
AGENTS_FOLDER = "agents"
SHIPPED = {"planner": "mini", "critic": "mini"}
"""The agents that ship with this package, used where no trained folder is given."""
FURTHER_SUITES = ("story", "edit")

_SPEED_OPTIONS = {"batch", "compile", "device", "dtype", "concurrency"}
"""Spec options that change how fast a model is, not what it answers."""


@dataclass(frozen=True)
class Row:
    """A system of the table. Planner and critic are named by their folders below DIR/agents."""

    key: str
    label: str
    system: str
    planner: str = ""
    critic: str = ""
    further: bool = False
    """Whether it is one of the further rows: fewer tasks, two suites, compared with `full`."""

    @property
    def suites(self) -> tuple[str, ...]:
        return FURTHER_SUITES if self.further else SUITES

    @property
    def learned(self) -> set[str]:
        """The trained agents it needs."""
        return {self.planner, self.critic} - {"", ORACLE}


ROWS = (
    Row("generator", "the generator alone", "base"),
    Row("planner", "with the planner", "plan", "planner"),
    Row("critic-sft", "with the critic after SFT", "full", "planner", "critic-sft"),
    Row("full", "with the critic after GRPO", "full", "planner", "critic"),
    Row("oracle", "oracle planner and critic", "full", ORACLE, ORACLE, further=True),
    Row("no-step", "GRPO without the step-wise reward", "full", "planner", "critic-no-step", further=True),
    Row(
        "no-accuracy",
        "GRPO without the accuracy reward",
        "full",
        "planner",
        "critic-no-accuracy",
        further=True,
    ),
    Row("one-agent", "one agent as planner and critic", "full", "agent", "agent", further=True),
    Row("unfiltered", "critic from unfiltered data", "full", "planner", "critic-unfiltered", further=True),
)
FULL = "full"


class Unavailable(Exception):
    """Why a row cannot be run; the table shows the reason."""


@dataclass(frozen=True)
class AgentSpecs:
    """Where the agents of the rows come from, with their prompts and options."""

    trained: Path | None = None
    prompts: str = "mini"
    options: str = ""
    """Options for the specs of learned agents, such as `batch=256`."""

    def __post_init__(self) -> None:
        if self.trained is not None and not (self.trained / AGENTS_FOLDER).is_dir():
            raise ConfigurationError(
                f"{self.trained} has no folder {AGENTS_FOLDER!r}: --trained takes the folder that "
                "`interleave mini train all --out DIR` has written"
            )
        parse_spec(f"transformers:./any?{self.options}" if self.options else "oracle")

    def spec(self, name: str, role: str) -> str:
        """The spec of an agent by name; raises `Unavailable` with the reason when it does not exist."""
        if name == ORACLE:
            return ORACLE
        spec = parse_spec(self._learned(name))
        asked = parse_spec(f"{spec.name}?{self.options}").options if self.options else {}
        full = str(replace(spec, options={**spec.options, **asked}))
        try:
            backends.check_agent(full, role)
            load_pack(self.prompts)
        except ConfigurationError as error:
            raise Unavailable(str(error)) from None
        return full

    def _learned(self, name: str) -> str:
        if self.trained is None:
            if name not in SHIPPED:
                raise Unavailable(
                    f"{name!r} does not come with this package: train it, then give --trained DIR"
                )
            return SHIPPED[name]
        folder = self.trained / AGENTS_FOLDER / name
        if not folder.is_dir():
            raise Unavailable(f"there is no {folder}")
        return f"transformers:{folder if folder.is_absolute() else f'./{folder}'}"

    def choices(self, row: Row) -> dict[str, Any]:
        """What a run of this row chooses; raises `Unavailable`."""
        return {
            "profile": "oracle",
            "planner": self.spec(row.planner or ORACLE, "planner"),
            "critic": self.spec(row.critic or ORACLE, "critic"),
            **({"prompts": self.prompts} if row.learned else {}),
        }


def rows_named(keys: Iterable[str]) -> tuple[Row, ...]:
    """The rows with these keys, in the order of the table; none given means all."""
    wanted = list(keys)
    known = {row.key: row for row in ROWS}
    for key in wanted:
        if key not in known:
            raise ConfigurationError(f"no row named {key!r}. {did_you_mean(key, known)}")
    return tuple(row for row in ROWS if not wanted or row.key in wanted)


def suites_named(names: Iterable[str]) -> tuple[str, ...]:
    """The suites with these names; none given means that every row has its own."""
    wanted = list(names)
    for name in wanted:
        if name not in SUITES:
            raise ConfigurationError(f"no suite named {name!r}. {did_you_mean(name, SUITES)}")
    return tuple(suite for suite in SUITES if suite in wanted)


def same_model(spec: str) -> str:
    """The spec without the options that only change its speed."""
    parsed = parse_spec(spec)
    kept = {key: value for key, value in parsed.options.items() if key not in _SPEED_OPTIONS}
    return str(replace(parsed, options=kept))
