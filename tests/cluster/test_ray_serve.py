"""A generator as replicas on a Ray cluster of several nodes, one of which is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc_reflection", reason='Ray Serve is not installed: pip install "ray[serve]"')
pytest.importorskip("ray.serve", reason='Ray Serve is not installed: pip install "ray[serve]"')

from ray.cluster_utils import Cluster
from serving import Server

from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator
from interleave.service.generator.ray_replicas import RayReplicas

SPEC = "solid?size=64&delay=1"
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Two nodes with room for a replica each; the first one keeps the books of the cluster."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_register_timeout_seconds", "600")  # on a busy machine
    head = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
    started = Cluster(initialize_head=True, head_node_args=head)
    started.add_node(num_cpus=1, object_store_memory=100_000_000)
    started.wait_for_nodes()
    yield started
    started.shutdown()


def test_a_spec_for_the_cluster_survives_the_way_to_the_worker() -> None:
    wanted = RayReplicas("diffusers:a/b?steps=4&guidance=1", 2, 8, 0.5)
    assert RayReplicas.parse(wanted.spec) == wanted


def test_J16_a_node_is_lost_and_no_image_is(cluster: Cluster, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    server = Server(tmp_path / "server", "--generator", SPEC, "--on", "ray", "--replicas", "2", ready=False)
    try:
        server.until(lambda: server.client.get("/health").status_code == 200, seconds=900)
        assert server.status()["settings"]["size"] == 64
        generator = load_generator(f"{server.url}?concurrency=12")

        async def one(number: int) -> None:
            assert (await generator.generate(ImageRequest(f"cat {number}", number))).size == (64, 64)

        async def story() -> None:
            drawing = asyncio.gather(*(one(number) for number in range(12)))
            await asyncio.sleep(1.5)
            await asyncio.to_thread(cluster.remove_node, next(iter(cluster.worker_nodes)), False)
            await drawing

        asyncio.run(story())
    finally:
        server.stop()
