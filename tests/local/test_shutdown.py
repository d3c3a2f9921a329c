"""Interpreters that have computed in threads of their own shut down in order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from interleave.local.tiny.vlms import build_tiny_vlm

REFERENCES = """
import sys
{first}
import torch._inductor.cudagraph_trees as trees

print(*[sys.getrefcount(getattr(trees.local, "tree_manager_" + name)) for name in ("containers", "locks")])
"""
PREPARED = "from interleave.local.decoding import prepare_cuda_graphs; prepare_cuda_graphs()"

DECODED = """
import asyncio, sys
from interleave.backends.protocols import Message, Sampling
from interleave.backends.registry import load_vlm
from interleave.types import Text

vlm = load_vlm(sys.argv[1], "critic")
asyncio.run(vlm.complete([Message("user", (Text("hello"),))], Sampling(max_tokens=8)))
print(vlm.static, "torch._inductor.cudagraph_trees" in sys.modules)
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=600)


@pytest.mark.slow
def test_what_a_thread_hands_to_torch_outlives_it() -> None:
    """Torch 2.11 releases a reference that it never took when the thread ends: one is taken for it."""
    plain, prepared = (
        [int(count) for count in python("-c", REFERENCES.format(first=first)).stdout.split()]
        for first in ("", PREPARED)
    )
    assert prepared == [count + 1 for count in plain]
    assert len(plain) == 2


def has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.mark.skipif(not has_cuda(), reason="does not apply: needs a CUDA device")
def test_a_process_that_has_computed_on_a_gpu_ends_with_code_0(tmp_path: Path) -> None:
    model = build_tiny_vlm(tmp_path / "toy")
    for _ in range(3):
        ended = python("-c", DECODED, f"transformers:{model}")
        assert (ended.returncode, ended.stdout.split()) == (0, ["True", "False"]), ended.stderr
