"""Images as uint8 pixels until they are on the model's device.

The image processors of the Qwen-VL models turn every image into floats, each patch twice if the model takes
two frames: eight times the bytes of the image, created, copied and moved to the device. Here a processor only
packs the pixels of all images into one tensor with one row per patch. The model cuts the patches and looks
the floats up in a table of the 256 levels, or computes the same values. The table comes from the processor's
output. A processor whose output it does not reproduce exactly stays unchanged.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

LEVELS = 256
HALF = (LEVELS - 1) / 2
KNOWN_PROCESSORS = ("Qwen2VLImageProcessor", "Qwen2VLImageProcessorPil", "Qwen2VLImageProcessorFast")

_PIXELS: dict[int, NDArray[np.uint8]] = {}
"""Pixels by the id of their image, for its lifetime: Pillow's images have no hash."""


@dataclass(frozen=True)
class PatchLayout:
    """The cut of images into patches, and the float value of each byte of a channel."""

    patch_size: int
    merge_size: int
    frames: int
    min_pixels: int
    max_pixels: int
    levels: NDArray[np.float32]
    """channels × 256"""

    @property
    def linear(self) -> bool:
        """Whether levels go from −1 to 1 in exactly equal steps and need no lookup."""
        steps = np.arange(LEVELS, dtype=np.float32) / np.float32(HALF) - np.float32(1)
        return bool((self.levels == steps).all())

    def fits(self, size: tuple[int, int]) -> bool:
        """Return whether an image of this size needs no scaling."""
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

        width, height = size
        if max(size) > 200 * min(size):
            return False
        factor = self.patch_size * self.merge_size
        return bool(smart_resize(height, width, factor, self.min_pixels, self.max_pixels) == (height, width))

    def pack(self, images: Sequence[Image]) -> tuple[Tensor, Tensor]:
        """Return the pixels of all images, one row per patch, and the grid of each image."""
        grids = [(1, image.height // self.patch_size, image.width // self.patch_size) for image in images]
        pixels = np.concatenate([pixels_of(image).reshape(-1) for image in images])
        count = sum(rows * columns for _, rows, columns in grids)
        return torch.from_numpy(pixels).view(count, -1), torch.tensor(grids)

    def cut(self, packed: Tensor, grids: Tensor) -> Tensor:
        """Cut packed pixels into patches in the model's order."""
        sizes = [(int(rows), int(columns)) for _, rows, columns in grids.tolist()]
        if len(set(sizes)) == 1:
            return self._cut(packed, *sizes[0])
        parts = packed.split([rows * columns for rows, columns in sizes])
        return torch.cat([self._cut(part, *size) for part, size in zip(parts, sizes, strict=True)])

    def _cut(self, packed: Tensor, rows: int, columns: int) -> Tensor:
        merge, patch, channels = self.merge_size, self.patch_size, len(self.levels)
        grid = packed.reshape(-1, rows // merge, merge, patch, columns // merge, merge, patch, channels)
        return grid.permute(0, 1, 4, 2, 5, 7, 3, 6).reshape(-1, channels * patch * patch)

    def normalize(self, packed: Tensor, grids: Tensor) -> Tensor:
        """Convert packed pixels to the floats of the original processor."""
        channels = len(self.levels)
        patches = self.cut(packed, grids).view(len(packed), channels, 1, -1)
        if self.linear:  # a tensor, because a GPU would multiply by the inverse of a scalar instead
            floats = (patches / torch.full((), HALF, device=packed.device)).sub_(1)
        else:
            levels = torch.from_numpy(self.levels).to(packed.device).flatten()
            first = torch.arange(0, channels * LEVELS, LEVELS, device=packed.device, dtype=torch.int32)
            floats = levels[patches.int() + first.view(1, -1, 1, 1)]
        return floats.expand(-1, -1, self.frames, -1).reshape(len(packed), -1)


def use_uint8_pixels(model: Any, processor: Any) -> bool:
    """Patch a processor and its model to use uint8 pixels; return False and change nothing if unknown."""
    modules = _known_modules(model)
    layout = use_uint8_processor(processor) if modules else None
    if layout is None:
        return False
    for module in modules:
        module.get_image_features = MethodType(_image_features(layout), module)
    return True


def _known_modules(model: Any) -> list[Any]:
    try:
        from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel
    except ImportError:
        return []
    return [module for module in model.modules() if type(module) is Qwen3VLModel]


def _image_features(layout: PatchLayout) -> Callable[..., Any]:
    def get_image_features(
        model: Any, pixel_values: Tensor, image_grid_thw: Tensor | None = None, **options: Any
    ) -> Any:
        if pixel_values.dtype is torch.uint8 and image_grid_thw is not None:
            pixel_values = layout.normalize(pixel_values, image_grid_thw)
        return type(model).get_image_features(model, pixel_values, image_grid_thw, **options)

    return get_image_features


def use_uint8_processor(processor: Any) -> PatchLayout | None:
    """Patch a processor to return uint8 pixels; return None and change nothing if it is unknown."""
    layout = layout_of(processor)
    if layout is not None:
        return layout
    original = getattr(processor, "image_processor", None)
    if type(original).__name__ not in KNOWN_PROCESSORS:
        return None
    layout = infer_layout(original)
    if layout is not None:
        processor.image_processor = _uint8_image_processor(original, layout)
    return layout


def layout_of(processor: Any) -> PatchLayout | None:
    """Return the layout of a processor that returns uint8 pixels; None for any other."""
    return getattr(getattr(processor, "image_processor", None), "patch_layout", None)


def _uint8_image_processor(original: Any, layout: PatchLayout) -> Any:
    """Return an image processor with the settings of `original` that saves under its name."""
    own: Any = type(original)
    saved_name = original.to_dict()["image_processor_type"]

    def is_packable(image: Any) -> bool:
        from PIL.Image import Image

        return isinstance(image, Image) and image.mode == "RGB" and layout.fits(image.size)

    class Uint8ImageProcessor(own):  # type: ignore[misc]
        patch_layout = layout

        def __call__(self, images: Any, *arguments: Any, **options: Any) -> Any:
            from transformers import BatchFeature

            flat_images = flat(images)
            if arguments or options.keys() - {"return_tensors"} or not all(map(is_packable, flat_images)):
                return super().__call__(images, *arguments, **options)
            packed, grids = layout.pack(flat_images)
            return BatchFeature({"pixel_values": packed, "image_grid_thw": grids})

        def to_dict(self) -> dict[str, Any]:
            return {**super().to_dict(), "image_processor_type": saved_name}

    replacement = Uint8ImageProcessor()
    replacement.__dict__.update(vars(original))
    return replacement


def infer_layout(image_processor: Any) -> PatchLayout | None:
    """Infer the layout of an image processor from its output for one image; None if it does not fit."""
    from PIL import Image

    size = image_processor.size
    factor = image_processor.patch_size * image_processor.merge_size
    min_pixels, max_pixels = size["shortest_edge"], size["longest_edge"]
    if not min_pixels or not max_pixels:
        return None
    side = factor * max(1, -(-int(np.ceil(np.sqrt(min_pixels))) // factor))
    levels = np.tile(np.arange(side * side, dtype=np.int64) % LEVELS, (3, 1))
    shuffled = np.random.default_rng(0).permuted(levels, axis=1)  # every level in every channel
    image = Image.fromarray(shuffled.T.reshape(side, side, 3).astype(np.uint8))
    layout = PatchLayout(
        image_processor.patch_size,
        image_processor.merge_size,
        int(image_processor.temporal_patch_size),
        min_pixels,
        max_pixels,
        np.zeros((3, LEVELS), np.float32),
    )
    if not layout.fits(image.size):
        return None
    expected = np.asarray(image_processor([image], return_tensors="np")["pixel_values"])
    packed, grids = layout.pack([image])
    patches = layout.cut(packed, grids).numpy().reshape(len(packed), 3, -1)
    by_channel = expected.reshape(len(packed), 3, layout.frames, -1)[:, :, 0]
    for channel in range(3):
        layout.levels[channel, patches[:, channel]] = by_channel[:, channel]
    return layout if torch.equal(layout.normalize(packed, grids), torch.from_numpy(expected)) else None


def flat(images: Any) -> list[Any]:
    """Flatten nested lists of images."""
    return (
        [each for image in images for each in flat(image)] if isinstance(images, list | tuple) else [images]
    )


def pixels_of(image: Image) -> NDArray[np.uint8]:
    """Return height × width × channels, without a copy if they were cached by `keep_pixels`."""
    kept = _PIXELS.get(id(image))
    return np.asarray(image, dtype=np.uint8) if kept is None else kept


def keep_pixels(image: Image, pixels: NDArray[np.uint8]) -> Image:
    """Cache the pixels of an image for `pixels_of` and return it; only for an image that never changes."""
    _PIXELS[id(image)] = pixels
    weakref.finalize(image, _PIXELS.pop, id(image), None).atexit = False
    return image
