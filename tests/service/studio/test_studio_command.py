"""`interleave studio` as a user starts it, on the miniature; and the script of the Space."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from serving import Server

from interleave.runs.resolve import Choices
from interleave.studio import command

SPACE = Path(__file__).parents[3] / "deploy" / "space"


class StudioServer(Server):
    """`interleave studio` in a process of its own."""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "interleave", "studio", "--no-open"]


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = StudioServer(tmp_path_factory.mktemp("studio"), ready=False)
    yield running
    assert running.stop() == 0


def test_profiles_that_run_anywhere_are_offered_besides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_can_run", lambda name: name != "oracle")
    assert command._offers(Choices(profile="mini"), None) == ("dry-run",)
    assert command._offers(Choices(profile="klein"), ["klein", "openai"]) == ("openai",)
    assert command._offers(Choices(profile="mini"), ["none"]) == ()


def test_a_profile_that_is_not_there_cannot_run() -> None:
    assert command._can_run("dry-run")
    assert not command._can_run("no-such-profile")


def test_the_browser_is_opened_at_the_address(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(command.threading, "Thread", lambda target, args, daemon: _Now(target, args))
    command._announce("http://127.0.0.1:8030", opens=True)
    command._announce("http://127.0.0.1:8030", opens=False)
    assert opened == ["http://127.0.0.1:8030"]
    assert capsys.readouterr().out.split() == ["http://127.0.0.1:8030"] * 2


class _Now:
    """A thread whose work is done at once."""

    def __init__(self, target: object, args: tuple[str, ...]) -> None:
        self.work = lambda: target(*args)  # type: ignore[operator]

    def start(self) -> None:
        self.work()


@pytest.mark.slow
def test_the_page_and_what_it_can_do_are_there_before_the_models(studio: Server) -> None:
    assert "script-src" in studio.client.get("/").headers["content-security-policy"]
    start = studio.client.get("/v1/studio/start").json()
    assert [profile["name"] for profile in start["profiles"]] == ["mini", "oracle", "dry-run"]


@pytest.mark.slow
def test_a_request_outside_the_little_world_is_refused_with_the_nearest(studio: Server) -> None:
    refused = studio.client.post("/v1/responses", json={"input": "A unicorn eats a cake", "model": "mini"})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], len(error["nearest"])) == (400, "invalid_prompt", 3)


@pytest.mark.slow
def test_a_document_is_made_with_another_profile_and_exported(studio: Server) -> None:
    asked = {"input": "Show the phases of the moon.", "model": "oracle"}
    made = studio.client.post("/v1/responses", json=asked).json()
    assert made["status"] == "completed"
    document = studio.client.get(f"/v1/documents/{made['id']}").json()
    assert (document["profile"], "--profile oracle" in document["command"]) == ("oracle", True)
    for name, link in document["links"].items():
        if name != "events":
            assert studio.client.get(link).status_code == 200


@pytest.mark.slow
def test_a_studio_killed_while_the_miniature_draws_makes_the_document_that_it_would_have_made(
    tmp_path: Path,
) -> None:
    request = "How a frog grows up, step by step, in four pictures"
    body = {"input": request, "background": True, "interleave": {"seed": 5}}
    options = ("--profile", "mini", "--runs", str(tmp_path / "runs"))
    first = StudioServer(tmp_path / "first", *options)
    id_ = first.client.post("/v1/responses", json=body).json()["id"]
    first.until(lambda: list((tmp_path / "runs").rglob("*.png")))
    first.process.kill()
    first.stop()
    second = StudioServer(tmp_path / "second", *options)
    again = second.client.post("/v1/responses", json=body).json()["id"]
    images = []
    for each in (id_, again):
        second.until(
            lambda each=each: second.client.get(f"/v1/documents/{each}").json()["status"] == "completed", 300
        )
        output = second.client.get(f"/v1/responses/{each}").json()["output"]
        images.append([item["result"] for item in output if item["type"] == "image_generation_call"])
    assert len(images[0]) == 4
    assert images[0] == images[1]
    assert second.stop() == 0


@pytest.mark.slow
def test_the_script_of_the_space_serves_guests(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "interleave"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m interleave "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PORT": "0",
        "INTERLEAVE_RUNS": str(tmp_path / "runs"),
        "INTERLEAVE_PROFILE": "dry-run",
        "SPACE_HOST": "name.hf.space",
    }
    running = subprocess.Popen(
        ["sh", str(SPACE / "start.sh")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    try:
        assert running.stdout is not None
        address = running.stdout.readline().strip().replace("0.0.0.0", "127.0.0.1")
        page = httpx.get(address, headers={"host": "name.hf.space"}, trust_env=False)
        assert "SameSite=None; Secure; Partitioned" in page.headers["set-cookie"]
        assert "frame-ancestors https://huggingface.co" in page.headers["content-security-policy"]
        assert httpx.get(f"{address}/v1/studio/documents", trust_env=False).status_code == 401
    finally:
        running.terminate()
        running.communicate(timeout=60)


def test_the_front_matter_of_the_space_names_the_port_that_is_served() -> None:
    matter = (SPACE / "README.md").read_text("utf-8").split("---")[1]
    port = re.search(r"app_port: (\d+)", matter)
    assert port and f"EXPOSE {port[1]}" in (SPACE / "Dockerfile").read_text("utf-8")
    assert f":-{port[1]}}}" in (SPACE / "start.sh").read_text("utf-8")
