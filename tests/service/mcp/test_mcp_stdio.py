"""`interleave serve mcp` as hosts start it: clients that nobody here wrote, and processes that are killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from calling import id_in, images_in, status_in, texts
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from running import DocumentServer, until

from interleave import read_record
from interleave.runs.journal import read_journal
from work import HANGS_AFTER

pytestmark = pytest.mark.slow
SLOW = ("--profile", "dry-run", "--generator", "solid?delay=0.4&size=64")


class Host:
    """A folder of documents, and how a host starts the server for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "documents"
        self.arguments = ["-m", "interleave", "serve", "mcp", "--runs", str(self.folder), *SLOW]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("INTERLEAVE")}
        self.parameters = StdioServerParameters(command=sys.executable, args=self.arguments, env=kept)

    def client(self, **options: Any) -> Client:
        return Client(stdio_client(self.parameters), **options)

    @property
    def address(self) -> str:
        return str(json.loads((self.folder / "service.json").read_text())["address"])

    @property
    def service(self) -> int:
        """The process of the document service, by the lock that it holds."""
        inode = (self.folder / "service.lock").stat().st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            if line.split()[5].endswith(f":{inode}"):
                return int(line.split()[4])
        raise AssertionError("no service holds the folder")

    def drawn(self) -> int:
        journals = self.folder.glob("runs/**/journal.jsonl")
        return sum(path.read_text().count('"event":"drawn"') for path in journals)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    if not Path("/proc/locks").exists():
        pytest.skip("does not apply: finds processes where Linux lists locks")
    made = Host(tmp_path)
    yield made
    if not (made.folder / "service.json").exists():
        return
    os.kill(made.service, signal.SIGTERM)
    until(lambda: not (made.folder / "service.json").exists())


def test_two_hosts_at_once_share_the_service_and_its_documents(host: Host) -> None:
    async def both() -> Any:
        async with host.client() as one, host.client(mode="legacy") as other:
            made: list[Any] = []

            async def make(client: Client, name: str) -> None:
                made.append(await client.call_tool("make_document", {"request": f"A {name} in 2 pictures"}))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(make, one, "frog")
                tasks.start_soon(make, other, "boat")
            return made, await one.call_tool("look_at_document", {})

    made, listed = anyio.run(both)
    assert [len(images_in(each)) for each in made] == [2, 2]
    assert all(id_in(each) in texts(listed) for each in made)


def test_a_killed_host_finds_its_document_finished(host: Host) -> None:
    process = subprocess.Popen(
        [sys.executable, *host.arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=host.parameters.env,
        text=True,
    )
    assert process.stdin is not None
    client = {"name": "killed", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    call = {"name": "make_document", "arguments": {"request": "A frog in 4 pictures"}}
    for message in (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()
    until(lambda: host.folder.exists() and host.drawn() >= 1)
    process.kill()
    process.communicate()
    until(lambda: httpx.get(f"{host.address}/v1/documents").json()["data"][0]["status"] == "completed")

    async def back() -> Any:
        async with host.client() as client:
            listed = texts(await client.call_tool("look_at_document", {}))
            id_ = next(word for word in listed.split() if word.startswith("resp_"))
            return await client.call_tool("look_at_document", {"document": id_})

    found = anyio.run(back)
    assert status_in(found) == "completed"
    assert len(images_in(found)) == 4


def test_a_killed_service_is_started_again_and_repeats_no_finished_call(host: Host) -> None:
    async def work() -> Any:
        async with host.client() as client:
            made: list[Any] = []

            async def make() -> None:
                made.append(await client.call_tool("make_document", {"request": "A frog in 4 pictures"}))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(make)
                await anyio.to_thread.run_sync(until, lambda: host.folder.exists() and host.drawn() >= 2)
                os.kill(host.service, signal.SIGKILL)
            return made[0]

    made = anyio.run(work)
    assert status_in(made) == "completed"
    assert len(images_in(made)) == 4
    (journal,) = host.folder.glob("runs/**/journal.jsonl")
    slots = [(e.role, e.call) for e in read_journal(journal.parent) if e.event == "drawn"]
    assert len(slots) == len(set(slots))


def test_fastmcp_reads_texts_and_images_in_order(host: Host) -> None:
    fastmcp = pytest.importorskip("fastmcp")
    server = {"command": sys.executable, "args": host.arguments, "env": host.parameters.env}

    async def work() -> Any:
        async with fastmcp.Client({"mcpServers": {"interleave": server}}) as client:
            return await client.call_tool("make_document", {"request": "A frog in 2 pictures"})

    made = anyio.run(work)
    assert [block.type for block in made.content][:5] == ["text", "text", "image", "text", "image"]


def test_the_inspector_calls_a_tool(host: Host) -> None:
    inspector = shutil.which("mcp-inspector") or pytest.skip("the MCP Inspector is not installed (npm)")
    command = [inspector, "--cli", sys.executable, *host.arguments, "--method", "tools/call"]
    command += ["--tool-name", "make_document", "--tool-arg", "request=A frog in 2 pictures"]
    done = subprocess.run(command, env=host.parameters.env, capture_output=True, text=True, timeout=120)
    made = json.loads(done.stdout)
    assert [block["type"] for block in made["content"]][:5] == ["text", "text", "image", "text", "image"]


def test_a_service_that_nobody_uses_ends_but_not_before_its_documents(tmp_path: Path) -> None:
    slower = ("--profile", "dry-run", "--generator", "solid?delay=2&size=64")  # longer than the idle time
    ends = ("--end-when-idle", "5")  # longer than the first request of a busy machine takes
    running = DocumentServer(tmp_path, *slower, "--runs", str(tmp_path / "documents"), *ends)
    body = {"input": "A frog in 5 pictures", "background": True}
    assert running.client.post("/v1/responses", json=body).status_code == 200
    assert running.process.wait(HANGS_AFTER) == 0
    (journal,) = (tmp_path / "documents").glob("runs/**/journal.jsonl")
    assert read_record(journal.parent).status == "done"
    assert not (tmp_path / "documents" / "service.json").exists()
    running.stop()


def test_without_models_the_reason_is_said(tmp_path: Path) -> None:
    arguments = ["-m", "interleave", "serve", "mcp", "--runs", str(tmp_path / "documents")]
    arguments += ["--planner", "openai:gpt-9", "--critic", "scripted", "--generator", "solid"]
    kept = {key: value for key, value in os.environ.items() if "API_KEY" not in key}
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=kept)

    async def work() -> Any:
        async with Client(stdio_client(parameters)) as client:
            return await client.call_tool("look_at_document", {})

    refused = anyio.run(work)
    assert refused.is_error
    assert "OPENAI_API_KEY" in texts(refused)
