"""Files of a saved model that other programs and other releases of transformers require.

transformers 5 saves a processor as one `processor_config.json`, and this package's Qwen-VL processor has no
part for videos. Stock `AutoProcessor` (also in LLaMA-Factory, ms-swift, verl and vLLM) rejects such a folder,
because it requires a video processor. transformers 4.57 expects each part in a separate file, and reads the
special tokens of transformers 5, a list under `extra_special_tokens`, as a table. It expects the rotary
frequencies under `rope_theta` and `rope_scaling` instead of `rope_parameters`. Every release can read the
files written here. Existing files are not changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from interleave.plugin import write_atomic

MODEL, PROCESSOR, TOKENIZER = "config.json", "processor_config.json", "tokenizer_config.json"
IMAGES, VIDEOS = "preprocessor_config.json", "video_preprocessor_config.json"
VIDEO_PROCESSORS = {
    "Qwen3VLProcessor": "Qwen3VLVideoProcessor",
    "Qwen2_5_VLProcessor": "Qwen2VLVideoProcessor",
    "Qwen2VLProcessor": "Qwen2VLVideoProcessor",
}
"""Video processor class by processor class."""
SHARED_WITH_IMAGES = ("image_mean", "image_std", "merge_size", "patch_size", "temporal_patch_size")
"""Settings that determine tokens: video frames are cut like images."""
TOKENS, OLD_TOKENS = "extra_special_tokens", "additional_special_tokens"


def make_loadable(folder: Path, base: Path | None = None) -> None:
    """Write the missing files of a folder; the video settings come from `base` if it has any."""
    processor = _read(folder / PROCESSOR)
    name = str(processor.get("processor_class", ""))
    images = processor.get("image_processor") or _read(folder / IMAGES)
    if images and not (folder / IMAGES).exists():
        _write(folder / IMAGES, {**images, "processor_class": name})
    if name in VIDEO_PROCESSORS and not (folder / VIDEOS).exists():
        settings = processor.get("video_processor") or _video_settings_of(base) or _like_images(images, name)
        _write(folder / VIDEOS, {**settings, "processor_class": name})
    _name_tokens_for_all(folder / TOKENIZER)
    _name_positions_for_all(folder / MODEL)


def _video_settings_of(base: Path | None) -> dict[str, Any]:
    if base is None:
        return {}
    return _read(base / VIDEOS) or _read(base / PROCESSOR).get("video_processor") or {}


def _like_images(images: dict[str, Any], name: str) -> dict[str, Any]:
    shared = {key: images[key] for key in SHARED_WITH_IMAGES if key in images}
    return {"video_processor_type": VIDEO_PROCESSORS[name], **shared}


def _name_tokens_for_all(path: Path) -> None:
    """Rename special tokens to the key that both transformers 4 and 5 read."""
    settings = _read(path)
    tokens = settings.get(TOKENS)
    if isinstance(tokens, list):
        kept = {key: value for key, value in settings.items() if key != TOKENS}
        _write(path, {**kept, OLD_TOKENS: tokens})


def _name_positions_for_all(path: Path) -> None:
    """Add the rotary settings under their transformers 4 names."""
    settings = _read(path)
    text = settings.get("text_config", settings)
    rope = text.get("rope_parameters")
    if isinstance(rope, dict) and "rope_theta" in rope and "rope_scaling" not in text:
        scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
        text |= {"rope_theta": rope["rope_theta"], "rope_scaling": scaling}
        _write(path, settings)


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_bytes())) if path.is_file() else {}


def _write(path: Path, settings: dict[str, Any]) -> None:
    write_atomic(path, (json.dumps(settings, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode())
