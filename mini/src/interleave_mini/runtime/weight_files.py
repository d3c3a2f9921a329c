"""Safetensors files, read with numpy."""

from __future__ import annotations

import hashlib
import json
import struct
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DTYPES = {"F16": np.float16, "F32": np.float32, "I64": np.int64}
DIGEST_KEY = "interleave.weights"
"""The property of a graph with the digest of the weights that it was exported for."""


class WeightFile:
    """One file: a header with names, types and offsets, then the data."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def header(self) -> bytes:
        with self.path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            return file.read(length)

    @property
    def data_start(self) -> int:
        """The offset of the first byte after the header."""
        return 8 + len(self.header)

    @cached_property
    def tensors(self) -> dict[str, Any]:
        """The entry of each tensor: dtype, shape and data_offsets."""
        entries: dict[str, Any] = json.loads(self.header)
        entries.pop("__metadata__", None)
        return entries

    def read(self, name: str) -> NDArray[Any]:
        """Return a tensor, floats in single precision."""
        entry = self.tensors[name]
        begin, end = entry["data_offsets"]
        with self.path.open("rb") as file:
            file.seek(self.data_start + begin)
            values = np.frombuffer(file.read(end - begin), DTYPES[entry["dtype"]])
        values = values.reshape(entry["shape"])
        return values.astype(np.float32) if values.dtype == np.float16 else values


def weights_digest(folder: Path) -> str:
    """Return a digest of the headers of all files: graphs refer to offsets in files of this layout."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.name.encode() + b"\0" + WeightFile(path).header)
    return digest.hexdigest()
