"""Models in bfloat16 on a CPU that has no instructions for it: they work, and no warning is shown."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from interleave.backends.protocols import ImageRequest, Message, Sampling
from interleave.backends.registry import load_generator, load_vlm
from interleave.local.devices import kernels_for, onednn_supports
from interleave.types import Text

CPU = torch.device("cpu")
pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="does not apply: torch without oneDNN"
)


@pytest.fixture
def poor_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """A CPU without bf16, as torch behaves on one: its first product with oneDNN warns and ends oneDNN.

    Yields, for every product in bfloat16, whether oneDNN was to compute it.
    """
    asked: list[bool] = []
    linear = torch.nn.functional.linear

    def warning_linear(values: torch.Tensor, *others: Any, **named: Any) -> torch.Tensor:
        if values.dtype == torch.bfloat16:
            asked.append(torch.backends.mkldnn.enabled)
            if asked[-1]:
                warnings.warn("mkldnn_matmul failed, switching to BLAS gemm", UserWarning, stacklevel=2)
                torch.backends.mkldnn.enabled = False
        return linear(values, *others, **named)

    monkeypatch.setattr(torch.nn.functional, "linear", warning_linear)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = True
    yield asked
    torch.backends.mkldnn.enabled = before


def test_a_vision_language_model_answers_without_a_warning_and_leaves_onednn_on(
    toy_vlm: Callable[[str | None], Path], poor_cpu: list[bool]
) -> None:
    vlm = load_vlm(f"transformers:{toy_vlm('critic')}?dtype=bfloat16", "critic")
    asyncio.run(vlm.complete((Message("user", (Text("right?"),)),), Sampling(max_tokens=4)))
    assert poor_cpu and not any(poor_cpu)
    assert torch.backends.mkldnn.enabled


def test_a_generator_draws_without_a_warning_and_leaves_onednn_on(klein: Path, poor_cpu: list[bool]) -> None:
    generator = load_generator(f"diffusers:{klein}?dtype=bfloat16&steps=1")
    asyncio.run(generator.generate(ImageRequest("a cat", 1)))
    assert poor_cpu and not any(poor_cpu)
    assert torch.backends.mkldnn.enabled


@pytest.mark.usefixtures("poor_cpu")
def test_onednn_is_left_out_for_bfloat16_alone_and_comes_back_after_a_failure() -> None:
    assert onednn_supports(torch.float32, CPU)
    assert onednn_supports(torch.bfloat16, torch.device("cuda"))
    assert not onednn_supports(torch.bfloat16, CPU)
    with kernels_for(torch.float32, CPU):
        assert torch.backends.mkldnn.enabled
    with pytest.raises(ValueError, match="within"), kernels_for(torch.bfloat16, CPU):
        assert not torch.backends.mkldnn.enabled
        raise ValueError("within")
    assert torch.backends.mkldnn.enabled


def test_a_cpu_that_has_the_instructions_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    assert onednn_supports(torch.bfloat16, CPU)


def test_torch_says_whether_this_cpu_has_them() -> None:
    """The name is torch's own, private one: a release that drops it must be noticed here."""
    assert isinstance(torch.ops.mkldnn._is_mkldnn_bf16_supported(), bool)
