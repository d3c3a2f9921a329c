"""What a paid run says of its cost, before the first call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from interleave.backends.protocols import GeneratorCapabilities, ImageRequest, VlmCapabilities
from interleave.backends.registry import load_generator, load_vlm
from interleave.cli.main import run
from interleave.config.profiles import load_profile

Captured = pytest.CaptureFixture[str]
SOLID = load_generator("solid?size=64")


class Paid:
    """A generator that costs five cents an image."""

    capabilities = GeneratorCapabilities(max_sources=1, price_per_image=0.05)

    async def generate(self, request: ImageRequest) -> Image.Image:
        return await SOLID.generate(request)


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interleave.runs.resolve.load_generator", lambda spec: Paid())


def said(capsys: Captured, *arguments: str) -> list[str]:
    assert run(["generate", *arguments, "--out", "run"]) in (0, 1)
    return capsys.readouterr().err.splitlines()


@pytest.mark.usefixtures("priced")
def test_the_cost_is_said_before_the_first_call(capsys: Captured) -> None:
    lines = said(capsys, "A boat in 4 pictures", "--max-attempts", "3")
    note = next(line for line in lines if line.startswith("cost"))
    assert "4 images in at most 3 attempts each" in note
    assert "$0.05 an attempt, at most $0.60" in note
    assert lines.index(note) < next(number for number, line in enumerate(lines) if line.startswith("plan:"))


@pytest.mark.usefixtures("priced")
def test_where_the_steps_are_not_known_it_is_said_again_once_they_are(capsys: Captured) -> None:
    first, second = [line for line in said(capsys, "A boat") if line.startswith("cost")]
    assert "an image in at most 5 attempts each; $0.05 an attempt, at most $0.25" in first
    assert "4 images in at most 5 attempts each; $0.05 an attempt, at most $1.00" in second


@pytest.mark.usefixtures("priced")
def test_a_limit_is_named_and_kept(capsys: Captured) -> None:
    lines = said(capsys, "A boat in 4 pictures", "--max-cost", "0.12")
    assert any("--max-cost ends it at $0.12" in line for line in lines)
    record = json.loads(Path("run/run.json").read_text())
    assert record["status"] == "short"
    assert record["cost"] <= 0.12


@pytest.mark.usefixtures("priced")
def test_the_critic_is_counted_where_its_price_is_known(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = load_vlm

    def priced_vlm(spec: str, role: str) -> object:
        made = load(spec, role)
        if role == "critic":
            made.capabilities = VlmCapabilities(knows_its_price=True, typical_price=0.01)  # type: ignore[misc]
        return made

    monkeypatch.setattr("interleave.backends.registry.load_agent", priced_vlm)
    note = next(line for line in said(capsys, "A boat in 2 pictures") if line.startswith("cost"))
    assert "the critic about $0.10 at most" in note


def test_a_free_run_says_nothing_of_cost(capsys: Captured) -> None:
    assert run(["generate", "A boat in 1 picture", "--dry-run", "--out", "free"]) == 0
    assert "cost" not in capsys.readouterr().err


@pytest.mark.usefixtures("priced")
def test_a_batch_says_what_a_step_costs(capsys: Captured) -> None:
    Path("many.jsonl").write_text('{"id": "a", "request": "A boat in 1 picture"}\n')
    assert run(["generate", "--requests", "many.jsonl", "--out", "many"]) == 0
    note = next(line for line in capsys.readouterr().err.splitlines() if line.startswith("cost"))
    assert note.endswith("at most $0.25; so for every step of 1 request")


@pytest.mark.parametrize("name", ["nano-banana", "openai", "vllm"])
def test_a_shipped_profile_begins_with_its_command_and_its_models_load(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interleave.config.profiles import profile_files

    for key in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(key, "x")
    first = profile_files()[name].read_text("utf-8").splitlines()[0]
    assert first.startswith("# interleave generate ") and f"--profile {name}" in first
    profile = load_profile(name)
    generator = load_generator(profile.generator.as_spec("generator"))
    critic = load_vlm(profile.critic.as_spec("critic"), "critic")
    planner = load_vlm(profile.planner.as_spec("planner"), "planner")
    paid = name != "vllm"
    assert (generator.capabilities.price_per_image is not None) is paid
    assert critic.capabilities.knows_its_price is planner.capabilities.knows_its_price is paid
