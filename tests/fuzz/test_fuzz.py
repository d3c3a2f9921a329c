"""Every text and file from outside, damaged: refused with a typed error, or accepted with all rules kept.

`make test` tries a few mutants of each target, the same ones every time. `make test-all` tries many new ones:
FUZZ_EXAMPLES says how many, and FUZZ_SEED, which is printed, which ones. An input that breaks a rule is
written to a file, and kept by moving it to `cases/FAMILY/TARGET/`; the cases there are tried always.
"""

from __future__ import annotations

import logging
import os
import tempfile
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from fuzzing import TARGETS, Target
from fuzzing.mutations import Mutant, mutants, read_case
from fuzzing.watching import confined
from hypothesis import HealthCheck, Phase, given, seed, settings

FAMILIES = (
    "requests",
    "plans",
    "replies",
    "journals",
    "images",
    "books",
    "documents",
    "server",
    "answers",
    "configuration",
    "data",
    "rows",
    "benchmarks",
)
for family in FAMILIES:
    __import__(f"fuzzing.{family}")

# Starlette leaves the file of a form that breaks off to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed file <tempfile.Spooled:ResourceWarning")

LONG_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES") or 1000)
LONG_SEED = int(os.environ.get("FUZZ_SEED") or int.from_bytes(os.urandom(4)))
BY_NAME = {target.name: target for target in TARGETS}
KEPT = [
    pytest.param(target, case, id=f"{target.name}-{case.name}") for target in TARGETS for case in target.cases
]
each_target = pytest.mark.parametrize("target", [pytest.param(target, id=target.name) for target in TARGETS])


@pytest.fixture(autouse=True)
def without_a_word() -> Iterator[None]:
    """What is logged about a thousand bad inputs helps nobody."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def search(target: Target, examples: int, number: int) -> int:
    """Try so many mutants; returns how many were accepted."""
    accepted = 0

    def survives(mutant: Mutant) -> None:
        nonlocal accepted
        accepted += watched(target, mutant.build(target))

    tried = given(mutants(target))(survives)
    tried = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )(tried)
    seed(number)(tried)()
    return accepted


@cache
def warm_up(target: Target) -> None:
    """What is imported or started for the first time may write anywhere."""
    target.check(target.seeds[0])


def watched(target: Target, data: bytes) -> bool:
    """Check one input; one that breaks a rule is written down, the smallest last."""
    warm_up(target)
    try:
        with confined():
            return bool(target.check(data))
    except Exception as error:
        found = Path(tempfile.gettempdir()) / "interleave-fuzz" / target.name
        found.parent.mkdir(exist_ok=True)
        found.write_bytes(data)
        place = f"tests/fuzz/cases/{target.family}/{target.check.__name__}/"
        error.add_note(f"{target.name}: the input is in {found}; to keep it, mv it to {place}WHAT-IT-SHOWS")
        raise


@each_target
def test_an_undamaged_input_is_accepted(target: Target) -> None:
    assert target.seeds
    for number, data in enumerate(target.seeds):
        assert watched(target, data), f"seed {number} of {target.name} is refused"


@pytest.mark.parametrize(("target", "case"), KEPT)
def test_a_kept_case_breaks_no_rule(target: Target, case: Path) -> None:
    watched(target, read_case(target, case))


@each_target
def test_damaged_input_breaks_no_rule(target: Target) -> None:
    search(target, target.examples, zlib.crc32(target.name.encode()))


@pytest.mark.slow
@each_target
def test_much_damaged_input_breaks_no_rule(target: Target, capsys: pytest.CaptureFixture[str]) -> None:
    examples = max(1, round(LONG_EXAMPLES * target.weight))
    with capsys.disabled():
        print(f"\n{target.name}: FUZZ_SEED={LONG_SEED} FUZZ_EXAMPLES={LONG_EXAMPLES}", end=" ", flush=True)
    accepted = search(target, examples, LONG_SEED)
    with capsys.disabled():
        print(f"{examples} tried, {accepted} accepted", end=" ", flush=True)
