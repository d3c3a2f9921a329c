"""The contract itself: every promise that matters is broken once, and the check of it says so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from PIL import Image

from interleave.backends.protocols import (
    GeneratorCapabilities,
    ImageRequest,
    Message,
    Reply,
    Sampling,
    VlmCapabilities,
)
from interleave.backends.registry import load_generator, load_vlm
from interleave.diagnostics import contract
from interleave.diagnostics.contract import Known, Result, Status
from interleave.errors import BackendError

SOLID = load_generator("solid?size=64")


class Generator:
    """Keeps every promise; each class below breaks one."""

    capabilities = GeneratorCapabilities(max_sources=3)

    async def generate(self, request: ImageRequest) -> Image.Image:
        if len(request.sources) > 3:
            raise BackendError("at most 3 sources")
        return await SOLID.generate(request)


class Grey(Generator):
    async def generate(self, request: ImageRequest) -> Image.Image:
        return (await super().generate(request)).convert("L")


class OfAnySize(Generator):
    async def generate(self, request: ImageRequest) -> Image.Image:
        return (await super().generate(request)).resize((64 + len(request.sources), 64))


class DeafToSeeds(Generator):
    async def generate(self, request: ImageRequest) -> Image.Image:
        return await super().generate(ImageRequest(request.prompt, 1, request.sources, request.slot))


class DeafToSources(Generator):
    async def generate(self, request: ImageRequest) -> Image.Image:
        await super().generate(request)
        return await super().generate(ImageRequest(request.prompt, request.seed, (), request.slot))


class OnlyTheLastSource(Generator):
    async def generate(self, request: ImageRequest) -> Image.Image:
        await super().generate(request)
        return await super().generate(
            ImageRequest(request.prompt, request.seed, request.sources[-1:], request.slot)
        )


class Greedy(Generator):
    async def generate(self, request: ImageRequest) -> Image.Image:
        return await SOLID.generate(request)


class PaintsOnItsSource(Generator):
    async def generate(self, request: ImageRequest) -> Image.Image:
        image = await super().generate(request)
        for source in request.sources:
            source.paste("red", (0, 0, 9, 9))
        return image


class DropsWords(Generator):
    async def generate(self, request: ImageRequest) -> Image.Image:
        return await super().generate(
            ImageRequest(request.prompt[:40], request.seed, request.sources, request.slot)
        )


class MixesUp(Generator):
    latest = ""

    async def generate(self, request: ImageRequest) -> Image.Image:
        self.latest = request.prompt
        await asyncio.sleep(0.005)
        return await super().generate(ImageRequest(self.latest, request.seed, request.sources, request.slot))


class DeafToCancelling(Generator):
    """Its second image takes an hour, so that it is cancelled on any machine."""

    calls = 0

    async def generate(self, request: ImageRequest) -> Image.Image:
        self.calls += 1
        try:
            await asyncio.sleep(3600 if self.calls == 2 else 0)
        except asyncio.CancelledError:
            raise ValueError("I was busy") from None
        return await super().generate(request)


class LeaksErrors(Generator):
    async def generate(self, request: ImageRequest) -> Image.Image:
        raise KeyError("b64_json")


BREAKS = {
    Grey: "images are RGB and of one size",
    OfAnySize: "images are RGB and of one size",
    DeafToSeeds: "different seeds give different images",
    DeafToSources: "an edit depends on its source",
    OnlyTheLastSource: "an edit depends on every source and their order",
    Greedy: "accepts max_sources sources and rejects more",
    PaintsOnItsSource: "does not change its sources",
    DropsWords: "different prompts give different images",
    MixesUp: "concurrent calls give the same images as sequential calls",
    DeafToCancelling: "a cancelled call ends without side effects",
    LeaksErrors: "generates an image",
}


def examined(backend: object, role: str = "generator") -> dict[str, Result]:
    async def collect() -> dict[str, Result]:
        return {result.check: result async for result in contract.examine(backend, Known(role=role))}

    return asyncio.run(collect())


def test_a_generator_that_keeps_everything_passes() -> None:
    contract.require(Generator())


@pytest.mark.parametrize(("broken", "name"), BREAKS.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_a_broken_promise_is_found(broken: type[Generator], name: str) -> None:
    (check,) = (check for check in contract.GENERATOR_CHECKS if check.name == name)
    assert asyncio.run(check.on(broken())).status is Status.FAILED


def test_one_line_in_a_test_names_every_broken_promise() -> None:
    with pytest.raises(AssertionError) as broken:
        contract.require(DeafToSources())
    assert "an edit depends on its source: two different sources gave the same image" in str(broken.value)


class Model:
    capabilities = VlmCapabilities(token_probabilities=True, knows_its_price=True, repeatable=True)

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        return Reply("")


def test_a_model_that_keeps_no_promise_fails_them_all() -> None:
    results = examined(Model(), "planner")
    failed = {name for name, result in results.items() if result.status is Status.FAILED}
    assert failed >= {
        "a reply has text and a finish reason",
        "reports a cost if knows_its_price is true",
        "token probabilities spell the reply",
        "answers images without text",
    }


def test_a_blank_prompt_may_be_refused_for_good_but_not_for_a_while() -> None:
    class Refuses(Generator):
        async def generate(self, request: ImageRequest) -> Image.Image:
            if not request.prompt.strip():
                raise BackendError("say what to draw")
            return await super().generate(request)

    results = examined(Refuses())
    assert results["accepts any prompt: empty"].status is Status.SKIPPED
    assert not [result for result in results.values() if result.status is Status.FAILED]


def test_a_backend_that_is_down_is_asked_once() -> None:
    class Down(Generator):
        calls = 0

        async def generate(self, request: ImageRequest) -> Image.Image:
            Down.calls += 1
            raise BackendError("connection refused", transient=True)

    *_, last = examined(Down()).values()
    assert last.unreachable
    assert Down.calls == 1


def test_a_model_is_required_by_one_line_as_well() -> None:
    contract.require(load_vlm("scripted", "planner"))
