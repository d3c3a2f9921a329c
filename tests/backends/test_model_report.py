"""`interleave models check SPEC --report`: what the file says, what limits hold, and what it must not say."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import loopback as wire
from interleave.backends.protocols import ImageRequest, Message, Reply, Sampling, VlmCapabilities
from interleave.backends.registry import load_generator
from interleave.cli.main import run
from interleave.diagnostics.budget import Budget, BudgetedGenerator, BudgetedVlm, OutOfBudget
from interleave.diagnostics.trials import VERDICTS, try_model
from loopback import Exchange, Loopback

KEY = "sk-very-secret-key-of-a-test-0123456789"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def report() -> dict[str, Any]:
    [file] = Path().glob("interleave-report-*.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def statuses(found: dict[str, Any]) -> dict[str, str]:
    return {trial["name"]: trial["status"] for trial in found["trials"]}


def test_a_generator_that_works_holds_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "check", "solid", "--report"]) == 0
    found = report()
    assert found["summary"]["failed"] == 0 and found["summary"]["cost"] == 0.0
    assert found["trials"][1]["images"][0].startswith("data:image/jpeg;base64,")
    assert "read it, then send it" in capsys.readouterr().out


def test_a_critic_that_accepts_everything_is_found_out() -> None:
    reply = Reply('<think>Fine.</think><answer>{"previous_step_success": true, "refine_prompt": ""}</answer>')

    class Yes:
        capabilities = VlmCapabilities()

        async def complete(self, messages: Any, sampling: Sampling) -> Reply:
            return reply

    async def tried() -> dict[str, str]:
        budget = Budget(1, 60, 80)
        return {
            trial.name: trial.status
            async for trial in try_model("critic", BudgetedVlm(Yes(), budget), budget)
        }

    for name, status in asyncio.run(tried()).items():
        assert status == ("held" if VERDICTS[name][3] else "failed")


def test_a_plan_with_other_images_than_asked_for_is_a_failure() -> None:
    assert run(["models", "check", "scripted", "--role", "planner", "--report"]) == 1
    found = statuses(report())
    assert found["a story in three images"] == "held"
    assert found["an answer without images"] == "failed"


def test_a_native_system_is_tried_too() -> None:
    assert run(["models", "check", "solid-document?size=64", "--report"]) == 1
    assert statuses(report())["instructions in four images"] == "held"


def test_the_file_has_no_key_no_address_and_no_path(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_KEY", KEY)

    async def leak(exchange: Exchange) -> None:
        said = f"Bearer {KEY} is wrong for {loopback.url} of {Path.home()}/models"
        await exchange.send(wire.Answer.of({"error": {"message": said}}, 400))

    loopback.fails_with(leak)
    spec = f"openai:m@{loopback.url}/v1?key=OWN_KEY"
    assert run(["models", "check", spec, "--role", "planner", "--report"]) == 1
    [file] = Path().glob("interleave-report-*.json")
    text = file.read_text()
    assert KEY not in text and "127.0.0.1" not in text and str(Path.home()) not in text
    assert report()["model"] == "openai:m"


def test_nothing_is_called_beyond_a_limit() -> None:
    generator = load_generator("solid?size=64")
    budget = Budget(max_cost=0.05, max_seconds=60, max_calls=2)
    within = BudgetedGenerator(generator, budget)
    asyncio.run(within.generate(ImageRequest("a", 1)))
    asyncio.run(within.generate(ImageRequest("a", 2)))
    with pytest.raises(OutOfBudget, match="2 calls"):
        asyncio.run(within.generate(ImageRequest("a", 3)))
    assert budget.calls == 2


def test_a_call_that_would_cost_too_much_is_not_made() -> None:
    class Priced:
        capabilities = VlmCapabilities(knows_its_price=True)
        calls = 0

        async def complete(self, messages: list[Message], sampling: Sampling) -> Reply:
            self.calls += 1
            return Reply("no plan", cost=0.04)

    model, budget = Priced(), Budget(max_cost=0.1, max_seconds=60, max_calls=80)

    async def tried() -> list[str]:
        return [trial.status async for trial in try_model("planner", BudgetedVlm(model, budget), budget)]

    assert asyncio.run(tried())[-1] == "not tried"
    assert model.calls == 3 and budget.cost == pytest.approx(0.12)  # known only after a call


def test_a_profile_is_not_one_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "check", "--profile", "dry-run", "--report"]) == 2
