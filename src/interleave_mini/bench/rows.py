"""The rows of the ablation table: which system works in each, and with which planner and critic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from interleave.agents.prompts import load_pack
from interleave.backends.registry import check_agent
from interleave.config.specs import parse_spec
from interleave.errors import ConfigurationError, did_you_mean
from interleave_mini.language.tasks import SUITES

ORACLE = "oracle"
AGENTS_FOLDER = "agents"
SHIPPED = {"planner": "mini", "critic": "mini"}
"""What comes with this package, where no trained folder is given."""
FURTHER_SUITES = ("story", "edit")

_HOW_FAST = {"batch", "compile", "device", "dtype", "concurrency"}
"""Options in which the specs of one model may differ from machine to machine."""


@dataclass(frozen=True)
class Row:
    """A line of the table. Planner and critic go by the names of their folders below DIR/agents."""

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
        """The agents that work in it and have to be trained."""
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


class NotThere(Exception):
    """Why a row cannot be run: it is said in the table."""


@dataclass(frozen=True)
class Cast:
    """Where the agents of the rows come from, and how they are loaded and asked."""

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
        """The spec of an agent by name; raises `NotThere` with the reason when there is no such agent."""
        if name == ORACLE:
            return ORACLE
        spec = parse_spec(self._learned(name))
        asked = parse_spec(f"{spec.name}?{self.options}").options if self.options else {}
        full = str(replace(spec, options={**spec.options, **asked}))
        try:
            check_agent(full, role)
            load_pack(self.prompts)
        except ConfigurationError as error:
            raise NotThere(str(error)) from None
        return full

    def _learned(self, name: str) -> str:
        if self.trained is None:
            if name not in SHIPPED:
                raise NotThere(f"{name!r} does not come with this package: train it, then give --trained DIR")
            return SHIPPED[name]
        folder = self.trained / AGENTS_FOLDER / name
        if not folder.is_dir():
            raise NotThere(f"there is no {folder}")
        return f"transformers:{folder if folder.is_absolute() else f'./{folder}'}"

    def choices(self, row: Row) -> dict[str, Any]:
        """What a run of this row chooses; raises `NotThere`."""
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
    """The spec without what only says how it is computed."""
    parsed = parse_spec(spec)
    kept = {key: value for key, value in parsed.options.items() if key not in _HOW_FAST}
    return str(replace(parsed, options=kept))
