"""Weights read straight to a device: the same models as the libraries load, and errors that name the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from interleave.errors import ConfigurationError
from interleave.local import weight_files as reading
from interleave.local.checkpoints import Source, weight_files
from interleave.local.direct_loading import (
    class_of,
    load_image_part,
    load_language_model,
    may_load_directly,
)
from interleave.local.weight_files import read_tensors

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PART_BYTES", 1000)  # no tensor ends where a part does


def same(one: Any, other: Any) -> bool:
    """Whether two models have the same weights and buffers."""
    tensors = [{**model.state_dict(), **dict(model.named_buffers())} for model in (one, other)]
    return tensors[0].keys() == tensors[1].keys() and all(
        torch.equal(tensor, tensors[1][name]) and tensor.dtype == tensors[1][name].dtype
        for name, tensor in tensors[0].items()
    )


def test_tensors_are_read_as_they_are(tmp_path: Path) -> None:
    torch.manual_seed(0)
    stored = {
        "large": torch.randn(77, 33),
        "half": torch.randn(5, 3).to(torch.bfloat16),
        "eighth": torch.randn(16, 16).to(torch.float8_e4m3fn),
        "whole": torch.arange(7),
        "single": torch.tensor(3.0),
        "empty": torch.empty(0, 4),
    }
    save_file(stored, tmp_path / "a.safetensors")
    save_file({"other": torch.ones(400)}, tmp_path / "b.safetensors")
    files = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    read = read_tensors(files, Source(str(tmp_path)), CPU)
    assert read.keys() == {*stored, "other"}
    for name, tensor in {**stored, "other": torch.ones(400)}.items():
        assert read[name].dtype == tensor.dtype and read[name].shape == tensor.shape
        assert torch.equal(read[name].view(-1).view(torch.uint8), tensor.view(-1).view(torch.uint8))


def test_a_vision_language_model(toy_vlm: Callable[[str | None], Path]) -> None:
    from transformers import AutoModelForImageTextToText

    folder = toy_vlm(None)
    usual = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.bfloat16)
    kind = class_of(AutoModelForImageTextToText, folder)
    direct, info = load_language_model(kind, folder, Source(str(folder)), CPU, dtype=torch.bfloat16)
    assert type(direct) is type(usual) and same(usual, direct)
    assert not info["missing_keys"] and not info["mismatched_keys"]
    assert direct.generation_config.to_dict() == usual.generation_config.to_dict()


@pytest.mark.parametrize("pipeline", ["Flux2KleinPipeline", "QwenImageEditPlusPipeline"])
@pytest.mark.parametrize("part", ["transformer", "vae"])
def test_parts_of_a_pipeline(toy_pipeline: Callable[[str], Path], pipeline: str, part: str) -> None:
    import diffusers

    folder = toy_pipeline(pipeline) / part
    kind = getattr(diffusers, json.loads((folder / "config.json").read_text())["_class_name"])
    assert may_load_directly(kind)
    direct, _ = load_image_part(kind, folder, Source(str(folder)), CPU, torch.bfloat16)
    assert same(kind.from_pretrained(folder, torch_dtype=torch.bfloat16), direct)
    assert not direct.training


def test_tied_weights_stay_one(klein: Path) -> None:
    from transformers import Qwen3ForCausalLM

    folder = klein / "text_encoder"
    encoder, _ = load_language_model(Qwen3ForCausalLM, folder, Source(str(klein)), CPU, dtype=torch.float32)
    assert encoder.lm_head.weight is encoder.model.embed_tokens.weight


def test_what_does_not_fit_is_told(klein: Path, copy_of: Callable[[Path], Path]) -> None:
    from diffusers import Flux2Transformer2DModel

    folder = copy_of(klein) / "transformer"
    file = folder / "diffusion_pytorch_model.safetensors"
    weights = load_file(file)
    weights["x_embedder.weight"] = torch.ones(2, 2)
    del weights["proj_out.weight"]
    save_file(weights, file)
    _, info = load_image_part(Flux2Transformer2DModel, folder, Source(str(folder)), CPU, torch.float32)
    assert info["missing_keys"] == {"proj_out.weight"}
    assert [name for name, *_ in info["mismatched_keys"]] == ["x_embedder.weight"]


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.safetensors"
    save_file({"a": torch.ones(5000)}, file)
    checked = reading.read_header

    def then_cut(path: Path, source: Source) -> Any:
        header = checked(path, source)
        size = path.stat().st_size
        monkeypatch.setattr(type(path), "stat", lambda self, **_: type("Stat", (), {"st_size": size}))
        with path.open("r+b") as opened:
            opened.truncate(size - 3000)
        return header

    monkeypatch.setattr(reading, "read_header", then_cut)
    with pytest.raises(ConfigurationError, match="ends too early"):
        read_tensors([file], Source(str(file)), CPU)


def test_a_type_that_is_not_known_is_refused(tmp_path: Path) -> None:
    header = json.dumps({"a": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}}).encode()
    file = tmp_path / "a.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"\0")
    with pytest.raises(ConfigurationError, match="unsupported type F4"):
        read_tensors(weight_files(tmp_path, Source(str(tmp_path))), Source(str(tmp_path)), CPU)
