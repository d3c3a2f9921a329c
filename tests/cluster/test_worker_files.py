"""What a worker writes into the shared folder, nobody else reads."""

from __future__ import annotations

import os
import stat

import pytest
from machines import Machines

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install psycopg")


def test_B21_nobody_else_reads_what_a_worker_writes(machines: Machines) -> None:
    before = os.umask(0)
    try:
        machines.service()
        machines.worker()
    finally:
        os.umask(before)
    machines.wait_for(machines.submit(1))
    written = [path for path in machines.runs.rglob("*") if not path.is_symlink()]
    assert any(path.name.startswith("journal") for path in written)
    assert [path for path in written if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
