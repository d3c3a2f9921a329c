"""Options that decide how replies are decoded: greedily, or sampled at a temperature."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from interleave.backends.protocols import Sampling
from interleave.types import Value

MAX_TEMPERATURE = 2.0


class SamplingOptions(Value):
    """Options of a model that can sample its replies."""

    temperature: float | None = Field(default=None, ge=0, le=MAX_TEMPERATURE)
    """Above 0, replies are sampled; otherwise the likeliest token is taken every time."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Sample from the smallest set of tokens with this total probability (nucleus sampling)."""
    top_k: int | None = Field(default=None, ge=1, le=1_000_000)
    """Sample from the k most likely tokens only."""
    seed: int | None = Field(default=None, ge=0, lt=2**31)
    """The same question gets the same reply, as far as the model's server can promise that."""

    @field_validator("top_p", "top_k", "seed")
    @classmethod
    def greedy_replies_have_no_choice(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and info.data.get("temperature") in (None, 0, "send"):
            raise ValueError("it changes nothing without a temperature above 0: add temperature=0.7")
        return value


def sampling_for(sampling: Sampling, options: SamplingOptions) -> Sampling:
    """How a call is decoded: the spec's options replace the default, but no choice of the caller."""
    if sampling.temperature != Sampling.temperature or not isinstance(options.temperature, float):
        return sampling
    return replace(
        sampling,
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        seed=options.seed,
    )
