"""Probes while the job table is away: nobody is ready, everybody is live, and all recover by themselves."""

from __future__ import annotations

import httpx
import pytest
from local_postgres import PostgresServer, free_port
from machines import Machines, until

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install psycopg")


def asked(url: str) -> tuple[int, list[str]]:
    answer = httpx.get(url, timeout=30, trust_env=False)
    return answer.status_code, answer.json()["reasons"]


def test_a_job_table_that_is_away_makes_nobody_ready_and_kills_nobody(
    machines: Machines, postgres: PostgresServer
) -> None:
    service, port = machines.service(), free_port()
    machines.worker("--metrics-port", str(port))
    places = [service.url, f"http://127.0.0.1:{port}"]
    for place in places:
        until(lambda place=place: asked(f"{place}/health/ready") == (200, []))  # type: ignore[misc]
    assert httpx.get(f"{places[1]}/metrics", trust_env=False).status_code == 200

    postgres.stop()
    for place in places:
        until(lambda place=place: asked(f"{place}/health/ready")[0] == 503)  # type: ignore[misc]
        _, reasons = asked(f"{place}/health/ready")
        assert [each.partition(" cannot")[0].partition(" does not")[0] for each in reasons] == [
            "the job table"
        ]
        assert asked(f"{place}/health/live") == (200, [])

    postgres.start()
    for place in places:
        until(lambda place=place: asked(f"{place}/health/ready") == (200, []))  # type: ignore[misc]
    machines.wait_for(machines.submit(1))
