"""The model that learns: loaded, with its processor, and with the parts that must not learn held still."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from interleave.backends.local.checkpoints import Source, check_model, find_model, read_json, refuse_bad_fit
from interleave.backends.local.library_errors import as_configuration_error
from interleave.backends.local.processors import load_processor
from interleave.backends.local.silence import quiet
from interleave.backends.qwen3_vl.batched_vision import batch_vision
from interleave.backends.qwen3_vl.uint8_pixels import flat, use_uint8_pixels
from interleave.errors import ConfigurationError
from interleave.training.recipes import ModelPart

PREFIX = "transformers:"


@dataclass(frozen=True)
class Learner:
    """What a trainer is given."""

    folder: Path
    model: Any
    processor: Any
    base: str
    """How a spec names the model it starts from: as on the Hub, or by its path."""
    lora: Any
    """A `LoraConfig`, or None where the weights themselves learn."""


def model_source(part: ModelPart) -> Source:
    """Where the model of a recipe is; a spec `transformers:…` without options names one too."""
    name = part.name.removeprefix(PREFIX)
    if not name:
        raise ConfigurationError("which model? Name it with --model ORG/NAME, or --model ./FOLDER")
    if "?" in name:
        raise ConfigurationError(f"{part.name!r}: write the model without the options of a spec")
    if Path(name).is_dir() and not name.startswith(("/", ".", "~")):
        name = f"./{name}"
    return Source(name, part.revision)


def load_learner(part: ModelPart, *, picture_cache_mb: int = 0) -> Learner:
    """The model and its processor, ready for a trainer."""
    source = model_source(part)
    folder = find_model(source)
    check_model(folder, source, trust_remote_code=False)
    model = _load(folder, source, part)
    freeze(model, part)
    processor = load_eyes(folder, source, part)
    if not use_uint8_pixels(model, processor) and picture_cache_mb:
        remember_pictures(processor.image_processor, PictureMemory(picture_cache_mb * 1_000_000))
    base = str(folder.absolute()) if source.is_path else source.model
    return Learner(folder, model, processor, base, lora_config(part))


def load_eyes(folder: Path, source: Source, part: ModelPart) -> Any:
    """The processor of a model, looking at pictures in the size that the recipe says."""
    model_type = str(read_json(folder / "config.json", source).get("model_type"))
    with quiet(), as_configuration_error(f"the processor in {folder} cannot be loaded"):
        processor = load_processor(folder, model_type)
    limits = dict(getattr(processor.image_processor, "size", None) or {})
    wanted = {"shortest_edge": part.min_pixels, "longest_edge": part.max_pixels}  # areas, despite their names
    changed = {name: pixels for name, pixels in wanted.items() if pixels is not None}
    if changed:
        processor.image_processor.size = {**limits, **changed}
    return processor


def freeze(model: Any, part: ModelPart) -> None:
    """Hold the vision tower still, if the recipe says so."""
    if part.train_vision:
        return
    tower = next((module for name, module in model.named_modules() if name.split(".")[-1] == "visual"), None)
    if tower is None:
        raise ConfigurationError(
            f"model.train_vision = false: a {type(model).__name__} has no part named 'visual' to hold still"
        )
    tower.requires_grad_(False)


def lora_config(part: ModelPart) -> Any:
    """The adapter that learns in place of the weights, or None."""
    if not part.lora_rank:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=part.lora_rank,
        lora_alpha=part.lora_alpha or 2 * part.lora_rank,
        lora_dropout=part.lora_dropout,
        target_modules=list(part.lora_targets),
        task_type="CAUSAL_LM",
    )


def _load(folder: Path, source: Source, part: ModelPart) -> Any:
    import torch
    from transformers import AutoModelForImageTextToText

    with quiet(), as_configuration_error(f"the model in {folder} cannot be loaded"):
        model, info = AutoModelForImageTextToText.from_pretrained(
            folder,
            dtype=torch.float32 if part.weights == "float32" else torch.bfloat16,
            attn_implementation=None if part.attention == "auto" else part.attention,
            use_safetensors=True,
            local_files_only=True,
            ignore_mismatched_sizes=True,  # they are refused below, with the file named
            output_loading_info=True,
        )
    refuse_bad_fit(folder, info, source)
    batch_vision(model)
    return model


class PictureMemory:
    """What an image processor made of pictures, by their content: groups and epochs show the same again."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._kept: OrderedDict[bytes, tuple[Any, Any]] = OrderedDict()
        self._bytes = 0

    def recall(self, picture: Any, make: Callable[[], tuple[Any, Any]]) -> tuple[Any, Any]:
        key = hashlib.blake2b(picture.tobytes(), digest_size=16, salt=_salt(picture.size)).digest()
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        made = self._kept[key] = make()
        self._bytes += made[0].nbytes
        while self._bytes > self.budget_bytes and len(self._kept) > 1:
            _, (old, _) = self._kept.popitem(last=False)
            self._bytes -= old.nbytes
        return made


def remember_pictures(image_processor: Any, memory: PictureMemory) -> None:
    """Let an image processor look into a memory before it works; it is saved as the class it was."""
    own = type(image_processor)

    class Remembering(own):  # type: ignore[misc, valid-type]
        def __call__(self, images: Any, **options: Any) -> Any:
            import torch
            from transformers import BatchFeature

            def make(picture: Any) -> tuple[Any, Any]:
                features = own.__call__(self, [picture], **{**options, "return_tensors": "pt"})
                return features["pixel_values"], features["image_grid_thw"]

            made = [memory.recall(picture, partial(make, picture)) for picture in flat(images)]
            pixels, grids = (torch.cat([each[place] for each in made]) for place in (0, 1))
            return BatchFeature({"pixel_values": pixels, "image_grid_thw": grids})

    Remembering.__name__, Remembering.__module__ = own.__name__, own.__module__
    image_processor.__class__ = Remembering


def _salt(size: tuple[int, int]) -> bytes:
    return size[0].to_bytes(4, "big") + size[1].to_bytes(4, "big")
