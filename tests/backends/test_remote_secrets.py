"""A key that a server, a model or a library repeats reaches no journal, page, error, log or terminal, and the
run goes on with what is kept."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import interleave
import loopback as wire
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest, Message, Reply, Sampling, Token
from interleave.backends.registry import load_generator, load_vlm
from interleave.backends.retries import RetriedVlm, RetryPolicy
from interleave.cli.main import run
from interleave.config.run_config import Limits
from interleave.errors import BackendError, Failure
from interleave.runs.models import Meter
from interleave.types import Plan, PlanStep, Request, Text
from loopback import Asked, Fault, Loopback

CANARY = "sk-canary-1f8e2d7c4b3a5968-never-to-be-seen-again"
REQUEST = "A boat in 2 pictures"
ECHO = f"cannot handle Authorization: Bearer {CANARY}"
SMALL = "solid?size=64"


@pytest.fixture(autouse=True)
def with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries wait for nothing, and there is a key."""
    monkeypatch.setenv("MY_KEY", CANARY)
    monkeypatch.setattr("interleave.backends.retries.random.uniform", lambda low, high: 0.0)


def at(path: str, fault: Fault) -> Any:
    """This fault for requests to this path, after the first good ones."""
    return lambda number, asked: fault if path in asked.path else None


def assert_nowhere(text: str, where: str, *, ends: bool = True) -> None:
    for form in (CANARY, *((CANARY[:11], CANARY[-8:]) if ends else ())):
        assert form not in text, f"a key in {where}"


def assert_clean(folder: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    said = capfd.readouterr()
    assert_nowhere(said.out + said.err, "output")
    assert_nowhere(caplog.text, "logs")
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert files
    for file in files:
        assert_nowhere(file.read_bytes().decode("latin-1"), file.name)


FAILURES: dict[str, tuple[str, str, Fault]] = {
    "http says it failed": (
        "{url}?key=MY_KEY",
        "/edit",
        wire.status(200, {"success": False, "error": ECHO}),
    ),
    "comfyui says it failed": (
        "comfyui:./edit.json@{url}?text=./text.json&key=MY_KEY",
        "/history",
        wire.status(
            200,
            {
                "job-1": {
                    "status": {
                        "status_str": "error",
                        "messages": [["execution_error", {"exception_message": ECHO}]],
                    }
                }
            },
        ),
    ),
    "gemini answers in words": (
        "gemini:gemini-2.5-flash-image@{url}?key=MY_KEY",
        "generateContent",
        wire.status(200, wire._candidate([{"text": ECHO}])),
    ),
    "gemini refuses": (
        "gemini:gemini-2.5-flash-image@{url}?key=MY_KEY",
        "generateContent",
        wire.status(200, wire._candidate([{"text": ECHO}], "SAFETY")),
    ),
    "an SDK cannot read it": (
        "openai-images:gpt-image-2@{url}/v1?key=MY_KEY",
        "/images",
        wire.status(200, {"data": [{"b64_json": ECHO}]}),
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_good_answer_that_repeats_the_key_leaves_it_nowhere(
    failure: str,
    loopback: Loopback,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    spec, path, fault = FAILURES[failure]
    loopback.fault = at(path, fault)
    caplog.set_level(logging.DEBUG)
    code = run(["generate", REQUEST, "--generator", spec.format(url=loopback.url), "--out", "run", "--debug"])
    assert code == 3
    assert any(CANARY in str(asked.headers) for asked in loopback.asked), "the key was not even sent"
    assert_clean(Path("run"), capfd, caplog)


def plan_reply(prompt: str) -> str:
    step = {"step_number": 1, "step_name": "x", "instruction": "x", "prompt": prompt, "auxiliary_text": None}
    return f"<answer>{json.dumps({'execution_plan': [step]})}</answer>"


def chatting(loopback: Loopback, *, verdicts: list[str]) -> None:
    """A planner and critic that repeat the header of the request in all they write."""
    judged = iter(verdicts)

    def fault(number: int, asked: Asked) -> Fault | None:
        if "/chat/" not in asked.path:
            return None
        words = next(judged) if "previous_step_success" in str(asked.json) else plan_reply(f"a sign: {ECHO}")
        message = {"role": "assistant", "content": words, "reasoning_content": f"I was given {ECHO}"}
        return wire.status(200, wire._completion(message, f"stop {CANARY}"[:60]))

    loopback.fault = fault


def test_words_that_repeat_the_key_are_kept_and_used_without_it(
    loopback: Loopback, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    refused = {"previous_step_success": False, "refine_prompt": f"larger: {ECHO}"}
    accepted = {"previous_step_success": True, "refine_prompt": ""}
    chatting(loopback, verdicts=[f"<answer>{json.dumps(each)}</answer>" for each in (refused, accepted)])
    vlm = f"openai:m@{loopback.url}/v1?key=MY_KEY"
    models = ["--planner", vlm, "--critic", vlm, "--generator", loopback.url]
    assert run(["generate", "A sign", *models, "--out", "run"]) == 0
    assert_clean(Path("run"), capfd, caplog)
    entries = [json.loads(line) for line in Path("run/journal.jsonl").read_text().splitlines()]
    kept = [entry["prompt"] for entry in entries if entry["event"] == "drawn"]
    assert kept == [asked.json["prompt"] for asked in loopback.of("/edit")]
    assert kept == [f"{each}: {ECHO.replace(CANARY, '[key]')}" for each in ("a sign", "larger")]


def test_a_run_whose_replies_repeated_the_key_is_continued_as_it_was(loopback: Loopback) -> None:
    accepted = '<answer>{"previous_step_success": true, "refine_prompt": ""}</answer>'
    chatting(loopback, verdicts=[accepted] * 2)
    vlm = f"openai:m@{loopback.url}/v1?key=MY_KEY"
    first = interleave.generate("A sign", planner=vlm, critic=vlm, generator=SMALL, out="run", max_calls=2)
    assert first.status == "short"
    asked = len(loopback.asked)
    ended = interleave.resume("run", allow=[f"MY_KEY@{loopback.url}"])
    assert ended.status == "done"
    assert len(loopback.asked) == asked + 1, "only the critic was left to be asked"


def test_outside_a_run_replies_and_errors_are_rid_of_keys_too(loopback: Loopback) -> None:
    chatting(loopback, verdicts=[])
    vlm = RetriedVlm("it", load_vlm(f"openai:m@{loopback.url}/v1?key=MY_KEY", "planner"))
    reply = asyncio.run(vlm.complete([Message("user", (Text("hello"),))], Sampling()))
    assert_nowhere(reply.text + reply.finish_reason, "a reply", ends=False)
    assert "[key]" in reply.text


class Failing:
    """A user's own generator, on a library that puts keys into its messages."""

    capabilities = GeneratorCapabilities()

    async def generate(self, request: ImageRequest) -> Image.Image:
        try:
            raise ValueError(ECHO)
        except ValueError as error:
            raise BackendError(f"the library failed: {error}") from error


def test_an_error_of_somebody_elses_library_says_no_key_nor_does_its_traceback(
    loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    loopback.mood = "well"
    critic = f"openai:m@{loopback.url}/v1?key=MY_KEY"
    with pytest.raises(BackendError, match="the library failed") as failure:
        interleave.generate(REQUEST, critic=critic, generator=Failing(), out="run")
    assert_nowhere("".join(traceback.format_exception(failure.value)), "the traceback")
    assert_nowhere(caplog.text, "logs")
    assert_nowhere(Path("run/journal.jsonl").read_text(), "the journal")


def test_a_bug_is_shown_without_keys(
    loopback: Loopback,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(self: object, *arguments: object) -> None:
        raise KeyError(ECHO)

    monkeypatch.setattr("interleave.remote.http_generator.HttpGenerator._post", broken)
    spec = f"{loopback.url}?key=MY_KEY"
    assert run(["generate", REQUEST, "--generator", spec, "--out", "run", "--debug"]) == 3
    said = capfd.readouterr().err
    assert "KeyError" in said and "Traceback" in said
    assert_nowhere(said, "the traceback")
    assert_nowhere(Path("run/journal.jsonl").read_text(), "the journal")


class Leaking:
    """A user's own planner, which is no model."""

    async def plan(self, request: Request) -> Plan:
        return Plan(steps=(PlanStep(number=1, caption="A sign", prompt=f"a sign: {CANARY}"),))


def test_a_plan_of_ones_own_is_drawn_as_it_is_kept(loopback: Loopback) -> None:
    generator = f"{loopback.url}?key=MY_KEY"
    interleave.generate("A sign", planner=Leaking(), generator=generator, out="run")
    assert [asked.json["prompt"] for asked in loopback.of("/edit")] == ["a sign: [key]"]
    assert_nowhere(Path("run/journal.jsonl").read_text(), "the journal")


def test_a_request_that_contains_a_key_is_refused(
    loopback: Loopback, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = f"{loopback.url}?key=MY_KEY"
    assert run(["generate", f"A sign that says {CANARY}", "--generator", spec, "--out", "run"]) == 2
    said = capfd.readouterr().err
    assert "contains the key in MY_KEY" in said
    assert_nowhere(said, "output")
    assert not Path("run").exists()
    assert not loopback.asked


# What a user's own model brings


class Odd:
    """A model whose replies are what they should not be."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.capabilities = interleave.VlmCapabilities(knows_its_price=True)

    async def complete(self, messages: object, sampling: object) -> Reply:
        return self.reply


YES = '<answer>{"previous_step_success": true, "refine_prompt": ""}</answer>'
BAD_REPLIES: dict[str, Reply] = {
    "no text": Reply(5),  # type: ignore[arg-type]
    "no reason": Reply(YES, None),  # type: ignore[arg-type]
    "less than nothing": Reply(YES, cost=-5.0),
    "no number": Reply(YES, cost=float("nan")),
    "beyond numbers": Reply(YES, cost=float("inf")),
}


@pytest.mark.parametrize("reply", BAD_REPLIES)
def test_a_reply_that_is_none_is_a_typed_error_in_the_journal(reply: str) -> None:
    critic = Odd(BAD_REPLIES[reply])
    with pytest.raises(BackendError) as failure:
        interleave.generate(REQUEST, critic=critic, generator=SMALL, max_cost=1.0, out="run")
    assert failure.value.kind is Failure.BAD_REPLY
    entries = [json.loads(line) for line in Path("run/journal.jsonl").read_text().splitlines()]
    assert [entry["event"] for entry in entries].count("call_failed") == 1


@pytest.mark.parametrize("probability", [float("nan"), -0.1, 1.5, None])
def test_a_token_without_a_probability_gives_no_confidence(probability: Any) -> None:
    made = interleave.generate(
        "A sign",
        plan=Plan(steps=(PlanStep(number=1, caption="A sign", prompt="a sign"),)),
        critic=Odd(Reply(YES, cost=0.0, tokens=(Token(YES, probability),))),
        generator=SMALL,
        out="run",
    )
    assert made.record.steps[0].attempts[0].verdict.confidence is None


def test_half_a_surrogate_is_spelled_out_before_it_is_used() -> None:
    reply = Reply(YES + "\ud83d", "stop\ud83d", cost=0.0, usage={"prompt_tokens": 1, "odd": 1.5})  # type: ignore[dict-item]
    kept = asyncio.run(RetriedVlm("it", Odd(reply)).complete([], Sampling()))
    assert (kept.text, kept.finish_reason, kept.usage) == (
        YES + "\\ud83d",
        "stop\\ud83d",
        {"prompt_tokens": 1},
    )


def test_the_policy_cleans_what_any_caller_of_it_gets() -> None:
    async def fail() -> None:
        raise BackendError("half a pair \ud83d")

    with pytest.raises(BackendError, match=r"half a pair \\ud83d"):
        asyncio.run(RetryPolicy().call("it", fail, deadline=5))


def test_a_folder_that_says_it_cost_less_than_nothing_gives_no_credit() -> None:
    assert Meter(Limits(max_cost=1.0), cost=-1000.0).cost == 0.0
    assert Meter(Limits(max_cost=1.0), cost=float("nan")).cost == 0.0


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf")])
def test_a_price_that_is_none_is_not_known(price: float) -> None:
    class Priced(Failing):
        capabilities = GeneratorCapabilities(price_per_image=price)

    with pytest.raises(interleave.ConfigurationError, match="know their price"):
        interleave.generate(REQUEST, generator=Priced(), max_cost=1.0, out="run")


def test_the_check_of_a_backend_says_no_key(loopback: Loopback, capfd: pytest.CaptureFixture[str]) -> None:
    loopback.fails_with(wire.status(200, {"success": False, "error": ECHO}))
    assert load_generator(f"{loopback.url}?key=MY_KEY")
    run(["backends", "check", f"{loopback.url}?key=MY_KEY", "--quick"])
    said = capfd.readouterr()
    assert_nowhere(said.out + said.err, "output")
