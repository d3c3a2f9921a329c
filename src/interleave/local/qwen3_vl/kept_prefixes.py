"""A cache of prompt prefixes for further attempts at the same step.

The critic's prompts for one step have the same prefix: the instructions and the image before. Only the image
after and the text that follows it differ. A token's keys and values depend only on the tokens before it, so
those of everything before the last image are cached and copied instead of computed again. A prefix is found
by its tokens and a checksum of its pixels, and used only if all pixels are equal. The least recently used
prefixes are dropped first.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

SHARE_OF_MEMORY = 32
"""Prefixes take at most 1/N of the device's memory: about 20 prefixes of 220 MB on an H200."""
BYTES_ON_CPU = 2**30
WORD = 8
"""Bytes per partial sum."""

Key = tuple[bytes, int]
"""The tokens of a prefix, and a checksum of its pixels."""


@dataclass(frozen=True)
class Prefix:
    """The part of a prompt before its last image."""

    length: int
    """Tokens."""
    key: Key
    pixels: Tensor
    """The pixels of its images, patch by patch."""


@dataclass(frozen=True)
class Kept:
    pixels: Tensor
    states: list[tuple[Tensor, Tensor]]
    """Keys and values of every layer: heads × tokens × head."""

    @property
    def size(self) -> int:
        return int(sum(tensor.nbytes for pair in self.states for tensor in pair) + self.pixels.nbytes)


class KeptPrefixes:
    """The cached prefixes of one model, limited in bytes."""

    def __init__(self, device: torch.device) -> None:
        self.limit = _limit(device)
        self.found = 0
        """Number of cache hits."""
        self._kept: OrderedDict[Key, Kept] = OrderedDict()

    def clear(self) -> None:
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, prefix: Prefix | None) -> list[tuple[Tensor, Tensor]] | None:
        """Return the keys and values of a prefix; None if it is not cached."""
        kept = None if prefix is None else self._kept.get(prefix.key)
        if prefix is None or kept is None or not torch.equal(kept.pixels, prefix.pixels):
            return None
        self._kept.move_to_end(prefix.key)
        self.found += 1
        return kept.states

    def keep(self, prefix: Prefix, states: list[tuple[Tensor, Tensor]]) -> None:
        """Cache a copy of the keys and values of a prefix, and drop others above the limit."""
        held = [(keys.clone(), values.clone()) for keys, values in states]
        self._kept[prefix.key] = Kept(prefix.pixels.clone(), held)
        self._kept.move_to_end(prefix.key)
        while self._kept and sum(kept.size for kept in self._kept.values()) > self.limit:
            self._kept.popitem(last=False)


def prefix_of(ids: Tensor, token_types: Tensor, pixels: Tensor, patches: list[int]) -> Prefix | None:
    """Return the prefix of one unpadded prompt; None if it has fewer than two images."""
    if len(patches) < 2:
        return None
    in_image = token_types.cpu() == 1
    starts = torch.nonzero(in_image & ~torch.nn.functional.pad(in_image, (1, 0))[:-1]).flatten()
    if len(starts) != len(patches):
        return None
    length = int(starts[-1])
    shown = pixels[: sum(patches[:-1])]
    return Prefix(length, (ids[:length].cpu().numpy().tobytes(), _checksum(shown)), shown)


def _checksum(pixels: Tensor) -> int:
    """Return an order-dependent sum over the bytes of all pixels, the same on every device."""
    flat: Any = pixels.contiguous().view(torch.uint8).flatten()
    words = torch.nn.functional.pad(flat, (0, -len(flat) % WORD)).view(torch.int64)
    places = torch.arange(1, 2 * len(words), 2, device=words.device)  # odd, so that no bit of a word is lost
    return int((words * places).sum())


def _limit(device: torch.device) -> int:
    if device.type != "cuda":
        return BYTES_ON_CPU
    return int(torch.cuda.get_device_properties(device).total_memory) // SHARE_OF_MEMORY
