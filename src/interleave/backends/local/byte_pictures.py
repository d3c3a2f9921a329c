"""Pictures as bytes until they are in the model.

The image processors of the Qwen-VL models turn every picture into floats, each patch twice where the model
takes two frames: eight times the bytes of the picture, made, copied and moved to the device. Here a processor
only cuts pictures into patches, and the model looks the floats up in a table of the 256 levels. The table is
read off the processor's own work, and a processor whose work it does not repeat to the bit stays as it is.
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

    def patches(self, pictures: Sequence[Image]) -> tuple[Tensor, Tensor]:
        """The patches of pictures as rows of bytes, and the grid of each picture."""
        import torch

        grids = [(1, picture.height // self.patch, picture.width // self.patch) for picture in pictures]
        if len(set(grids)) == 1:
            rows = self._cut(np.stack([_pixels(picture) for picture in pictures]))
        else:
            rows = np.concatenate([self._cut(_pixels(picture)[None]) for picture in pictures])
        return torch.from_numpy(rows), torch.tensor(grids)

    def _cut(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        count, height, width, channels = pixels.shape
        merge, patch = self.merge, self.patch
        down, across = height // (merge * patch), width // (merge * patch)
        grid = pixels.reshape(count, down, merge, patch, across, merge, patch, channels)
        return grid.transpose(0, 1, 4, 2, 5, 7, 3, 6).reshape(-1, channels * patch * patch)


def take_bytes(model: Any, processor: Any) -> bool:
    """Let a processor give bytes and its model take them; False, and nothing done, where that is not known."""
    cutting = take_bytes_from(processor)
    return cutting is not None and understand_bytes(model, cutting)


def understand_bytes(model: Any, cutting: Cutting) -> bool:
    """Let a model of a known class look bytes up; floats it takes as ever."""
    try:
        from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel
    except ImportError:
        return False
    found = [module for module in model.modules() if type(module) is Qwen3VLModel]
    for module in found:
        module.__dict__["_cutting"] = cutting
        module.get_image_features = MethodType(_features, module)
    return bool(found)


def take_bytes_from(processor: Any) -> Cutting | None:
    """Let a processor give bytes for pictures that need no scaling; it is saved as the class it was."""
    images = getattr(processor, "image_processor", None)
    if type(images).__name__ not in KNOWN:
        return None
    cutting = getattr(images, "_cutting", None) or read_off(images)
    if cutting is None or hasattr(images, "_cutting"):
        return cutting
    own = type(images)

    class Cutter(own):  # type: ignore[misc, valid-type]
        def __call__(self, images: Any, *arguments: Any, **options: Any) -> Any:
            from transformers import BatchFeature

            pictures = flat(images)
            if arguments or options.keys() - {"return_tensors"} or not all(map(_takes(cutting), pictures)):
                return own.__call__(self, images, *arguments, **options)
            patches, grids = cutting.patches(pictures)
            return BatchFeature({"pixel_values": patches, "image_grid_thw": grids})

        def to_dict(self) -> dict[str, Any]:
            return {name: value for name, value in super().to_dict().items() if name != "_cutting"}

    Cutter.__name__, Cutter.__qualname__, Cutter.__module__ = own.__name__, own.__qualname__, own.__module__
    images.__class__ = Cutter
    images._cutting = cutting
    return cutting


def read_off(images: Any) -> Cutting | None:
    """What an image processor does, from its work on one picture; None where that is not all it does."""
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
    patches = cutting.patches([picture])[0].numpy()
    by_channel = made.reshape(len(patches), 3, frames, -1)[:, :, 0]
    for channel in range(3):
        cutting.levels[channel, patches.reshape(len(patches), 3, -1)[:, channel]] = by_channel[:, channel]
    import torch

    same = torch.equal(brightness(torch.from_numpy(patches), cutting), torch.from_numpy(made))
    return cutting if same else None


def brightness(patches: Tensor, cutting: Cutting) -> Tensor:
    """Patches of bytes as the floats that the processor would have given."""
    import torch

    channels = len(cutting.levels)
    levels = torch.from_numpy(cutting.levels).to(patches.device).flatten()
    first = torch.arange(0, channels * LEVELS, LEVELS, device=patches.device, dtype=torch.int32)
    places = patches.view(len(patches), channels, 1, -1).int() + first.view(1, -1, 1, 1)
    return levels[places].expand(-1, -1, cutting.frames, -1).reshape(len(patches), -1)


def flat(images: Any) -> list[Any]:
    """Pictures in nested lists, one after another."""
    return [each for image in images for each in flat(image)] if isinstance(images, list | tuple) else [images]


def _features(
    model: Any, pixel_values: Tensor, image_grid_thw: Tensor | None = None, **options: Any
) -> Any:
    import torch

    if pixel_values.dtype is torch.uint8:
        pixel_values = brightness(pixel_values, model._cutting)
    return type(model).get_image_features(model, pixel_values, image_grid_thw, **options)


def _takes(cutting: Cutting) -> Any:
    def takes(picture: Any) -> bool:
        from PIL.Image import Image

        return isinstance(picture, Image) and picture.mode == "RGB" and cutting.fits(picture.size)

    return takes


def _pixels(picture: Image) -> NDArray[np.uint8]:
    return np.asarray(picture, dtype=np.uint8)
