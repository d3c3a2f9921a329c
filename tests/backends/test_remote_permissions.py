"""A run folder may come from anybody: without its user's word it gets no key, no file and no code run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

import interleave
import loopback as wire
from interleave.agents.loading import critic_from, planner_from
from interleave.api import reopen_run
from interleave.backends.registry import load_generator, load_vlm
from interleave.cli.main import run
from interleave.config.run_config import Limits, PackConfig, RoleConfig, RunConfig
from interleave.errors import BackendError, RunError
from interleave.runs import resolve as assembly
from interleave.runs.event_lines import summarize
from interleave.runs.permissions import required_permissions
from interleave.runs.record import RunRecord
from interleave.runs.run import Run
from interleave.types import Plan, PlanStep, Request
from loopback import Loopback

SECRET = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"
REQUEST = "A boat in 1 picture"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret of the user's that no server is meant to have, and retries that wait for nothing."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.delenv("INTERLEAVE_ALLOW", raising=False)
    monkeypatch.setattr("interleave.backends.retries.random.uniform", lambda low, high: 0.0)


@pytest.fixture
def folder(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that somebody began with their key for their server, and that is left to be continued."""
    planner = f"openai:m@{loopback.url}/v1?key=AWS_SECRET_ACCESS_KEY"
    loopback.fails_with(wire.status(400))
    with pytest.raises(BackendError):
        interleave.generate(REQUEST, planner=planner, generator="solid?size=64", out="run")
    loopback.reset()
    return Path("run")


def sent(loopback: Loopback) -> bool:
    return any(SECRET in str(asked.headers) for asked in loopback.asked)


def test_a_folder_gets_no_key_without_a_word_and_the_refusal_has_the_command(
    folder: Path, loopback: Loopback, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["resume", str(folder)]) == 2
    said = capfd.readouterr().err
    assert f"send AWS_SECRET_ACCESS_KEY to {loopback.url}" in said
    assert not loopback.asked
    command = shlex.split(said.partition("If you trust it: interleave ")[2])
    assert command == ["resume", "run", "--allow", f"AWS_SECRET_ACCESS_KEY@{loopback.url}"]
    assert run(command) == 0
    assert sent(loopback)


@pytest.mark.parametrize(
    "word",
    [
        "AWS_SECRET_ACCESS_KEY@http://127.0.0.1",
        "AWS_SECRET_ACCESS_KEY@http://127.0.0.1:1",
        "AWS_SECRET_ACCESS_KEY@https://127.0.0.1:{port}",
        "AWS_SECRET_ACCESS_KEY@http://localhost:{port}",
        "ANOTHER_KEY@http://127.0.0.1:{port}",
        "AWS_SECRET_ACCESS_KEY",
        "*@http://127.0.0.1:{port}",
    ],
)
def test_a_word_holds_for_one_key_and_one_address(word: str, folder: Path, loopback: Loopback) -> None:
    assert run(["resume", str(folder), "--allow", word.format(port=loopback.port)]) == 2
    assert not loopback.asked


def test_a_word_may_be_given_for_all_folders(
    folder: Path, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLEAVE_ALLOW", f"'a file.json@http://x' AWS_SECRET_ACCESS_KEY@{loopback.url}")
    assert run(["resume", str(folder)]) == 0
    assert sent(loopback)


def test_words_for_all_folders_that_cannot_be_read_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INTERLEAVE_ALLOW", "'half")
    assert run(["resume", str(folder)]) == 2
    assert "INTERLEAVE_ALLOW cannot be read" in capfd.readouterr().err


def test_from_python_it_is_the_same(folder: Path, loopback: Loopback) -> None:
    with pytest.raises(RunError, match="AWS_SECRET_ACCESS_KEY"):
        interleave.resume(folder)
    assert not loopback.asked
    assert interleave.resume(folder, allow=[f"AWS_SECRET_ACCESS_KEY@{loopback.url}"]).status == "done"
    assert interleave.resume(folder).status == "done", "a finished run needs no models, and no word"


def test_from_python_limits_are_taken_and_failures_raised(folder: Path, loopback: Loopback) -> None:
    allow = [f"AWS_SECRET_ACCESS_KEY@{loopback.url}"]
    assert interleave.resume(folder, allow=allow, max_calls=2).status == "short"
    with pytest.raises(interleave.ConfigurationError, match="max_cals"):
        interleave.resume(folder, allow=allow, max_cals=2)
    loopback.fails_with(wire.status(400))
    critic = f"openai:m@{loopback.url}/v1"
    with pytest.raises(BackendError):
        interleave.generate(REQUEST, critic=critic, generator="solid?size=64", out="other")
    with pytest.raises(BackendError, match="told 400"):
        interleave.resume("other")


def test_what_is_typed_needs_no_other_word_and_the_folders_own_key_is_not_used(
    folder: Path, loopback: Loopback
) -> None:
    typed = ["--planner", f"openai:m@{loopback.url}/v1", "--generator", "solid?size=64"]
    assert run(["generate", REQUEST, *typed, "--out", str(folder)]) == 0
    assert loopback.asked and not sent(loopback)


def test_whoever_typed_a_key_is_told_the_whole_command_that_goes_on(
    loopback: Loopback, capfd: pytest.CaptureFixture[str]
) -> None:
    loopback.fails_with(wire.status(400))
    planner = f"openai:m@{loopback.url}/v1?key=AWS_SECRET_ACCESS_KEY"
    assert (
        run(["generate", REQUEST, "--planner", planner, "--generator", "solid?size=64", "--out", "run"]) == 3
    )
    allow = f"--allow AWS_SECRET_ACCESS_KEY@{loopback.url}"
    assert f"Continue with: interleave resume run {allow}" in capfd.readouterr().err


PLANNED = Plan(steps=(PlanStep(number=1, prompt="a boat"),))


def config_of(plan: Plan | None = None, **roles: str) -> RunConfig:
    specs = {"planner": "scripted", "critic": "scripted", "generator": "solid?size=64", **roles}
    pack = assembly.load_pack("default")
    return RunConfig(
        **{role: RoleConfig(spec=spec) for role, spec in specs.items()},  # type: ignore[arg-type]
        prompts=PackConfig(name=pack.name, version=pack.description.version, digest=pack.digest),
        plan=plan,
    )


NEEDS: dict[str, tuple[str, ...]] = {
    # the usual key of a well-known service
    "openai:gpt-4o": (),
    "openai:gpt-4o?key=OPENAI_API_KEY": (),
    "openai:gpt-4o@https://api.openai.com/v1?key=OPENAI_API_KEY": (),
    "openai:m@https://openrouter.ai/api/v1?key=OPENROUTER_API_KEY": (),
    "openai:m@https://mine.openai.azure.com/x?key=AZURE_OPENAI_API_KEY": (),
    "gemini:gemini-3.5-flash?key=GEMINI_API_KEY": (),
    # any other pair
    "openai:gpt-4o?key=MY_OPENAI_KEY": ("MY_OPENAI_KEY@https://api.openai.com",),
    "gemini:m?key=OPENAI_API_KEY": ("OPENAI_API_KEY@https://generativelanguage.googleapis.com",),
    "openai:m@https://openrouter.ai/api/v1?key=OPENAI_API_KEY": ("OPENAI_API_KEY@https://openrouter.ai",),
    "openai:m@http://api.openai.com/v1?key=OPENAI_API_KEY": ("OPENAI_API_KEY@http://api.openai.com",),
    "openai:m@https://api.openai.com:8443/v1?key=OPENAI_API_KEY": (
        "OPENAI_API_KEY@https://api.openai.com:8443",
    ),
    "openai:m@https://API.OPENAI.COM.evil.example/v1?key=OPENAI_API_KEY": (
        "OPENAI_API_KEY@https://api.openai.com.evil.example",
    ),
    "openai:m@https://evil.example%2f.api.openai.com/v1?key=OPENAI_API_KEY": (
        "OPENAI_API_KEY@https://evil.example%2f.api.openai.com",
    ),
    "openai:m@https://evil.example\\.api.openai.com/v1?key=OPENAI_API_KEY": (
        "OPENAI_API_KEY@https://evil.example\\.api.openai.com",
    ),
    "openai:m@http://[::1]:8000/v1?key=A": ("A@http://[::1]:8000",),
    # no key, no file, no code
    "openai:m@http://anywhere.example/v1": (),
    "transformers:Qwen/Qwen3-VL-8B-Instruct": (),
    "transformers:./model?adapter=./adapter&trust_remote_code=false": (),
    "scripted:./replies.jsonl": (),
    # code
    "transformers:evil/model?trust_remote_code=true": ("code@evil/model",),
    "transformers:./evil?trust_remote_code=1&revision=abc": ("code@./evil@abc",),
    # prices of services that are paid with the usual key
    "openai:gpt-5.5?price_out=0&price_in=0": ("price_in=0&price_out=0@https://api.openai.com",),
    "openai:m@http://127.0.0.1:8000/v1?price_in=0&price_out=0": (),
    # another package
    "elsewhere:m": (),
    "elsewhere:m@http://evil.example": ("elsewhere:m@http://evil.example",),
    "elsewhere:m?server=http://evil.example": ("elsewhere:m?server=http://evil.example",),
}
DRAWING_NEEDS: dict[str, tuple[str, ...]] = {
    "http://a.example:8011,https://b.example?key=TOKEN": (
        "TOKEN@http://a.example:8011",
        "TOKEN@https://b.example",
    ),
    "http://a.example:8011": (),
    "http:./servers.txt": ("addresses@./servers.txt",),
    "http:/etc/passwd?key=TOKEN": ("TOKEN@/etc/passwd",),
    "comfyui:./edit.json@http://127.0.0.1:8188": (),
    "json:automatic1111@http://evil.example": (),
    "json:automatic1111@http://evil.example?key=TOKEN": ("TOKEN@http://evil.example",),
    "json:./paint.toml@http://127.0.0.1:9000": ("./paint.toml@http://127.0.0.1:9000",),
    "json:/srv/private.toml@http://evil.example": ("/srv/private.toml@http://evil.example",),
    "json:./paint.toml": ("addresses@./paint.toml",),
    "json:./paint.toml?key=TOKEN": ("TOKEN@./paint.toml", "addresses@./paint.toml"),
    "comfyui:./edit.json@http://localhost:8188?text=./text.json": (),
    "comfyui:/srv/private.json@http://evil.example:8188?text=./text.json": (
        "/srv/private.json@http://evil.example:8188",
        "./text.json@http://evil.example:8188",
    ),
    "comfyui:./edit.json@http://127.0.0.1.evil.example": ("./edit.json@http://127.0.0.1.evil.example",),
    "diffusers:evil/model?trust_remote_code=yes": ("code@evil/model",),
    "openai-images:gpt-image-2?key=OPENAI_API_KEY": (),
    "openai-images:gpt-image-2?price=0": ("price=0@https://api.openai.com",),
    "openai-images:m@http://evil.example/v1?key=OPENAI_API_KEY": ("OPENAI_API_KEY@http://evil.example",),
}


@pytest.mark.parametrize("spec", NEEDS)
def test_what_an_agent_of_a_folder_needs_a_word_for(spec: str) -> None:
    assert tuple(need.text for need in required_permissions(config_of(critic=spec))) == NEEDS[spec]


@pytest.mark.parametrize("spec", DRAWING_NEEDS)
def test_what_a_generator_of_a_folder_needs_a_word_for(spec: str) -> None:
    assert tuple(need.text for need in required_permissions(config_of(generator=spec))) == DRAWING_NEEDS[spec]


def test_one_word_is_enough_for_all_roles_and_a_planner_that_is_not_asked_needs_none() -> None:
    spec = "openai:m@http://evil.example/v1?key=A"
    assert len(required_permissions(config_of(planner=spec, critic=spec))) == 1
    assert required_permissions(config_of(planner=spec, plan=PLANNED)) == ()


@pytest.mark.parametrize(
    ("role", "spec"),
    [
        ("critic", "transformers:./evil?trust_remote_code=true"),
        ("generator", "diffusers:evil/model?trust_remote_code=true"),
        ("generator", "comfyui:./text.json@http://evil.example:8188"),
        ("generator", "http:./servers.txt"),
    ],
)
def test_nothing_is_loaded_before_the_word_is_given(
    role: str, spec: str, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = assembly.load_pack("default")
    doubles = assembly.Models(
        planner=planner_from(load_vlm("scripted", "planner"), pack, max_steps=50),
        critic=critic_from(load_vlm("scripted", "critic"), pack),
        generator=load_generator("solid?size=64"),
    )
    config = config_of(plan=PLANNED, **{role: spec})
    begun = Run.open(Path("run"), Request.of(REQUEST), config, Limits(), lambda: doubles)
    begun._end("interrupted", None)
    loaded: list[Any] = []
    monkeypatch.setattr("interleave.api.load_models", lambda *given: loaded.append(given) or doubles)
    (need,) = required_permissions(config)
    with pytest.raises(RunError, match="needs your permission"):
        reopen_run(Path("run"), Limits())
    assert not loaded
    reopen_run(Path("run"), Limits(), allow=[need.text]).journal.close()
    assert len(loaded) == 1


def test_a_user_name_in_an_address_of_a_folder_is_refused_and_the_folder_can_be_shown() -> None:
    config = config_of(critic="openai:m@https://api.openai.com@evil.example/v1?key=OPENAI_API_KEY")
    with pytest.raises(interleave.ConfigurationError, match="user name or password"):
        required_permissions(config)
    record = RunRecord(software="1", status="interrupted", request=(), config=config)
    assert summarize(record, Path("run")).resume is None
