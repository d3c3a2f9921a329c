"""Saved models load elsewhere: with stock `AutoProcessor`, and in the releases of transformers others pin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from interleave.local.processors import has_torchvision, load_processor  # noqa: E402
from interleave.local.saved_models import make_loadable  # noqa: E402
from interleave.local.tiny.vlms import build_tiny_vlm  # noqa: E402


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A model as transformers 5 saves it, with our processor for text and images."""
    return build_tiny_vlm(tmp_path / "model")


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text("utf-8")))


def test_stock_auto_processor_finds_a_video_processor(saved: Path) -> None:
    with pytest.raises((OSError, ImportError), match="video processor"):
        transformers.AutoProcessor.from_pretrained(saved)
    make_loadable(saved)
    if has_torchvision():
        processor = transformers.AutoProcessor.from_pretrained(saved)
        assert type(processor.video_processor).__name__ == "Qwen3VLVideoProcessor"
    else:  # then it is asked for, as it is for the model as it was published
        with pytest.raises(ImportError, match="requires the Torchvision library"):
            transformers.AutoProcessor.from_pretrained(saved)
    assert read(saved / "video_preprocessor_config.json")["patch_size"] == 16


def test_the_settings_for_videos_are_those_of_the_model_it_was_trained_from(
    saved: Path, tmp_path: Path
) -> None:
    base = tmp_path / "base"
    base.mkdir()
    settings = {"video_processor_type": "Qwen3VLVideoProcessor", "max_frames": 768, "fps": 2}
    (base / "video_preprocessor_config.json").write_text(json.dumps(settings))
    make_loadable(saved, base)
    assert read(saved / "video_preprocessor_config.json") == {
        **settings,
        "processor_class": "Qwen3VLProcessor",
    }


def test_transformers_4_finds_images_tokens_and_positions(saved: Path) -> None:
    images = read(saved / "processor_config.json")["image_processor"]
    tokens = read(saved / "tokenizer_config.json")["extra_special_tokens"]
    rope = read(saved / "config.json")["text_config"]["rope_parameters"]
    make_loadable(saved)
    assert read(saved / "preprocessor_config.json") == {**images, "processor_class": "Qwen3VLProcessor"}
    named = read(saved / "tokenizer_config.json")
    assert named["additional_special_tokens"] == tokens
    assert not isinstance(named.get("extra_special_tokens", {}), list)
    text = read(saved / "config.json")["text_config"]
    assert {**text["rope_scaling"], "rope_theta": text["rope_theta"]} == rope


def test_what_is_loaded_is_the_same(saved: Path) -> None:
    import torch

    def loaded() -> tuple[Any, Any, Any]:
        tokenizer = transformers.AutoTokenizer.from_pretrained(saved)
        model = transformers.AutoModelForImageTextToText.from_pretrained(saved).eval()
        with torch.inference_mode():
            logits = model(input_ids=torch.arange(10, 60)[None]).logits
        return sorted(tokenizer.all_special_tokens), tokenizer("<|image_pad|> a cat")["input_ids"], logits

    before = loaded()
    make_loadable(saved)
    after = loaded()
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])
    assert load_processor(saved, "qwen3_vl").image_token == "<|image_pad|>"


def test_what_a_folder_has_is_left_alone(saved: Path) -> None:
    (saved / "video_preprocessor_config.json").write_text('{"mine": true}')
    make_loadable(saved)
    assert read(saved / "video_preprocessor_config.json") == {"mine": True}
    files = {path.name: path.read_bytes() for path in saved.iterdir()}
    make_loadable(saved)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == files


def test_a_folder_without_a_processor_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    make_loadable(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
