"""Files from outside: pipes, devices, folders and endless files are refused wherever one is named."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interleave import files
from interleave.agents.prompts import read_pack
from interleave.backends.registry import load_vlm
from interleave.batches.requests import read_requests
from interleave.cli.main import run
from interleave.config.profiles import load_profile
from interleave.errors import ConfigurationError, InputError, InterleaveError
from interleave.remote.comfyui_workflow import read_workflow
from interleave.remote.endpoints import read_endpoints
from interleave.request_files import read_markdown, read_plan_file
from interleave.train.data.export.joined import read_items
from interleave.train.data.export.worker import held_out
from interleave.train.data.import_runs.stage import import_all
from interleave.train.data.manifest import file_digest, read_manifest
from interleave.train.data.prompts.stage import Settings, make_corpus
from interleave.train.data.prompts.taxonomy import read_taxonomy
from interleave.train.recipes import load_recipe

TERABYTE = 10**12


@pytest.fixture(autouse=True)
def no_hanging() -> Iterator[None]:
    """Whoever opens a pipe for good waits for ever: end that as a failure."""

    def give_up(*_: object) -> None:
        raise AssertionError("it waits for a file that never ends")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_pipe_that_is_written_to(path: Path) -> None:
    """It can be opened without waiting, and read without an end."""
    os.mkfifo(path)
    OPEN.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    os.write(OPEN[-1], b"{}\n")


def a_device(path: Path) -> None:
    path.symlink_to("/dev/null")


def a_folder(path: Path) -> None:
    path.mkdir()


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path.name)  # its whole path may be too long for a socket


def a_terabyte(path: Path) -> None:
    path.touch()
    os.truncate(path, TERABYTE)


OPEN: list[int] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPEN:
        os.close(OPEN.pop())


IRREGULAR = [a_pipe, a_pipe_that_is_written_to, a_device, a_folder, a_socket, a_terabyte]
WHY = ("not a regular file", "a folder", "bytes is more than", "No such device")


def as_taxonomy(path: Path) -> None:
    read_taxonomy(path.parent)


def as_manifest(path: Path) -> None:
    read_manifest(path)


def as_corpus(path: Path) -> None:
    make_corpus(Settings(source="files", files=(path,)), path.with_name("out.jsonl"))


READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "requests": ("r.jsonl", read_requests),
    "requests held out": ("r.jsonl", lambda path: held_out([path])),
    "a corpus": ("r.jsonl", as_corpus),
    "a script": ("s.jsonl", lambda path: load_vlm(f"scripted:./{path.name}", "planner")),
    "addresses": ("e.txt", lambda path: read_endpoints(path, 8011)),
    "a plan": ("p.json", read_plan_file),
    "Markdown": ("m.md", read_markdown),
    "a profile": ("p.toml", lambda path: load_profile(str(path))),
    "a taxonomy": ("world/d.toml", as_taxonomy),
    "a list to join": ("j.json", lambda path: list(read_items(path))),
    "lines to join": ("j.jsonl", lambda path: list(read_items(path))),
    "a digest": ("d.bin", file_digest),
    "a manifest": ("m.json", as_manifest),
    "a workflow": ("w.json", lambda path: read_workflow(str(path), {}, None)),
}


@pytest.mark.parametrize("irregular", IRREGULAR, ids=lambda each: each.__name__)
@pytest.mark.parametrize("reader", READERS)
def test_I08_what_is_no_file_of_bounded_size_is_refused_at_once(
    reader: str, irregular: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, read = READERS[reader]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    with monkeypatch.context() as there:
        there.chdir((tmp_path / name).parent)
        irregular(tmp_path / name)
    with pytest.raises((InputError, ConfigurationError)) as refused:
        read(tmp_path / name)
    assert any(why in str(refused.value) for why in WHY), refused.value


@pytest.mark.parametrize("irregular", [a_pipe, a_device, a_folder, a_socket], ids=lambda each: each.__name__)
def test_I08_what_must_be_a_file_to_be_found_is_not_found(
    irregular: Callable[[Path], None], tmp_path: Path
) -> None:
    irregular(tmp_path / "x.toml")
    (tmp_path / "pack.toml").write_text('name = "x"\nversion = "1"\n')
    irregular(tmp_path / "planner.md")
    for read in (
        lambda: load_recipe(str(tmp_path / "x.toml"), task="critic"),
        lambda: read_pack(tmp_path),
        lambda: import_all(tmp_path / "x.toml", tmp_path / "out"),
    ):
        with pytest.raises(InterleaveError):
            read()


def test_I08_devices_and_pipes_end_a_command_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    for arguments in (
        ["generate", "--requests", "/dev/zero", "--out", "many"],
        ["generate", "--requests", "pipe", "--out", "many"],
        ["generate", "A frog", "--planner", "scripted:/dev/zero"],
        ["generate", "A frog", "--generator", "http:/dev/zero"],
        ["generate", "A frog", "--plan", "/dev/zero"],
        ["data", "collect", "/dev/zero", "--out", "made"],
        ["data", "prompts", "--from", "/dev/zero", "--out", "x.jsonl"],
        ["data", "import", "/dev/zero", "--out", "made"],
    ):
        assert run(arguments) == 2, arguments
        assert len(capsys.readouterr().err.splitlines()) <= 2
    assert sorted(path.name for path in Path().iterdir()) == ["pipe"]


def test_a_file_is_read_up_to_its_bound_and_not_beyond(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert files.read_bytes(path, most_bytes=5) == b"12345"
    with pytest.raises(OSError, match="5 bytes is more than the 4 allowed"):
        files.read_bytes(path, most_bytes=4)


def test_a_file_that_does_not_know_its_size_is_read_no_further_than_its_bound() -> None:
    with pytest.raises(OSError, match="11 bytes is more than the 10 allowed"):
        files.read_bytes("/proc/self/status", most_bytes=10)
    with pytest.raises(OSError, match="is more than the 100 allowed"):
        list(files.read_lines("/proc/self/status", most_bytes=100, most_in_a_line=1000))


def test_text_is_read_with_any_ends_of_lines_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\rc\n")
    assert files.read_text(path) == "a\nb\nc\n"


def test_lines_come_with_their_numbers_and_places_and_long_ones_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"one\n\n" + b"x" * 50 + b"\n \nlast")
    found = list(files.read_lines(path, most_bytes=100, most_in_a_line=10))
    assert found == [(1, 0, b"one\n"), (3, 5, b"x" * 11), (5, 58, b"last")]


def test_a_name_that_no_file_can_have_is_no_file() -> None:
    for name in ("a\x00b", "\ud800"):
        with pytest.raises(OSError):
            files.read_bytes(name, most_bytes=1)


def test_no_file_stays_open_when_it_is_refused(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for _ in range(5):
        with pytest.raises(OSError):
            files.read_bytes(tmp_path, most_bytes=1)
    assert not before or len(os.listdir("/proc/self/fd")) == before
