"""Whole runs over the loopback: they end right while calls fail, and nothing secret is left behind."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

import interleave
import loopback as wire
from interleave.agents.prompts import load_pack
from interleave.backends.registry import load_generator
from interleave.cli.main import run
from interleave.diagnostics.contract import Known, examine
from interleave.errors import BackendError
from loopback import Asked, Fault, Loopback

REQUEST = "How a boat is built, in 4 pictures"
GENERATORS = {
    "openai-images": "openai-images:klein@{url}/v1?server=sglang",
    "gemini": "gemini:gemini-2.5-flash-image@{url}",
    "http": "{url}",
    "comfyui": "comfyui:./edit.json@{url}?text=./text.json",
}
VLMS = {
    "openai": "openai:qwen3-vl@{url}/v1",
    "gemini": "gemini:gemini-2.5-flash@{url}",
}
TROUBLES: list[Fault] = [
    wire.status(500),
    wire.status(429, Retry_After="0"),
    wire.bad_chunk,
    wire.truncated,
    wire.page(b"<html>starting</html>", "text/html"),
    wire.status(503),
]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries wait for nothing."""
    monkeypatch.setattr("interleave.backends.retries.random.uniform", lambda low, high: 0.0)


def every_third(counts: Callable[[Asked], bool]) -> Callable[[int, Asked], Fault | None]:
    """Every third request of a kind fails, each in another way."""
    seen = 0

    def fault(number: int, asked: Asked) -> Fault | None:
        nonlocal seen
        seen += counts(asked)
        return TROUBLES[seen // 3 % len(TROUBLES)] if counts(asked) and seen % 3 == 0 else None

    return fault


def is_a_call(asked: Asked) -> bool:
    """One request of each model call; a call to ComfyUI takes several."""
    return not asked.path.startswith(("/upload", "/history", "/queue", "/view"))


def generate(loopback: Loopback, out: str, generator: str, vlm: str = "openai") -> interleave.RunRecord:
    spec = VLMS[vlm].format(url=loopback.url)
    made = interleave.generate(
        REQUEST,
        planner=spec,
        critic=spec,
        generator=GENERATORS[generator].format(url=loopback.url),
        out=out,
    )
    return made.record


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("generator", "vlm"),
    [("openai-images", "openai"), ("gemini", "gemini"), ("http", "openai"), ("comfyui", "gemini")],
)
def test_C14_with_every_third_call_failing_a_run_ends_as_an_undisturbed_one(
    generator: str, vlm: str, loopback: Loopback
) -> None:
    undisturbed = generate(loopback, "calm", generator, vlm)
    calls = len([asked for asked in loopback.asked if is_a_call(asked)])
    loopback.asked.clear()
    loopback.fault = every_third(is_a_call)
    stormy = generate(loopback, "stormy", generator, vlm)
    assert stormy.status == undisturbed.status == "done"
    assert interleave.comparable("stormy") == interleave.comparable("calm")
    assert stormy.calls.repeated > 0
    failed = len([asked for asked in loopback.asked if is_a_call(asked)]) - calls
    assert failed == stormy.calls.repeated


@pytest.mark.usefixtures("impatient")
def test_C10_a_wrong_key_stops_a_run_at_the_first_call(loopback: Loopback) -> None:
    loopback.fails_with(wire.status(401))
    with pytest.raises(BackendError, match="401"):
        generate(loopback, "run", "http")
    assert len(loopback.asked) == 1


@pytest.mark.usefixtures("impatient")
def test_C27_a_planner_that_refuses_is_asked_once_and_the_run_says_why(loopback: Loopback) -> None:
    loopback.mood = "filtered"
    with pytest.raises(interleave.ReplyError, match="refused to answer"):
        generate(loopback, "run", "http")
    assert len(loopback.asked) == 1


@pytest.mark.usefixtures("impatient")
def test_C30_a_resumed_run_draws_nothing_again_though_seeds_mean_nothing(loopback: Loopback) -> None:
    calm = generate(loopback, "calm", "gemini")
    loopback.asked.clear()
    loopback.fault = lambda number, asked: wire.status(400) if len(loopback.of("flash-image")) > 2 else None
    with pytest.raises(BackendError):
        generate(loopback, "run", "gemini")
    drawn = len(loopback.of("flash-image"))
    loopback.fault = lambda number, asked: None
    loopback.asked.clear()
    assert generate(loopback, "run", "gemini").status == "done"
    assert drawn == 3
    assert len(loopback.of("flash-image")) == calm.calls.generator - 2


CANARY = "sk-canary-1f8e2d7c4b3a5968-never-to-be-seen-again"
FORMS = {
    CANARY,
    CANARY[:11],
    CANARY[-8:],
    quote(CANARY, safe=""),
    base64.b64encode(CANARY.encode()).decode(),
}
ECHOING: dict[str, Fault] = {
    "well": wire.status(200),
    "401": wire.status(401, {"error": {"message": f"Incorrect API key provided: {CANARY}"}}),
    "400": wire.status(400, {"error": {"message": f"bad header Authorization: Bearer {CANARY}"}}),
    "500": wire.status(500, {"detail": f"while handling {CANARY[:20]}…{CANARY[-8:]}"}),
    "429": wire.status(429, {"error": {"message": base64.b64encode(CANARY.encode()).decode()}}),
    "page": wire.page(f"<html>{quote(CANARY)} {CANARY}</html>".encode(), "text/html"),
    "reset": wire.reset,
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", ECHOING)
@pytest.mark.parametrize("generator", GENERATORS)
def test_L01_L03_a_key_is_in_no_file_log_error_or_traceback(
    generator: str,
    fault: str,
    loopback: Loopback,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_KEY", CANARY)
    if fault != "well":
        loopback.fault = lambda number, asked: ECHOING[fault] if number > 2 else None
    vlm = with_key(VLMS["gemini" if generator == "gemini" else "openai"], loopback)
    models = ["--planner", vlm, "--critic", vlm, "--generator", with_key(GENERATORS[generator], loopback)]
    code = run(["generate", REQUEST, *models, "--out", "run", "--debug"])
    assert code == (0 if fault == "well" else 3)
    sent = {
        asked.headers.get("authorization", asked.headers.get("x-goog-api-key")) for asked in loopback.asked
    }
    assert any(value and CANARY in value for value in sent), "the key was not even sent"
    said = capfd.readouterr()
    assert_clean(said.out + said.err, "output")
    assert_clean(caplog.text, "logs")
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert_clean(file.read_bytes().decode("latin-1"), file.name)


def with_key(spec: str, loopback: Loopback) -> str:
    return spec.format(url=loopback.url) + ("&" if "?" in spec else "?") + "key=MY_KEY"


def assert_clean(text: str, where: str) -> None:
    for form in FORMS:
        assert form not in text, f"a key in {where}"


def test_L01_a_key_is_in_no_result_of_a_check(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", CANARY)
    loopback.fails_with(ECHOING["500"])
    generator = load_generator(f"{loopback.url}?key=MY_KEY")
    assert_clean(repr(vars(generator)), "the backend")

    async def collect() -> str:
        return " ".join([repr(result) async for result in examine(generator, Known())])

    assert_clean(asyncio.run(collect()), "results")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("address", ["", "@{url}/v1"])
def test_the_key_of_one_service_is_never_sent_to_another(
    address: str, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, CANARY)
    if not address:
        assert interleave.load_vlm("openai:gpt-4o", "planner")
        return
    generate(loopback, "run", "openai-images")
    generate(loopback, "other", "gemini", "gemini")
    for asked in loopback.asked:
        assert CANARY not in str(asked.headers)


@pytest.mark.parametrize(
    ("role", "spec"), [*(("generator", spec) for spec in GENERATORS.values()), ("critic", VLMS["openai"])]
)
def test_a_server_that_fits_is_found_to_fit(
    role: str, spec: str, loopback: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["backends", "check", spec.format(url=loopback.url), "--role", role, "--json", "--quick"]
    assert run(command) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["fits"] is True
    assert "failed" not in {check["status"] for check in report["checks"]}


def test_a_server_that_ignores_its_sources_is_found_out(
    loopback: Loopback, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = loopback.image
    monkeypatch.setattr(loopback, "image", lambda prompt, seed, sources: draw(prompt, seed, []))
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["backends", "check", loopback.url, "--quick"]) == 1
    assert "two different sources gave the same image" in capsys.readouterr().out


def test_a_missing_key_is_named_with_the_variable(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "x", "--generator", "openai-images:gpt-image-2", "--out", "run"]) == 2
    assert "OPENAI_API_KEY is not set" in capsys.readouterr().err
    assert run(["generate", "x", "--generator", "gemini:gemini-2.5-flash-image", "--out", "run"]) == 2
    assert "GEMINI_API_KEY is not set" in capsys.readouterr().err


def test_a_plan_needs_a_planner_and_nothing_else(loopback: Loopback) -> None:
    """With the profile of the miniature, whose critic understands only its own prompts."""
    made = interleave.plan("A frog in two pictures", profile="mini", planner=f"openai:m@{loopback.url}/v1")
    assert len(made.steps) == 2
    system = loopback.of("/chat")[0].json["messages"][0]["content"]
    assert system == load_pack().messages("planner_text", {"request": "x"})[0].text
