"""A backup as docs/how-to/deploy.md makes it: first the job table, then the folder. Restored, it goes on."""

from __future__ import annotations

import base64
import io
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from local_postgres import PostgresServer
from machines import Machines
from PIL import Image

from interleave.runs.folder import comparable

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install psycopg")


def with_image() -> list[dict[str, Any]]:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(buffer, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    content = [
        {"type": "input_text", "text": "How a frog grows up, in four pictures"},
        {"type": "input_image", "image_url": url},
    ]
    return [{"role": "user", "content": content}]


def submitted(machines: Machines) -> str:
    body = {"input": with_image(), "background": True}
    return str(machines.services[-1].client.post("/v1/responses", json=body).json()["id"])


def dumped(postgres: PostgresServer, database: str, file: Path) -> None:
    command = [str(postgres.programs / "pg_dump"), "--format=custom", f"--file={file}", database]
    subprocess.run(command, check=True)


def restored(postgres: PostgresServer, file: Path) -> str:
    url = postgres.new_database("restored")
    subprocess.run([str(postgres.programs / "pg_restore"), f"--dbname={url}", str(file)], check=True)
    return url


def test_a_backup_made_while_jobs_run_loses_nothing_and_repeats_no_call(
    machines: Machines, postgres: PostgresServer, tmp_path: Path
) -> None:
    machines.service()
    ended, waiting = submitted(machines), ""
    first = machines.worker()
    machines.wait_for([ended])
    first.stop()
    waiting = submitted(machines)  # it waits in the dump, and has ended when the folder is copied
    dumped(postgres, machines.database, tmp_path / "jobs.dump")
    later = submitted(machines)
    machines.worker()
    machines.wait_for([waiting, later])
    shutil.copytree(machines.runs, tmp_path / "copy")
    whole = comparable(machines.run(waiting))
    answer = machines.response(ended)
    for each in (*machines.workers, *machines.services):
        each.stop()
    shutil.rmtree(machines.runs)

    made = machines.calls().total()
    machines.services.clear()
    machines.runs, machines.database = tmp_path / "copy", restored(postgres, tmp_path / "jobs.dump")
    machines.service()
    machines.worker()
    machines.wait_for([waiting])
    assert comparable(machines.run(waiting)) == whole
    assert machines.calls().total() == made
    assert machines.response(ended) == answer
    client = machines.services[-1].client
    assert client.get(f"/v1/responses/{later}").status_code == 404  # after the backup: unknown
