"""Pictures as bytes until they are in the model.

The image processors of the Qwen-VL models turn every picture into floats, each patch twice where the model
takes two frames: eight times the bytes of the picture, made, copied and moved to the device. Here a processor
only puts the pixels of pictures one after another, in as many rows as they have patches; the model cuts them
and takes the floats from a table of the 256 levels, or computes what the table would say. The table is read
off the processor's own work, and a processor whose work it does not repeat to the bit stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image
    from torch import Tensor

LEVELS = 256
HALF = (LEVELS - 1) / 2
_PIXELS = "_interleave_pixels"
KNOWN = ("Qwen2VLImageProcessor", "Qwen2VLImageProcessorPil", "Qwen2VLImageProcessorFast")


@dataclass(frozen=True)
class Cutting:
    """How pictures are cut into patches, and what the bytes of each channel come to."""

    patch: int
    merge: int
    frames: int
    fewest_pixels: int
    most_pixels: int
    levels: NDArray[np.float32]
    """channels × 256"""

    @property
    def even(self) -> bool:
        """Whether levels go from −1 to 1 in even steps, to the bit: then they are computed, not looked up."""
        steps = np.arange(LEVELS, dtype=np.float32) / np.float32(HALF) - np.float32(1)
        return bool((self.levels == steps).all())

    def fits(self, size: tuple[int, int]) -> bool:
        """Whether a picture of this size is taken as it is."""
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

        width, height = size
        if max(size) > 200 * min(size):
            return False
        factor = self.patch * self.merge
        return bool(
            smart_resize(height, width, factor, self.fewest_pixels, self.most_pixels) == (height, width)
        )

    def rows(self, pictures: Sequence[Image]) -> tuple[Tensor, Tensor]:
        """Pixels as they stand in pictures, in as many rows as there are patches, and each picture's grid."""
        import torch

        grids = [(1, picture.height // self.patch, picture.width // self.patch) for picture in pictures]
        pixels = np.concatenate([pixels_of(picture).reshape(-1) for picture in pictures])
        count = sum(down * across for _, down, across in grids)
        return torch.from_numpy(pixels).view(count, -1), torch.tensor(grids)

    def cut(self, rows: Tensor, grids: Tensor) -> Tensor:
        """Rows of pixels → the patches themselves, in the order of the model."""
        import torch

        sizes = [(int(down), int(across)) for _, down, across in grids.tolist()]
        if len(set(sizes)) == 1:
            return self._cut(rows, *sizes[0])
        parts = rows.split([down * across for down, across in sizes])
        return torch.cat([self._cut(part, *size) for part, size in zip(parts, sizes, strict=True)])

    def _cut(self, rows: Tensor, down: int, across: int) -> Tensor:
        merge, patch, channels = self.merge, self.patch, len(self.levels)
        grid = rows.reshape(-1, down // merge, merge, patch, across // merge, merge, patch, channels)
        return grid.permute(0, 1, 4, 2, 5, 7, 3, 6).reshape(-1, channels * patch * patch)


def take_bytes(model: Any, processor: Any) -> bool:
    """Let a processor give bytes and its model take them; where either is not known, nothing is done."""
    modules = _known_modules(model)
    cutting = take_bytes_from(processor) if modules else None
    if cutting is None:
        return False
    for module in modules:
        module.__dict__["_cutting"] = cutting
        module.get_image_features = MethodType(_features, module)
    return True


def _known_modules(model: Any) -> list[Any]:
    try:
        from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel
    except ImportError:
        return []
    return [module for module in model.modules() if type(module) is Qwen3VLModel]


def take_bytes_from(processor: Any) -> Cutting | None:
    """Let a processor give bytes for pictures that need no scaling; it is saved as the class it was."""
    images: Any = getattr(processor, "image_processor", None)
    if type(images).__name__ not in KNOWN:
        return None
    if hasattr(images, "_cutting"):
        return images._cutting  # type: ignore[no-any-return]
    found = read_off(images)
    if found is None:
        return None
    cutting = found
    own = type(images)

    class Cutter(own):  # type: ignore[misc, valid-type]
        def __call__(self, images: Any, *arguments: Any, **options: Any) -> Any:
            from transformers import BatchFeature

            pictures = flat(images)
            if arguments or options.keys() - {"return_tensors"} or not all(map(_takes(cutting), pictures)):
                return own.__call__(self, images, *arguments, **options)
            rows, grids = cutting.rows(pictures)
            return BatchFeature({"pixel_values": rows, "image_grid_thw": grids})

        def to_dict(self) -> dict[str, Any]:
            return {name: value for name, value in super().to_dict().items() if name != "_cutting"}

    Cutter.__name__, Cutter.__qualname__, Cutter.__module__ = own.__name__, own.__qualname__, own.__module__
    images.__class__ = Cutter
    images._cutting = cutting
    return cutting


def read_off(images: Any) -> Cutting | None:
    """What an image processor does, from its work on one picture; None where that is not all it does."""
    import torch
    from PIL import Image

    size, factor = images.size, images.patch_size * images.merge_size
    fewest, most = size["shortest_edge"], size["longest_edge"]
    if not fewest or not most:
        return None
    side = factor * max(1, -(-int(np.ceil(np.sqrt(fewest))) // factor))
    levels = np.tile(np.arange(side * side, dtype=np.int64) % LEVELS, (3, 1))
    anywhere = np.random.default_rng(0).permuted(levels, axis=1)  # every level in every channel
    picture = Image.fromarray(anywhere.T.reshape(side, side, 3).astype(np.uint8))
    frames = int(images.temporal_patch_size)
    blank = np.zeros((3, LEVELS), np.float32)
    cutting = Cutting(images.patch_size, images.merge_size, frames, fewest, most, blank)
    if not cutting.fits(picture.size):
        return None
    made = np.asarray(images([picture], return_tensors="np")["pixel_values"])
    rows, grids = cutting.rows([picture])
    patches = cutting.cut(rows, grids).numpy().reshape(len(rows), 3, -1)
    by_channel = made.reshape(len(rows), 3, frames, -1)[:, :, 0]
    for channel in range(3):
        cutting.levels[channel, patches[:, channel]] = by_channel[:, channel]
    return cutting if torch.equal(brightness(rows, grids, cutting), torch.from_numpy(made)) else None


def brightness(rows: Tensor, grids: Tensor, cutting: Cutting) -> Tensor:
    """Rows of pixels as the floats that the processor would have given."""
    import torch

    channels = len(cutting.levels)
    patches = cutting.cut(rows, grids).view(len(rows), channels, 1, -1)
    if cutting.even:  # a tensor to divide by: a device would multiply by the inverse of a number instead
        floats = (patches / torch.full((), HALF, device=rows.device)).sub_(1)
    else:
        levels = torch.from_numpy(cutting.levels).to(rows.device).flatten()
        first = torch.arange(0, channels * LEVELS, LEVELS, device=rows.device, dtype=torch.int32)
        floats = levels[patches.int() + first.view(1, -1, 1, 1)]
    return floats.expand(-1, -1, cutting.frames, -1).reshape(len(rows), -1)


def flat(images: Any) -> list[Any]:
    """Pictures in nested lists, one after another."""
    return (
        [each for image in images for each in flat(image)] if isinstance(images, list | tuple) else [images]
    )


def _features(model: Any, pixel_values: Tensor, image_grid_thw: Tensor | None = None, **options: Any) -> Any:
    import torch

    if pixel_values.dtype is torch.uint8 and image_grid_thw is not None:
        pixel_values = brightness(pixel_values, image_grid_thw, model._cutting)
    return type(model).get_image_features(model, pixel_values, image_grid_thw, **options)


def _takes(cutting: Cutting) -> Any:
    def takes(picture: Any) -> bool:
        from PIL.Image import Image

        return isinstance(picture, Image) and picture.mode == "RGB" and cutting.fits(picture.size)

    return takes


def pixels_of(picture: Image) -> NDArray[np.uint8]:
    """Height × width × channels; at no cost where the picture was made from them (see `with_pixels`)."""
    known: NDArray[np.uint8] | None = getattr(picture, _PIXELS, None)
    return np.asarray(picture, dtype=np.uint8) if known is None else known


def with_pixels(picture: Image, pixels: NDArray[np.uint8]) -> Image:
    """The picture, with the pixels it shows remembered; only for one that nobody will paint on."""
    setattr(picture, _PIXELS, pixels)
    return picture
