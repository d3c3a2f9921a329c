"""A run with edits, and a folder of its own for keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from private_words import SECRET_PROMPT, SECRET_TITLE

from interleave import Plan, PlanStep, generate

pytest.importorskip("c2pa")


@pytest.fixture(scope="session")
def made_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four steps, each drawn from the one before."""
    folder = tmp_path_factory.mktemp("provenance") / "run"
    steps = tuple(PlanStep(number=n, name=f"Part {n}", prompt=f"{SECRET_PROMPT} {n}") for n in range(1, 5))
    generate(
        SECRET_TITLE,
        plan=Plan(steps=steps),
        profile="dry-run",
        generator="solid?size=64",
        critic="none",
        out=folder,
    )
    return folder


@pytest.fixture(autouse=True)
def own_keys(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("INTERLEAVE_CONFIG", str(folder))
    return folder
