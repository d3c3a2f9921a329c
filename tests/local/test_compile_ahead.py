"""What is compiled ahead has the shapes of a real layer, and what fails there fails nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from transformers import Qwen3VLTextConfig

from interleave.backends.protocols import Message
from interleave.backends.registry import load_vlm
from interleave.local.completions import CompletionRequest
from interleave.local.qwen3_vl import compile_ahead as ahead
from interleave.local.qwen3_vl.decoder_layer import compiled_layer, decode_layer, layer_weights
from interleave.types import Text

TEXT = Qwen3VLTextConfig(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=1,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
)


def test_the_inputs_are_those_of_a_layer() -> None:
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextDecoderLayer

    inputs = ahead.layer_inputs(TEXT, torch.float32, torch.device("cpu"), rows=2)
    real = layer_weights(Qwen3VLTextDecoderLayer(TEXT, 0))
    assert [each.shape for each in inputs[1]] == [each.shape for each in real]
    with torch.inference_mode():
        assert decode_layer(*inputs).shape == (2, TEXT.hidden_size)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """What is compiled from here on; nothing is really compiled."""
    made: list[object] = []

    def backend(graph: Any, inputs: object) -> Any:
        made.append(graph)
        return graph.forward

    monkeypatch.setattr(ahead, "_COMPILING", {})
    whole = torch.compile
    monkeypatch.setattr(torch, "compile", lambda work, **how: whole(work, backend=backend, **how))
    compiled_layer.cache_clear()
    torch._dynamo.reset()
    yield made
    compiled_layer.cache_clear()
    torch._dynamo.reset()


def test_what_was_compiled_ahead_is_not_compiled_again(
    toy_vlm: Callable[[str | None], Path], tmp_path: Path, compilations: list[object]
) -> None:
    folder = copytree(toy_vlm(None), tmp_path / "vlm")  # not the model in memory, which may have adapters
    vlm: Any = load_vlm(f"transformers:{folder}?device=cpu&dtype=float32", "critic")
    decoder = vlm.loaded.decoder
    ahead.compile_ahead(decoder.model.config.get_text_config(), torch.float32, torch.device("cpu"))
    ahead.wait_until_compiled()
    assert len(compilations) == 1
    asked = CompletionRequest((Message("user", (Text("a"),)),), 4, static=True, compiled=True)
    assert len(decoder.complete([asked] * 3, lambda row: False)) == 3
    assert len(compilations) == 1


def test_one_shape_is_compiled_for_once_and_a_failure_is_left_to_its_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []

    def fails(*arguments: object) -> None:
        begun.append("several")
        raise RuntimeError("no compiler")

    monkeypatch.setattr(ahead, "_COMPILING", {})
    monkeypatch.setattr(ahead, "_compile_several", fails)
    monkeypatch.setattr(ahead, "_compile_single", lambda *arguments: begun.append("single"))
    for _ in range(2):
        ahead.compile_ahead(TEXT, torch.float32, torch.device("cpu"))
    ahead.wait_until_compiled()
    assert sorted(begun) == ["several", "single"]


def test_only_models_with_our_own_decode_step_are_compiled_for() -> None:
    assert not ahead.can_compile_ahead("llava")
