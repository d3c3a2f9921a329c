"""Every remote backend, with its real SDK, against the contract of its kind, at a server on the loopback."""

from __future__ import annotations

import asyncio

import pytest

import loopback as wire
from interleave.backends.registry import load_generator, load_vlm
from interleave.diagnostics.contract import Check, Known, Status, checks_for, examine
from loopback import SIDE, Loopback

GENERATORS = {
    "openai-images, gpt-image": "openai-images:gpt-image-2@{url}/v1",
    "openai-images, sglang": "openai-images:klein@{url}/v1?server=sglang&steps=4",
    "openai-images, vllm-omni": "openai-images:klein@{url}/v1?server=vllm-omni&size=512x512",
    "gemini": "gemini:gemini-3-pro-image-preview@{url}",
    "http, edit": "{url}",
    "http, both": "{url}?wire=both&steps=4",
    "http, generate": "{url}?wire=generate",
    "comfyui": "comfyui:./edit.json@{url}?text=./text.json",
    "comfyui, edits only": "comfyui:./edit.json@{url}",
}
VLMS = {
    "openai": "openai:qwen3-vl@{url}/v1?price_in=1&price_out=2",
    "openai, logprobs": "openai:qwen3-vl@{url}/v1?logprobs=true",
    "openai, Azure": "openai:gpt-5@{url}/openai/deployments/x?api_version=2025-04-01-preview",
    "gemini": "gemini:gemini-2.5-flash@{url}",
}


def keeps(check: Check, backend: object, known: Known) -> None:
    result = asyncio.run(check.on(backend, known))
    if result.status is Status.SKIPPED:
        pytest.skip(f"does not apply: {result.reason}")
    assert result.status is Status.PASSED, result.reason


@pytest.mark.parametrize("check", checks_for("generator"), ids=str)
@pytest.mark.parametrize("spec", GENERATORS.values(), ids=GENERATORS)
def test_a_generator_keeps_its_contract(spec: str, check: Check, loopback: Loopback) -> None:
    # The loopback draws the same image for the same request even where the backend promises no seeds.
    keeps(check, load_generator(spec.format(url=loopback.url)), Known(size=(SIDE, SIDE), repeatable=True))


@pytest.mark.parametrize("check", checks_for("planner"), ids=str)
@pytest.mark.parametrize("spec", VLMS.values(), ids=VLMS)
def test_a_model_keeps_its_contract(spec: str, check: Check, loopback: Loopback) -> None:
    keeps(check, load_vlm(spec.format(url=loopback.url), "planner"), Known("planner", repeatable=True))


def without_eyes(number: int, asked: wire.Asked) -> wire.Fault | None:
    """A server with a model of text alone, as llama.cpp says it."""
    told = {"error": {"code": 500, "message": "image input is not supported", "type": "server_error"}}
    return wire.status(500, told) if b"image_url" in asked.body else None


def results_of(spec: str, role: str) -> dict[str, Status]:
    async def examining() -> dict[str, Status]:
        vlm = load_vlm(spec, role)
        return {each.check: each.status async for each in examine(vlm, Known(role=role), quick=True)}

    return asyncio.run(examining())


def test_a_planner_of_text_alone_passes(loopback: Loopback) -> None:
    loopback.fault = without_eyes
    results = results_of(f"openai:smol@{loopback.url}/v1", "planner")
    assert Status.FAILED not in results.values()
    assert results["a reply has text and a finish reason"] is Status.PASSED
    assert results["answers text with an image"] is Status.SKIPPED
    assert results["answers images without text"] is Status.SKIPPED


def test_a_critic_of_text_alone_fails_and_is_not_called_unreachable(loopback: Loopback) -> None:
    loopback.fault = without_eyes
    results = results_of(f"openai:smol@{loopback.url}/v1", "critic")
    assert results["answers text with an image"] is Status.FAILED
    assert len(results) == len(checks_for("critic", quick=True)), "it was given up as unreachable"
