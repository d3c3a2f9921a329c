"""A text encoder without the layers whose states are not used gives the same states."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from diffusers import Flux2KleinPipeline

from interleave.local.tiny.pipelines import build_tiny_pipeline
from interleave.local.unread_layers import drop_unread_layers


@pytest.fixture
def pipeline(tmp_path: Path) -> Flux2KleinPipeline:
    return Flux2KleinPipeline.from_pretrained(build_tiny_pipeline(tmp_path / "klein", "Flux2KleinPipeline"))


def test_the_states_of_the_layers_before_are_the_same(pipeline: Flux2KleinPipeline) -> None:
    layers = len(pipeline.text_encoder.model.layers)
    read = (0, layers - 1)
    settings = {"max_sequence_length": 32, "text_encoder_out_layers": read}
    with torch.inference_mode():
        expected, _ = pipeline.encode_prompt("a green pond", **settings)
        assert drop_unread_layers(pipeline, read) == 0  # the one after is kept
        assert torch.equal(pipeline.encode_prompt("a green pond", **settings)[0], expected)


def test_layers_after_those_read_are_dropped(pipeline: Flux2KleinPipeline) -> None:
    layers = len(pipeline.text_encoder.model.layers)
    settings = {"max_sequence_length": 32, "text_encoder_out_layers": (0,)}
    with torch.inference_mode():
        expected, _ = pipeline.encode_prompt("a green pond", **settings)
        assert drop_unread_layers(pipeline, (0,)) == layers - 1
        assert torch.equal(pipeline.encode_prompt("a green pond", **settings)[0], expected)
    assert len(pipeline.text_encoder.model.layers) == 1
    assert drop_unread_layers(pipeline, (0,)) == 0


def test_a_pipeline_without_such_a_parameter_is_left_alone() -> None:
    class Other:
        text_encoder = None

        def __call__(self) -> None: ...

    assert drop_unread_layers(Other(), None) == 0
