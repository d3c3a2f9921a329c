"""OmniGen2 by the package of its authors: a tiny model of its real classes keeps the contract."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest
from programs import skip

from interleave.backends.registry import load_generator
from interleave.diagnostics.contract import Known, Status, checks_for, examine
from interleave.local.tiny.pipelines import SIDE, build_tiny_pipeline


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sys.path[:0] = [path for path in os.environ.get("OMNIGEN2", "").split(os.pathsep) if path]
    if not all(map(importlib.util.find_spec, ("omnigen2", "einops"))):
        skip("OmniGen2", "git clone it, pip install einops, and name the folder with OMNIGEN2")
    return build_tiny_pipeline(tmp_path_factory.mktemp("omnigen2") / "model", "OmniGen2Pipeline")


def test_it_keeps_the_contract(model: Path) -> None:
    async def examining() -> dict[str, tuple[Status, str]]:
        generator = load_generator(f"diffusers:{model}")
        results = examine(generator, Known(size=(SIDE, SIDE)))
        return {each.check: (each.status, each.reason) async for each in results}

    results = asyncio.run(examining())
    assert len(results) == len(checks_for("generator"))
    assert [check for check, (status, _) in results.items() if status is Status.FAILED] == []


def test_an_index_that_names_the_code_beside_the_weights_is_loaded_without_it(model: Path) -> None:
    """As the model is published; such code would be refused, and is not needed."""
    index = json.loads((model / "model_index.json").read_text())
    index["transformer"][0] = "transformer_omnigen2"
    index["scheduler"][0] = "scheduling_flow_match_euler_discrete_time_shifting"
    (model / "model_index.json").write_text(json.dumps(index))
    assert load_generator(f"diffusers:{model}").capabilities.max_sources == 3
