"""`?concurrency` and `?timeout` hold for a backend whose author never thought of them."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pydantic import BaseModel

from clocks import run_jumping
from interleave.backends import registry
from interleave.backends.protocols import (
    GeneratorCapabilities,
    ImageRequest,
    Message,
    Reply,
    Sampling,
    VlmCapabilities,
)
from interleave.backends.registry import BackendInfo, load_generator, load_vlm
from interleave.backends.retries import RetriedGenerator, RetriedVlm
from interleave.config.specs import BackendOptions, Spec
from interleave.diagnostics import contract
from interleave.diagnostics.contract import Known, Status
from interleave.errors import BackendError, ConfigurationError, Failure


class Plugin:
    """A generator as in the tutorial: it reads neither option."""

    class Options(BackendOptions):
        size: int = 64

    def __init__(self, *, spec: Spec, options: Options) -> None:
        self.capabilities = GeneratorCapabilities(price_per_image=0.0)
        self.size = options.size
        self.seconds = 1.0
        self.in_flight = self.most = 0

    async def generate(self, request: ImageRequest) -> Image.Image:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.in_flight -= 1
        return Image.new("RGB", (self.size, self.size))


class BarePlugin(Plugin):
    """One whose options are not ours."""

    class Options(BaseModel):  # type: ignore[assignment]
        size: int = 64


class Speaker:
    class Options(BackendOptions):
        pass

    def __init__(self, *, spec: Spec, options: Options) -> None:
        self.capabilities = VlmCapabilities()

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        await asyncio.sleep(1)
        return Reply("done")


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"plugin": Plugin, "bare": BarePlugin}
    for name, kind in here.items():
        monkeypatch.setitem(
            registry.GENERATORS, name, BackendInfo(f"{__name__}:{kind.__name__}", "of a test")
        )
    monkeypatch.setitem(registry.VLMS, "speaker", BackendInfo(f"{__name__}:Speaker", "of a test"))


def draw_many(generator: Any, count: int) -> None:
    async def drawing() -> None:
        retried = RetriedGenerator("it", generator)
        await asyncio.gather(*(retried.generate(ImageRequest(f"cat {n}", n)) for n in range(count)))

    run_jumping(drawing())


@pytest.mark.parametrize("name", ["plugin", "bare"])
def test_concurrency_holds(name: str) -> None:
    generator: Any = load_generator(f"{name}?concurrency=3&size=32")
    assert generator.capabilities == GeneratorCapabilities(price_per_image=0.0, concurrency=3)
    draw_many(generator, 20)
    assert (generator.most, generator.size) == (3, 32)
    unlimited: Any = load_generator(name)
    draw_many(unlimited, 20)
    assert unlimited.most == 20


@pytest.mark.parametrize("name", ["plugin", "bare"])
def test_a_timeout_holds(name: str) -> None:
    generator: Any = load_generator(f"{name}?timeout=5")
    assert generator.capabilities.timeout == 5
    assert run_jumping(generator.generate(ImageRequest("a cat", 7))).size == (64, 64)
    generator.backend.seconds = 6
    with pytest.raises(BackendError, match=r"no answer within 5 s; raise \?timeout=SECONDS") as late:
        run_jumping(generator.generate(ImageRequest("a cat", 7)))
    assert (late.value.kind, late.value.transient) == (Failure.TIMEOUT, True)


def test_a_timeout_longer_than_the_usual_gives_all_tries_as_long() -> None:
    assert load_generator("plugin?timeout=1000").capabilities.deadline == 1000
    assert load_generator("plugin?timeout=10").capabilities.deadline is None
    slow: Any = load_generator("plugin?timeout=1000")
    slow.backend.seconds = 900
    draw_many(slow, 1)


def test_they_hold_for_a_model_that_answers() -> None:
    vlm = load_vlm("speaker?concurrency=2&timeout=0.5", "planner")
    assert (vlm.capabilities.concurrency, vlm.capabilities.timeout) == (2, 0.5)

    async def asking() -> None:
        await RetriedVlm("it", vlm).complete([], Sampling())

    with pytest.raises(BackendError, match=r"within 0\.5 s"):
        run_jumping(asking())


@pytest.mark.parametrize(
    "spec", ["bare?concurrency=0", "bare?concurrency=x", "plugin?timeout=0", "bare?timeout=-1"]
)
def test_what_cannot_be_a_limit_is_refused(spec: str) -> None:
    with pytest.raises(ConfigurationError, match="option"):
        load_generator(spec)


def test_a_backend_that_keeps_them_itself_is_left_alone() -> None:
    from interleave.backends.fakes import SolidGenerator
    from interleave.remote.http_generator import HttpGenerator

    assert type(load_generator("http://127.0.0.1:1?concurrency=3&timeout=7")) is HttpGenerator
    assert type(load_generator("solid?concurrency=3")) is SolidGenerator
    assert type(load_generator("plugin")) is Plugin


def test_a_wrapped_backend_can_be_copied() -> None:
    generator: Any = load_generator("plugin?concurrency=3")
    again = pickle.loads(pickle.dumps(generator))
    assert again.capabilities == generator.capabilities


EVERY = {
    "generator": [
        *("solid", "none", "world", "plugin", "bare", "http://127.0.0.1:1", "gemini:m@http://127.0.0.1:1"),
        *("openai-images:m@http://127.0.0.1:1/v1", "comfyui:./text.json@http://127.0.0.1:1"),
        "json:automatic1111@http://127.0.0.1:1",
    ],
    "planner": ["scripted", "openai:m@http://127.0.0.1:1/v1", "gemini:m@http://127.0.0.1:1", "speaker"],
}
LOADS_WEIGHTS = {"diffusers", "transformers", "mini"}
"""They keep both limits by the wrapper, as a plugin does; their weights are not loaded for this."""


@pytest.mark.parametrize(
    ("role", "spec"), [(role, spec) for role, specs in EVERY.items() for spec in specs], ids=str
)
def test_every_backend_takes_both_limits_and_says_so(
    role: str, spec: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "sk-a-key-of-a-test")
    monkeypatch.chdir(tmp_path)
    workflow = {"6": {"class_type": "CLIPTextEncode", "inputs": {"text": "{{prompt}}"}}}
    Path("text.json").write_text(json.dumps(workflow))
    asked = f"{spec}?concurrency=3&timeout=7"
    backend = load_generator(asked) if role == "generator" else load_vlm(asked, role)
    assert (backend.capabilities.concurrency, backend.capabilities.timeout) == (3, 7)
    assert registry.shared_options(asked) == BackendOptions(concurrency=3, timeout=7)


def test_no_backend_is_forgotten_above() -> None:
    tried = {registry._parsed(spec).name for specs in EVERY.values() for spec in specs}
    assert {*registry.known_names("generator", "vlm")} - tried == LOADS_WEIGHTS


LIMITS = "keeps the concurrency and timeout of its spec"


def result_of(backend: Any, known: Known) -> tuple[Status, str]:
    (check,) = (each for each in contract.checks_for(known.role) if str(each) == LIMITS)
    result = run_jumping(check.on(backend, known))
    return result.status, result.reason


@pytest.mark.parametrize(
    ("make", "known", "status", "said"),
    [
        (lambda: load_generator("plugin?concurrency=3"), Known(concurrency=3), Status.PASSED, ""),
        (lambda: load_generator("plugin"), Known(), Status.SKIPPED, "unlimited"),
        (
            lambda: Plugin(spec=Spec("plugin"), options=Plugin.Options()),
            Known(concurrency=3),
            Status.FAILED,
            "its spec sets concurrency=3, but its capabilities have None",
        ),
        (
            lambda: Plugin(spec=Spec("plugin"), options=Plugin.Options()),
            Known(timeout=2),
            Status.FAILED,
            "its spec sets timeout=2, but its capabilities have None",
        ),
        (
            lambda: load_vlm("speaker?concurrency=2", "planner"),
            Known(role="planner", concurrency=2),
            Status.PASSED,
            "",
        ),
    ],
)
def test_the_contract_checks_them(make: Callable[[], Any], known: Known, status: Status, said: str) -> None:
    found, reason = result_of(make(), known)
    assert found is status, reason
    assert said in reason


@pytest.mark.parametrize("concurrency", [0, -1, 2.5, True])
def test_the_contract_refuses_a_concurrency_that_is_none(concurrency: Any) -> None:
    plugin = Plugin(spec=Spec("plugin"), options=Plugin.Options())
    plugin.capabilities = GeneratorCapabilities(concurrency=concurrency)
    assert result_of(plugin, Known()) == (Status.FAILED, f"its concurrency is {concurrency!r}")


@pytest.mark.parametrize(
    ("spec", "first"),
    [
        ("openai:m@http://127.0.0.1:8000/v1", 4),
        ("openai:m@https://example.com/v1", 4),
        ("openai:m@http://127.0.0.1:8000/v1?concurrency=64", None),
        ("openai:gpt-5", None),
        ("openai:m@https://openrouter.ai/api/v1", None),
        ("gemini:gemini-3.5-flash", None),
        ("gemini:m@http://127.0.0.1:4000", 4),
    ],
)
def test_a_server_that_is_not_a_vendors_gets_few_calls_at_first(
    spec: str, first: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, "sk-a-key-of-a-test")
    assert load_vlm(spec, "planner").capabilities.first_concurrency == first


def test_services_get_few_images_at_first() -> None:
    two = load_generator("http://127.0.0.1:1,http://127.0.0.1:2").capabilities
    assert (two.first_concurrency, two.concurrency) == (8, 16)
    assert load_generator("openai-images:m@http://127.0.0.1:1/v1").capabilities.first_concurrency == 4


def test_a_backend_without_capabilities_is_told_so_by_the_contract() -> None:
    async def examining() -> list[Status]:
        retried = RetriedGenerator("it", object())  # type: ignore[arg-type]
        return [each.status async for each in contract.examine(retried, Known(), quick=True)]

    assert asyncio.run(examining())[0] is Status.FAILED
