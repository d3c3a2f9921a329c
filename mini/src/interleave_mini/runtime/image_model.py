"""A small FLUX.2 klein: prompts, sources and noise in, pixels out."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from interleave.local.source_images import KeptLatents
from interleave_mini.runtime.chat import Tokenizer
from interleave_mini.runtime.noise import normal_noise
from interleave_mini.runtime.sessions import Floats, Graph

if TYPE_CHECKING:
    from PIL.Image import Image

TOKEN_SIDE = 16
"""Pixels of one latent token: the VAE scales by 8, and 2×2 latents are one token."""
MAX_SOURCE_PIXELS = 1024 * 1024
SOURCE_TIMES = 10
"""Sources are 10, 20, … steps of time before the image."""
MASKED = np.finfo(np.float32).min


@dataclass(frozen=True)
class Drawing:
    """One image to draw; those of a batch have the same size and as many sources of the same sizes."""

    prompt: str
    seed: int
    sources: tuple[Image, ...]


class ImageModel:
    """The image model in memory. Must be used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = Tokenizer(folder / "tokenizer")
        config = json.loads((folder / "transformer" / "config.json").read_bytes())
        self._axes: list[int] = config["axes_dims_rope"]
        self._theta: float = config["rope_theta"]
        self._channels: int = config["in_channels"]
        self._shift: float = json.loads((folder / "scheduler" / "scheduler_config.json").read_bytes())[
            "shift"
        ]
        self._text_encoder = Graph(folder / "text_encoder" / "text_encoder.onnx")
        self._transformer = Graph(folder / "transformer" / "transformer.onnx")
        self._vae_encoder = Graph(folder / "vae" / "encoder.onnx")
        self._vae_decoder = Graph(folder / "vae" / "decoder.onnx")
        self.kept_latents: KeptLatents = KeptLatents()

    def draw(
        self,
        drawings: Sequence[Drawing],
        *,
        size: tuple[int, int],
        steps: int,
        prompt_tokens: int,
        after_step: Callable[[int], None],
    ) -> Floats:
        """Return pixels from 0 to 1, images × 3 × height × width; `after_step` may raise to stop early."""
        width, height = (side // TOKEN_SIDE for side in size)
        shape = (1, self._channels, height, width)
        latents = _packed(np.concatenate([normal_noise(shape, drawing.seed) for drawing in drawings]))
        prompt = self._encode_prompts([drawing.prompt for drawing in drawings], prompt_tokens)
        sources = self._encode_sources(drawings)
        places = [_places(prompt.shape[1], axis=3), _places(height, width)]
        for number, source in enumerate(sources, 1):
            places.append(_places(*source.shape[2:], time=SOURCE_TIMES * number))
        rope = self._rope(np.concatenate(places))
        fixed = [_packed(source) for source in sources]
        sigmas = self._sigmas(steps)
        for step in range(steps):
            seen = np.concatenate([latents, *fixed], axis=1) if fixed else latents
            sigma = np.full(len(drawings), sigmas[step], np.float32)
            (velocity,) = self._transformer(seen, prompt, sigma, rope)
            latents = latents + (sigmas[step + 1] - sigmas[step]) * velocity[:, : latents.shape[1]]
            after_step(step + 1)
        grid = latents.transpose(0, 2, 1).reshape(len(drawings), self._channels, height, width)
        (pixels,) = self._vae_decoder(grid)
        return (pixels * np.float32(0.5) + np.float32(0.5)).clip(0, 1)

    def template_tokens(self) -> int:
        """Return how many tokens the chat template adds to a prompt."""
        return len(self.tokenizer.encode(self.tokenizer.render([{"role": "user", "content": ""}])))

    def _encode_prompts(self, prompts: Sequence[str], length: int) -> Floats:
        """Return the text encoder's states, padded to `length` tokens as in training."""
        ids = np.full((len(prompts), length), self.tokenizer.pad_id, np.int64)
        counts = np.empty(len(prompts), np.int64)
        for row, prompt in enumerate(prompts):
            text = self.tokenizer.render([{"role": "user", "content": prompt}])
            tokens = self.tokenizer.encode(text)[:length]
            ids[row, : len(tokens)], counts[row] = tokens, len(tokens)
        index = np.arange(length)
        hidden = (index[None, :] > index[:, None])[None] | (index >= counts[:, None])[:, None]
        mask = np.where(hidden, MASKED, np.float32(0))[:, None]
        (states,) = self._text_encoder(ids, mask)
        return states

    def _encode_sources(self, drawings: Sequence[Drawing]) -> list[Floats]:
        """Return the latents of the first source of each drawing, then of the second, and so on."""
        count = len(drawings[0].sources)
        return [
            np.concatenate([self._encode_source(drawing.sources[place]) for drawing in drawings])
            for place in range(count)
        ]

    def _encode_source(self, image: Image) -> Floats:
        """Return the latents of one source; every attempt at a step has the same one, so they are kept."""
        pixels = source_pixels(image)
        key = hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).digest()
        latents: Floats | None = self.kept_latents.get(key)
        if latents is None:
            floats = pixels.transpose(2, 0, 1)[None].astype(np.float32) / np.float32(255)
            (latents,) = self._vae_encoder(np.float32(2) * floats - np.float32(1))
            self.kept_latents.keep(key, latents)
        return latents

    def _sigmas(self, steps: int) -> Floats:
        """Return the noise level before each step, and 0 after the last."""
        even = np.linspace(1, 1 / steps, steps).astype(np.float32)
        shift = np.float32(self._shift)
        return np.append(shift * even / (1 + (shift - 1) * even), np.float32(0))

    def _rope(self, places: NDArray[Any]) -> Floats:
        """Return cosines and sines side by side, tokens × (2 × width), for tokens × 4 places."""
        angles = []
        for axis, width in enumerate(self._axes):
            frequencies = 1.0 / self._theta ** (np.arange(0, width, 2) / width)
            angles.append(np.outer(places[:, axis], frequencies).repeat(2, axis=1))
        joined = np.concatenate(angles, axis=1)
        return np.concatenate([np.cos(joined), np.sin(joined)], axis=1).astype(np.float32)


def source_pixels(image: Image) -> NDArray[np.uint8]:
    """Return a source as the VAE takes it: at most a megapixel, cropped to whole tokens."""
    from PIL import Image as pillow

    if image.width * image.height > MAX_SOURCE_PIXELS:
        scale = math.sqrt(MAX_SOURCE_PIXELS / (image.width * image.height))
        scaled = (int(image.width * scale), int(image.height * scale))
        image = image.resize(scaled, pillow.Resampling.LANCZOS)
    width, height = (side // TOKEN_SIDE * TOKEN_SIDE for side in image.size)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return np.asarray(image.crop((left, top, left + width, top + height)))


def _packed(latents: Floats) -> Floats:
    """Return latents as tokens: images × tokens × channels."""
    return latents.reshape(*latents.shape[:2], -1).transpose(0, 2, 1)


def _places(rows: int, columns: int = 1, *, time: int = 0, axis: int = 1) -> NDArray[Any]:
    """Return the places of a grid of tokens: time, row, column, word; `axis` is that of the rows."""
    places = np.zeros((rows * columns, 4))
    places[:, 0] = time
    row, column = np.mgrid[:rows, :columns].reshape(2, -1)
    places[:, axis] = row
    if columns > 1:
        places[:, 2] = column
    return places
