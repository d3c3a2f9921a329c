"""What a reward is made of, and how its parts become one number.

Normalised, the default:  0.5·format + 0.5·(0.2·accuracy + 0.6·semantics + 0.2·quality)
with accuracy 0 or 1, and semantics = ((new − old)/10 + 1)/2, from 0 to 1, 0.5 for no change; quality alike.

Plain, as the paper prints it:  0.5·format + 0.5·(α·accuracy + (1 − α)·step)
with accuracy −1 or 0, and step the difference of the scores in points.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from interleave.types import Scores, Value

NO_CHANGE = 0.5
POINTS = 10.0


class Weights(Value):
    """Every weight of the reward."""

    form: Literal["normalised", "plain"] = "normalised"
    format: float = Field(default=0.5, ge=0, le=1)
    """How much the form of the reply counts; the rest is what it says."""
    accuracy: float = Field(default=0.2, ge=0)
    semantics: float = Field(default=0.6, ge=0)
    quality: float = Field(default=0.2, ge=0)
    alpha: float = Field(default=0.2, ge=0, le=1)
    """The plain form's share of accuracy."""


class Parts(Value):
    """One reply's reward, taken apart. What the numbers range over depends on the form."""

    format: float
    accuracy: float
    semantics: float
    quality: float


def change(new: Scores | None, old: Scores, weights: Weights) -> tuple[float, float]:
    """What a redraw changed in semantics and quality; None where nothing was drawn: no change."""
    if weights.form == "plain":
        return (0.0, 0.0) if new is None else (new.semantics - old.semantics, new.quality - old.quality)
    if new is None:
        return NO_CHANGE, NO_CHANGE
    return _normalised(new.semantics - old.semantics), _normalised(new.quality - old.quality)


def accuracy(judged: bool | None, success: bool, weights: Weights) -> float:
    """Whether the judgement is that of the label; an unreadable one is wrong."""
    wrong = float(judged is not success)
    return -wrong if weights.form == "plain" else 1 - wrong


def total(parts: Parts, weights: Weights) -> float:
    """The reward; raises `ValueError` when it is not a number."""
    if weights.form == "plain":
        said = plain(parts.format, parts.accuracy, step(parts, weights), weights)
    else:
        content = (
            weights.accuracy * parts.accuracy
            + weights.semantics * parts.semantics
            + weights.quality * parts.quality
        )
        said = weights.format * parts.format + (1 - weights.format) * content
    if not math.isfinite(said):
        raise ValueError(f"the reward of {parts} is not a number")
    return said


def plain(format: float, accuracy: float, step: float, weights: Weights) -> float:
    """The paper's formula."""
    content = weights.alpha * accuracy + (1 - weights.alpha) * step
    return weights.format * format + (1 - weights.format) * content


def step(parts: Parts, weights: Weights) -> float:
    """Semantics and quality as one difference, in the proportion of their weights."""
    both = weights.semantics + weights.quality
    if both == 0:
        return 0.0
    return (weights.semantics * parts.semantics + weights.quality * parts.quality) / both


def _normalised(difference: float) -> float:
    return (difference / POINTS + 1) / 2
