"""A refused plan names the step whose prompt cannot be drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from interleave import InputError, api, release_plan
from interleave.backends import registry


def draws(prompt: str) -> None:
    if "part 2" in prompt:
        raise InputError("there is no part 2")


def test_a_prompt_that_cannot_be_drawn_is_refused_with_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    api.generate(
        "A frog, in three pictures", profile="dry-run", generator="solid?size=64", out=folder, hold_plan=True
    )
    info = replace(registry.GENERATORS["solid"], draws=f"{__name__}:draws")
    monkeypatch.setitem(registry.GENERATORS, "solid", info)
    with pytest.raises(InputError, match=r"^step 2: there is no part 2$"):
        release_plan(folder)
