"""A job table behind PgBouncer, in its session mode: as docs/how-to/deploy.md says."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from local_postgres import USER, PostgresServer, free_port
from machines import Machines, until

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install psycopg")
PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
JOBS = 4


@pytest.fixture
def pooled(postgres: PostgresServer, database: str, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database through PgBouncer."""
    if PROGRAM is None:
        pytest.skip("pgbouncer is not installed: apt install pgbouncer")
    port, name = free_port(), urlsplit(database).path.strip("/")
    (tmp_path / "users.txt").write_text(f'"{USER}" ""\n')
    (tmp_path / "pgbouncer.ini").write_text(
        f"[databases]\n* = host=127.0.0.1 port={postgres.port}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = trust\n"
        f"auth_file = {tmp_path}/users.txt\nunix_socket_dir =\npool_mode = session\ndefault_pool_size = 40\n"
    )
    tmp_path.chmod(0o755)
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([PROGRAM, *user, str(tmp_path / "pgbouncer.ini")], stderr=log)
    url = f"postgres://{USER}@127.0.0.1:{port}/{name}"
    until(lambda: answers(url))
    yield url
    process.terminate()
    process.wait()


def answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=5).close()
        return True
    except psycopg.OperationalError:
        return False


def test_jobs_run_and_are_told_of_through_pgbouncer(pooled: str, tmp_path: Path) -> None:
    machines = Machines(tmp_path / "machines", pooled)
    try:
        machines.service()
        first = machines.worker()
        machines.wait_for(machines.submit(JOBS))
        # a call that waits is told by NOTIFY, through the service that did not do the work
        body = {"input": "How a frog grows up, in four pictures"}
        answer = machines.services[0].client.post("/v1/responses", json=body)
        assert answer.json()["status"] == "completed"
        jobs = machines.submit(JOBS)
        with machines.holding(JOBS):
            machines.worker()
            first.signal(signal.SIGKILL)
        machines.wait_for(jobs)
    finally:
        machines.stop()
