"""Our own backends for remote generators against our own server: the contract of generators, over HTTP."""

from __future__ import annotations

import pytest
from serving import Server

from interleave.backends.registry import known_backends
from interleave.cli.main import run

SPECS = {
    "http": "http://127.0.0.1:{port}?max_sources=16",
    "openai-images": "openai-images:solid@http://127.0.0.1:{port}/v1?server=interleave&max_sources=16",
}


@pytest.mark.parametrize("backend", SPECS)
def test_a_served_generator_keeps_the_contract(server: Server, backend: str) -> None:
    if backend not in known_backends("generator"):
        pytest.skip(f"does not apply: there is no backend {backend!r} in this version")
    assert run(["backends", "check", SPECS[backend].format(port=server.port)]) == 0


@pytest.mark.parametrize("backend", SPECS)
def test_a_run_draws_with_a_served_generator(server: Server, backend: str) -> None:
    if backend not in known_backends("generator"):
        pytest.skip(f"does not apply: there is no backend {backend!r} in this version")
    spec = SPECS[backend].format(port=server.port)
    assert run(["generate", "A frog in 3 pictures", "--generator", spec, "--out", f"runs/{backend}"]) == 0
