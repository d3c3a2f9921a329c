"""Matrix products in float8, with one scale per row.

An H200 multiplies float8 numbers twice as fast as bfloat16 ones, which is most of the time of an image model,
and reads them twice as fast, which is all of the time of a decode. Weights are rounded once; the rows of
activations when they are multiplied, each by its own largest number, so that no calibration is needed. Sums
are kept in float32. What is small and sensitive (modulation, embeddings, norms, the last layer) stays in its
own precision.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

FLOAT8 = torch.float8_e4m3fn
LARGEST = torch.finfo(FLOAT8).max
LEAST_SCALE = 1e-12
SIDE_MULTIPLE = 16
"""Both sides of a float8 matrix must be multiples of this."""
SENSITIVE = ("mod", "norm")
"""Layers with such a word in their name set the scale of everything after them, and have a single row."""


class Float8Linear(nn.Module):  # type: ignore[misc]
    """A linear layer whose product is computed in float8."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        """`weight` is of float8, and its row times `scale` the row of the original."""
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale.view(1, -1))
        self.register_buffer("bias", bias)

    @classmethod
    def of(cls, linear: nn.Linear, device: torch.device) -> Float8Linear:
        """A layer rounded to float8; computed on a device, and left where it was."""
        home = linear.weight.device
        rounded, scale = to_float8(linear.weight.detach().to(device))
        bias = None if linear.bias is None else linear.bias.detach()
        return cls(rounded.to(home), scale.to(home), bias)

    def forward(self, states: Tensor) -> Tensor:
        product = float8_product(states, self.weight, self.scale)
        return product if self.bias is None else product + self.bias


def float8_product(states: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """States times a matrix of float8, whose rows have scales; the states are rounded on the way."""
    rows, row_scale = to_float8(states.reshape(-1, states.shape[-1]))
    product = torch._scaled_mm(
        rows,
        weight.t(),
        scale_a=row_scale,
        scale_b=scale.view(1, -1),
        out_dtype=torch.float32 if states.dtype == torch.float32 else torch.bfloat16,
        use_fast_accum=states.is_cuda,
    )
    return product.to(states.dtype).view(*states.shape[:-1], -1)


def to_float8(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows rounded to float8, and the scale that each is to be multiplied by."""
    if rows.is_cuda and rows.ndim == 2 and not torch.compiler.is_compiling() and _has_triton():
        from interleave.local.float8_kernels import round_rows

        return round_rows(rows, FLOAT8, LEAST_SCALE)
    precise = rows.float()
    scale = precise.abs().amax(dim=-1, keepdim=True).div(LARGEST).clamp(min=LEAST_SCALE)
    return (precise / scale).clamp(-LARGEST, LARGEST).to(FLOAT8), scale


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def use_float8(model: Any, device: torch.device) -> int:
    """Round the linear layers in the repeated blocks of a model; returns how many are of float8 then."""
    for block in repeated_blocks(model):
        for name, module in list(block.named_modules()):
            if type(module) is nn.Linear and can_be_float8(name, module.weight):
                block.set_submodule(name, Float8Linear.of(module, device))
    return has_float8(model)


def round_language_model(model: Any) -> int:
    """Round the linear layers in the decoder of a vision-language model; returns how many are of float8.

    The vision tower is a small part of the work, and the output layer decides between tokens: both stay.
    """
    language = getattr(getattr(model, "model", None), "language_model", None)
    for layer in getattr(language, "layers", ()):
        for name, module in list(layer.named_modules()):
            if type(module) is nn.Linear and can_be_float8(name, module.weight):
                layer.set_submodule(name, Float8Linear.of(module, module.weight.device))
    return has_float8(model)


def has_float8(model: nn.Module) -> int:
    """How many layers of a model are of float8."""
    return sum(isinstance(module, Float8Linear) for module in model.modules())


def repeated_blocks(model: Any) -> list[nn.Module]:
    """The blocks that do nearly all of the work of an image model."""
    classes = getattr(model, "_repeated_blocks", None) or ()
    return [module for module in model.modules() if type(module).__name__ in classes]


def can_be_float8(name: str, weight: Tensor) -> bool:
    """Whether a layer's product can and should be computed in float8."""
    divides = all(side % SIDE_MULTIPLE == 0 for side in weight.shape)
    return divides and not any(word in part for word in SENSITIVE for part in name.split("."))


def supports_float8(device: torch.device) -> bool:
    """Whether a device multiplies float8 matrices; a CPU does, slowly."""
    if device.type == "cuda":
        return bool(torch.cuda.get_device_capability(device) >= (8, 9))
    return str(device.type) == "cpu"
