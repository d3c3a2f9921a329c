"""The few array functions that differ between numpy and torch, so that the reader is written once."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

Array = Any
"""A numpy array or a torch tensor: their common operators are all the reader uses."""


class Arrays(Protocol):
    def floats(self, values: Any) -> Array: ...
    def integers(self, values: Any) -> Array: ...
    def product(self, rows: Array, columns: Array) -> Array: ...
    def smallest(self, values: Array, count: int) -> Array: ...
    def to_numpy(self, values: Array) -> np.ndarray[Any, Any]: ...


class NumpyArrays:
    """On the CPU, without torch."""

    def floats(self, values: Any) -> Array:
        return np.asarray(values).astype(np.float32)

    def integers(self, values: Any) -> Array:
        return np.asarray(values, dtype=np.int64)

    def product(self, rows: Array, columns: Array) -> Array:
        return rows @ columns

    def smallest(self, values: Array, count: int) -> Array:
        """The indices of the smallest values of each row, the smallest first."""
        places = np.argpartition(values, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(values, places, axis=1), axis=1, kind="stable")
        return np.take_along_axis(places, order, axis=1)

    def to_numpy(self, values: Array) -> np.ndarray[Any, Any]:
        return np.asarray(values)


class TorchArrays:
    """On any device torch knows."""

    def __init__(self, device: str) -> None:
        import torch

        self.torch = torch
        self.device = torch.device(device)

    def floats(self, values: Any) -> Array:
        return self.torch.as_tensor(values, device=self.device).to(self.torch.float32)

    def integers(self, values: Any) -> Array:
        return self.torch.as_tensor(values, device=self.device, dtype=self.torch.long)

    def product(self, rows: Array, columns: Array) -> Array:
        """In double precision on a GPU: training may have enabled TF32 (ten bits), and distances are small
        differences of large products."""
        if self.device.type != "cuda":
            return rows @ columns
        return (rows.double() @ columns.double()).to(self.torch.float32)

    def smallest(self, values: Array, count: int) -> Array:
        return self.torch.topk(values, count, dim=1, largest=False).indices

    def to_numpy(self, values: Array) -> np.ndarray[Any, Any]:
        return np.asarray(values.cpu().numpy())
