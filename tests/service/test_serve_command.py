"""The command line of the server: what it refuses to start with, and its presets and devices."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from serving import CANARY, PLUGINS

from interleave.cli.main import run
from interleave.config.specs import parse_spec
from interleave.errors import ConfigurationError
from interleave.service.cli.serve import serve_generator
from interleave.service.generator.config import PRESETS, find_preset, parse_devices, visible_devices
from interleave.service.generator.server import listen
from interleave.service.http.auth import Access, is_loopback
from interleave.service.http.refusals import Refusal
from work import HANGS_AFTER

Captured = pytest.CaptureFixture[str]
SOLID = ["--generator", "solid"]

REFUSED: dict[str, tuple[list[str], str]] = {
    "nothing to serve": ([], "name what to serve: --generator SPEC"),
    "unknown generator": (["--generator", "sollid"], "Did you mean 'solid'?"),
    "unknown preset": (["--preset", "klien"], "Did you mean 'klein'?"),
    "no such number": (["--preset", "12"], "no preset '12'"),
    "G20 every address": ([*SOLID, "--host", "0.0.0.0"], "no token is set"),
    "G20 every address, IPv6": ([*SOLID, "--host", "::"], "no token is set"),
    "G20 no address": ([*SOLID, "--host", ""], "no token is set"),
    "G20 a private address": ([*SOLID, "--host", "10.1.2.3"], "INTERLEAVE_SERVER_TOKEN"),
    "an empty token": ([*SOLID, "--host", "0.0.0.0", "--token", ""], "the token must be"),
    "a token with a line break": ([*SOLID, "--token", "a\nb"], "the token must be"),
    "an address that is not ours": ([*SOLID, "--host", "203.0.113.7", "--token", "t" * 20], "203.0.113.7"),
    "no port": ([*SOLID, "--port", "70000"], "'--port'"),
    "no queue": ([*SOLID, "--queue", "0"], "'--queue'"),
    "an odd device": ([*SOLID, "--devices", "gpu"], "'gpu' is not a device"),
    "a device twice": ([*SOLID, "--devices", "0,1,0"], "device 0 is named twice"),
    "cpu and another": ([*SOLID, "--devices", "cpu+0"], "cpu cannot be joined"),
    "an unknown option": (["--generator", "solid?sise=64"], "Did you mean 'size'?"),
    "streams ignored": (
        [*SOLID, "--ignore", "user,stream", "--host", "203.0.113.7", "--token", "t" * 20],
        "wait for events that never come",
    ),
    "a bad option": (["--generator", "solid?size=1"], "option 'size'"),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_served_is_refused_with_code_2(
    arguments: list[str], words: str, capfd: Captured
) -> None:
    assert run(["serve", "generator", "--port", "0", *arguments]) == 2
    said = capfd.readouterr().err
    assert words in said
    assert "Traceback" not in said


def test_a_generator_that_is_misconfigured_ends_the_server(
    monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS), prepend=os.pathsep)
    monkeypatch.setattr(sys, "path", [str(PLUGINS), *sys.path])
    assert run(["serve", "generator", "--port", "0", "--generator", "awkward?load=misconfigured"]) == 2
    said = capfd.readouterr().err
    assert "interleave: there are no weights in './nowhere': name a folder" in said
    assert "starting again" not in said


def test_a_port_that_is_taken_is_said(capfd: Captured) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert run(["serve", "generator", *SOLID, "--port", port]) == 2
    assert f"cannot listen on 127.0.0.1:{port}" in capfd.readouterr().err


def test_the_missing_extra_is_said_with_its_command(monkeypatch: pytest.MonkeyPatch, capfd: Captured) -> None:
    found = importlib.util.find_spec

    def without_fastapi(name: str, *more: Any) -> Any:
        return None if name == "fastapi" else found(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without_fastapi)
    assert run(["serve", "generator", *SOLID]) == 2
    said = capfd.readouterr().err
    assert "needs the package 'fastapi'" in said
    assert 'pip install "interleavethinker[serve]"' in said


def test_a_token_on_the_command_line_is_warned_of_and_not_repeated(capfd: Captured) -> None:
    arguments = [*SOLID, "--host", "203.0.113.7", "--token", CANARY]
    assert run(["serve", "generator", "--port", "0", *arguments]) == 2
    said = capfd.readouterr().err
    assert "--token shows in the list of processes: set INTERLEAVE_SERVER_TOKEN" in said
    assert CANARY not in said


def test_the_presets_are_the_references_eleven_services() -> None:
    assert [preset.port for preset in PRESETS.values()] == list(range(8001, 8012))
    assert [preset.number for preset in PRESETS.values()] == list(range(1, 12))
    for name, preset in PRESETS.items():
        assert find_preset(name) == find_preset(str(preset.number)) == (name, preset)
        spec = parse_spec(preset.generator)
        assert (spec.name, "/" in (spec.model or "")) == ("diffusers", True)
        assert {"steps", "guidance"} <= set(spec.options) or set(spec.options) == {"lora"}


def test_the_documentation_lists_every_preset() -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "serving.md").read_text()
    for name, preset in PRESETS.items():
        assert f"| {preset.number} | `{name}` | {preset.port} | `{preset.generator}` |" in text


def test_the_documentation_lists_every_option() -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "serving.md").read_text()
    names = [name for name in inspect.signature(serve_generator).parameters if name != "debug"]
    assert len(names) > 10
    for name in names:
        assert re.search(rf"^\| .*`--{name.replace('_', '-')}[ `]", text, re.MULTILINE), name


DEVICES: dict[str, tuple[str | None, list[str | None]]] = {
    "none": (None, [None]),
    "one": ("0", ["0"]),
    "two": ("0, 1", ["0", "1"]),
    "pairs": ("0+1,2+3", ["0+1", "2+3"]),
    "names": ("GPU-8932f937-d72c,MIG-5c89/1/0", ["GPU-8932f937-d72c", "MIG-5c89/1/0"]),
    "processors": ("cpu,cpu", ["cpu", "cpu"]),
}


@pytest.mark.parametrize(("text", "devices"), DEVICES.values(), ids=DEVICES)
def test_devices_are_read(text: str | None, devices: list[str | None]) -> None:
    assert parse_devices(text) == devices


def test_a_worker_sees_its_device_alone_counted_among_those_we_may_use() -> None:
    scheduler = {"CUDA_VISIBLE_DEVICES": "4,7"}
    assert visible_devices(None, scheduler) == {}
    assert visible_devices("1", {}) == {"CUDA_VISIBLE_DEVICES": "1"}
    assert visible_devices("1", scheduler) == {"CUDA_VISIBLE_DEVICES": "7"}
    assert visible_devices("0+1", scheduler) == {"CUDA_VISIBLE_DEVICES": "4,7"}
    assert visible_devices("cpu", scheduler) == {"CUDA_VISIBLE_DEVICES": ""}
    with pytest.raises(ConfigurationError, match="no device 2"):
        visible_devices("2", scheduler)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_this_machine_is_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "no.such.host.invalid"])
def test_all_else_is_not(host: str) -> None:
    assert not is_loopback(host)


NAMES_OF_OURS = ["localhost", "localhost:8011", "127.0.0.1:8011", "[::1]:8011", "LOCALHOST:1"]


@pytest.mark.parametrize("host", NAMES_OF_OURS)
def test_G21_our_own_names_are_answered(host: str) -> None:
    Access(None).check("/edit", {"host": host})


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::1"]
)
def test_G21_other_names_are_not(host: str) -> None:
    with pytest.raises(Refusal) as refusal:
        Access(None).check("/edit", {"host": host})
    assert refusal.value.status == 403


def test_G21_a_token_is_enough_behind_a_proxy_with_a_name_of_its_own() -> None:
    Access("secret-token").check("/edit", {"host": "images.example", "authorization": "Bearer secret-token"})
    with pytest.raises(Refusal):
        Access("secret-token").check(
            "/edit",
            {"host": "a.example", "origin": "https://b.example", "authorization": "Bearer secret-token"},
        )


@pytest.mark.parametrize("preset", ["klein", "omnigen2"])
def test_a_preset_looks_for_its_model_before_it_gives_an_address(
    preset: str, monkeypatch: pytest.MonkeyPatch, capfd: Captured, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert run(["serve", "generator", "--port", "0", "--preset", preset]) == 2
    said = capfd.readouterr()
    assert "is not on this disk" in said.err
    assert said.out == ""


def test_a_folder_that_is_no_model_is_refused_before_an_address_is_given(
    capfd: Captured, tmp_path: Path
) -> None:
    generator = f"diffusers:{tmp_path}"
    assert run(["serve", "generator", "--port", "0", "--generator", generator]) == 2
    said = capfd.readouterr()
    assert "it has no model_index.json" in said.err
    assert said.out == ""


def test_a_model_whose_code_is_not_installed_is_refused_before_an_address_is_given(
    capfd: Captured, tmp_path: Path
) -> None:
    if importlib.util.find_spec("omnigen2") is not None:
        pytest.skip("does not apply: omnigen2 is installed")
    (tmp_path / "model_index.json").write_text('{"_class_name": "OmniGen2Pipeline"}')
    assert run(["serve", "generator", "--port", "0", "--generator", f"diffusers:{tmp_path}"]) == 2
    said = capfd.readouterr()
    assert "git clone https://github.com/VectorSpaceLab/OmniGen2" in said.err
    assert said.out == ""


def test_a_client_can_connect_before_the_server_runs() -> None:
    with listen("127.0.0.1", 0) as listening:
        socket.create_connection(listening.getsockname(), timeout=HANGS_AFTER).close()
