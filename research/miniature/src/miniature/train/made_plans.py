"""Plans that a planner made for worked requests which it had not learned, right and wrong, for the critic.

Plans with one exchanged action are wrong in other ways than those of a planner: it leaves out who does
something, goes on where the request ends, or falls into a story that it knows.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any


@dataclass(frozen=True)
class MadePlan:
    """A request and the prompts of its plan; what is wrong with it and the better prompt, if it is wrong."""

    request: str
    prompts: tuple[str, ...]
    fault: str = ""
    better: str = ""


def sample_made_plan(rng: Random, *, is_right: bool) -> MadePlan:
    """Return one that fits its request, or one that does not."""
    return rng.choice(_made_plans()[is_right])


@cache
def _made_plans() -> tuple[tuple[MadePlan, ...], tuple[MadePlan, ...]]:
    """Return the wrong ones and the right ones."""
    packed = files(__package__).joinpath("made_plans.jsonl.gz").read_bytes()
    made = [_parsed(json.loads(line)) for line in gzip.decompress(packed).splitlines()]
    return tuple(each for each in made if each.fault), tuple(each for each in made if not each.fault)


def _parsed(line: dict[str, Any]) -> MadePlan:
    return MadePlan(line["request"], tuple(line["plan"]), line.get("fault", ""), line.get("better", ""))
