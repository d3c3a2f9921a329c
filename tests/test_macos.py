"""What macOS does otherwise than Linux, imitated on any system."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from interleave import files
from interleave.service.generator import worker_protocol

F_FULLFSYNC = 51


@pytest.fixture
def full_syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The files that were synced past the drive's cache."""
    synced: list[int] = []
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", F_FULLFSYNC, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda file, call: synced.append(file))
    monkeypatch.delattr(os, "fdatasync")
    return synced


def test_what_is_written_is_synced_past_the_cache_of_the_drive(tmp_path: Path, full_syncs: list[int]) -> None:
    files.write_atomic(tmp_path / "plan.json", b"{}")
    assert len(full_syncs) == 2  # the file and its folder


@pytest.mark.parametrize("only_data", [True, False])
def test_a_file_system_without_full_syncs_is_synced_plainly(
    tmp_path: Path, full_syncs: list[int], monkeypatch: pytest.MonkeyPatch, only_data: bool
) -> None:
    def refuse(file: int, call: int) -> None:
        raise OSError(errno.ENOTSUP, "not supported")

    plain: list[int] = []
    monkeypatch.setattr(fcntl, "fcntl", refuse)
    monkeypatch.setattr(os, "fsync", plain.append)
    files.sync_file(7, only_data=only_data)
    assert plain == [7]


def test_the_limit_of_open_files_is_raised_as_far_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [256, resource.RLIM_INFINITY]

    def set_limit(_: int, wanted: tuple[int, int]) -> None:
        if wanted[0] > 10_240:
            raise ValueError("current limit exceeds maximum limit")
        limits[:] = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    assert files.allow_open_files(16_384) == limits[0] == 8_192


def test_a_worker_lives_on_while_the_server_does_not_read_its_heartbeats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = OSError(errno.ENOBUFS, "no buffer space available")
    answers: Iterator[Exception] = iter([full, full, full, ConnectionRefusedError()])

    class Gone(Exception): ...

    def send(*_: object) -> int:
        raise next(answers)

    def leave(code: int) -> None:
        raise Gone

    monkeypatch.setattr(worker_protocol, "BEAT_SECONDS", 0.001)
    monkeypatch.setattr(os, "_exit", leave)
    ours, theirs = socket.socketpair()
    sender = worker_protocol.HeartbeatSender(ours.detach())
    with theirs, sender._socket:
        monkeypatch.setattr(sender, "_socket", SimpleNamespace(send=send))
        with pytest.raises(Gone):
            sender._beat()
    assert list(answers) == []
