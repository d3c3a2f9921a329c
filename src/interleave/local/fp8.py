"""Matrix products in float8, with one scale per row.

An H200 multiplies float8 numbers twice as fast as bfloat16, which is most of the time of an image model, and
reads them twice as fast, which is all of the time of a decode step. Weights are rounded once. Rows of
activations are rounded when they are multiplied, scaled by their largest number, so no calibration is needed.
Sums are in float32. Small, sensitive layers (modulation, embeddings, norms, the last layer) keep their
precision.
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
"""Layers with such a word in their name scale everything after them, and have a single row."""


class Float8Linear(nn.Module):  # type: ignore[misc]
    """A linear layer whose product is computed in float8."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        """`weight` is in float8; its rows times `scale` are the original rows."""
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale.view(1, -1))
        self.register_buffer("bias", bias)

    @classmethod
    def of(cls, linear: nn.Linear, device: torch.device) -> Float8Linear:
        """Return a layer rounded to float8 on `device`; the result stays on the layer's device."""
        home = linear.weight.device
        rounded, scale = to_float8(linear.weight.detach().to(device))
        bias = None if linear.bias is None else linear.bias.detach()
        return cls(rounded.to(home), scale.to(home), bias)

    def forward(self, states: Tensor) -> Tensor:
        product = float8_product(states, self.weight, self.scale)
        return product if self.bias is None else product + self.bias


def float8_product(states: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """Round states to float8 and multiply them by a float8 matrix with row scales."""
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
    """Return rows rounded to float8, and the scale of each."""
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
    """Round the linear layers in a model's repeated blocks; return the number of float8 layers."""
    for block in repeated_blocks(model):
        for name, module in list(block.named_modules()):
            if type(module) is nn.Linear and can_be_float8(name, module.weight):
                block.set_submodule(name, Float8Linear.of(module, device))
    return has_float8(model)


def round_language_model(model: Any) -> int:
    """Round the linear layers in a vision-language model's decoder; return the number of float8 layers.

    The vision tower is little work, and the output layer decides between tokens, so both stay unrounded.
    """
    language = getattr(getattr(model, "model", None), "language_model", None)
    for layer in getattr(language, "layers", ()):
        for name, module in list(layer.named_modules()):
            if type(module) is nn.Linear and can_be_float8(name, module.weight):
                layer.set_submodule(name, Float8Linear.of(module, module.weight.device))
    return has_float8(model)


def has_float8(model: nn.Module) -> int:
    """Return the number of float8 layers of a model."""
    return sum(isinstance(module, Float8Linear) for module in model.modules())


def repeated_blocks(model: Any) -> list[nn.Module]:
    """Return the blocks that do nearly all the work of an image model."""
    classes = getattr(model, "_repeated_blocks", None) or ()
    return [module for module in model.modules() if type(module).__name__ in classes]


def can_be_float8(name: str, weight: Tensor) -> bool:
    """Return whether a layer's product can and should be computed in float8."""
    divides = all(side % SIDE_MULTIPLE == 0 for side in weight.shape)
    return divides and not any(word in part for word in SENSITIVE for part in name.split("."))


def supports_float8(device: torch.device) -> bool:
    """Return whether a device multiplies float8 matrices; a CPU does, slowly."""
    if device.type == "cuda":
        return bool(torch.cuda.get_device_capability(device) >= (8, 9))
    return str(device.type) == "cpu"
