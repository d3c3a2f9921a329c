"""Every backend against the contract of its kind. A new one joins by a line in one of the two lists."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interleave.backends.registry import load_generator, load_vlm
from interleave.diagnostics.contract import Check, Known, Status, checks_for

GENERATORS = {
    # spec: the side of its images
    "solid": 512,
    "solid?size=256": 256,
    "solid?size=64&delay=0.001": 64,
    "world": 256,
    "world?mistakes=0.5": 256,
}

VLMS = [
    # spec, role
    ("scripted", "planner"),
    ("scripted", "critic"),
    ("scripted", "scorer"),
    ("scripted:./script.jsonl", "planner"),
    ("scripted:./script.jsonl", "critic"),
]

SCRIPT = """\
{"text": "yes, and no", "tokens": [["yes", 0.9], [", and ", 1.0], ["no", 0.0]]}
{"text": "no"}
"""


def keeps(check: Check, backend: object, known: Known) -> None:
    """The backend keeps the promise, or has not made it."""
    result = asyncio.run(check.on(backend, known))
    if result.status is Status.SKIPPED:
        pytest.skip(f"does not apply: {result.reason}")
    assert result.status is Status.PASSED, result.reason


@pytest.mark.parametrize("check", checks_for("generator"), ids=str)
@pytest.mark.parametrize(("spec", "size"), GENERATORS.items(), ids=GENERATORS)
def test_a_generator_keeps_its_contract(spec: str, size: int, check: Check) -> None:
    keeps(check, load_generator(spec), Known(size=(size, size)))


@pytest.mark.parametrize("check", checks_for("planner"), ids=str)
@pytest.mark.parametrize(("spec", "role"), VLMS)
def test_a_model_keeps_its_contract(spec: str, role: str, check: Check) -> None:
    Path("script.jsonl").write_text(SCRIPT, "utf-8")
    keeps(check, load_vlm(spec, role), Known(role=role))
