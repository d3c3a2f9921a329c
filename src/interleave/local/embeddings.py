"""Identity of an asset by the embeddings of a vision model such as DINOv2 or CLIP.

The image is cut into windows, and the window nearest to the reference counts, because an asset is often only
a part of an image. Unlike colours, embeddings capture shapes, but they cost a model call for every asset.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from PIL import Image
from pydantic import Field, ValidationError

from interleave import ConfigurationError, MissingDependency
from interleave.plugin import Spec, Value, images

if TYPE_CHECKING:
    import torch

SIDE = 3
"""Rows and columns of windows, each half the image's size."""
REFERENCES = 256
"""Maximum number of cached reference embeddings."""


class Options(Value):
    device: str = Field(default="auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")
    revision: str | None = None


class EmbeddingIdentity:
    """Similarity of an asset to its reference image, by a model's embeddings; 0 to 1."""

    def __init__(self, spec: Spec) -> None:
        options = self.check(spec)
        self.name = str(spec)
        self._lock = Lock()
        self._known: dict[str, Any] = {}
        self._load(spec, options)

    @staticmethod
    def check(spec: Spec) -> Options:
        """Return the options of a spec; raise `ConfigurationError` if it names no model."""
        if not spec.model or spec.base_url:
            raise ConfigurationError(
                f"{str(spec)!r} does not name an identity model: write e.g. "
                "'transformers:facebook/dinov2-small'"
            )
        try:
            return Options.model_validate(spec.options)
        except ValidationError as error:
            first = error.errors()[0]
            raise ConfigurationError(f"{str(spec)!r}: {first['loc'][0]}: {first['msg'].lower()}") from None

    def _load(self, spec: Spec, options: Options) -> None:
        try:
            import torch
            from transformers import AutoImageProcessor, AutoModel

            from interleave.local.checkpoints import Source, check_model, find_model
            from interleave.local.devices import choose_device
        except ImportError as error:
            raise MissingDependency(
                f"identity by {self.name!r} needs the package {error.name!r}, which is not installed. "
                'Install it with: pip install "interleavethinker[local]"'
            ) from None
        source = Source(spec.model or "", options.revision)
        folder = find_model(source)
        check_model(folder, source, trust_remote_code=False)
        self.device = choose_device(options.device)
        try:
            self.processor = AutoImageProcessor.from_pretrained(folder, local_files_only=True)
            model = AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True)
        except (OSError, ValueError, ImportError) as error:
            said = str(error).strip().splitlines()[0]
            raise ConfigurationError(
                f"{self.name!r} is not a vision model with embeddings ({said})"
            ) from None
        self.model: Any = model.to(self.device, torch.float32).eval()

    def __call__(self, reference: Image.Image, image: Image.Image) -> float:
        with self._lock:
            wanted = self._reference(reference)
            found = self._embed(windows(image))
        return max(0.0, min(1.0, float((found @ wanted).max())))

    def _reference(self, image: Image.Image) -> torch.Tensor:
        digest = images.pixel_digest(image)
        if digest not in self._known:
            if len(self._known) >= REFERENCES:
                self._known.pop(next(iter(self._known)))
            self._known[digest] = self._embed([image.convert("RGB")])[0]
        known: torch.Tensor = self._known[digest]
        return known

    def _embed(self, images: list[Image.Image]) -> torch.Tensor:
        """Return one vector of length 1 for each image."""
        import torch

        inputs = self.processor(images=images, return_tensors="pt")["pixel_values"].to(self.device)
        with torch.inference_mode():
            vectors = _features(self.model, inputs).float().cpu()
        return torch.nn.functional.normalize(vectors, dim=-1)


def _features(model: Any, pixels: torch.Tensor) -> Any:
    """Return the embedding of every image: a text-image model's image features, else its summary token."""
    if hasattr(model, "get_image_features"):
        found = model.get_image_features(pixel_values=pixels)
    else:
        found = model(pixel_values=pixels)
    pooled = getattr(found, "pooler_output", found)
    return found.last_hidden_state[:, 0] if pooled is None else pooled


def windows(image: Image.Image) -> list[Image.Image]:
    """Return the whole image, and overlapping windows of half its size."""
    image = image.convert("RGB")
    width, height = max(1, image.width // 2), max(1, image.height // 2)
    found = [image]
    for row in range(SIDE):
        for column in range(SIDE):
            left = (image.width - width) * column // (SIDE - 1)
            top = (image.height - height) * row // (SIDE - 1)
            found.append(image.crop((left, top, left + width, top + height)))
    return found
