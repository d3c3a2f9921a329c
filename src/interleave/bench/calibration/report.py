"""The calibration of a critic: computes all figures from labels and the critic's verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from interleave import InputError
from interleave.bench.calibration.quick import QuicklyJudged, QuickThreshold, quick_threshold
from interleave.bench.calibration.thresholds import (
    OperatingPoint,
    Threshold,
    Wanted,
    operating_points,
    point_of,
    refuse_one_sided,
    threshold_for,
)
from interleave.bench.labels import CriticVerdict, Kind, Label, Subject
from interleave.bench.rater_agreement import Agreement, label_agreement
from interleave.bench.statistics import (
    BINS,
    FITS,
    Bin,
    Errors,
    Method,
    Scaling,
    area_under_curve,
    errors_of,
    reliability,
)
from interleave.plugin import Value

MIN_LABELS_PER_HALF = 10
"""Minimum labels per half for fitting."""


@dataclass(frozen=True)
class JudgedLabel:
    """Human and critic verdicts on one attempt."""

    run: str
    right: bool
    accepted: bool
    confidence: float
    quick: float | None


class ScaledErrors(Value):
    """A scaling fitted on one half of the labels, with its errors on the other half."""

    scaling: Scaling
    before: Errors
    after: Errors
    bins: tuple[Bin, ...]
    """Bins of the scaled confidences."""


class Calibration(Value):
    """All calibration figures of a critic."""

    critic: str
    labels: int
    """Labelled and judged attempts."""
    right: int
    unjudged: int
    """Attempts without a readable verdict, or without its confidence."""
    undecided: int
    """Attempts whose raters are split."""
    agreement: Agreement
    errors: Errors
    bins: tuple[Bin, ...]
    area: float
    """Area under the curve of false alarms and misses: 1 is perfect, 0.5 is chance."""
    as_it_says: OperatingPoint
    points: tuple[OperatingPoint, ...]
    threshold: Threshold
    scaled: tuple[ScaledErrors, ...]
    quick: QuickThreshold | None = None
    """From which probability on images may be accepted at once. `None`: the critic cannot be asked so."""


def in_first_half(run: str) -> bool:
    """Return whether a run's labels are in the fitting half. All attempts of a run are in the same half."""
    return hashlib.sha256(run.encode("utf-8", "surrogatepass")).digest()[0] < 128


def truths(labels: Iterable[Label]) -> dict[Subject, bool | None]:
    """Return the majority label of each attempt, using each rater's last; `None` if raters are split."""
    said: dict[Subject, dict[str, bool]] = {}
    for label in labels:
        if label.kind is Kind.ACCEPT:
            said.setdefault(label.subject, {})[label.rater] = bool(label.value)
    return {subject: _majority(list(by_rater.values())) for subject, by_rater in said.items()}


def _majority(votes: Sequence[bool]) -> bool | None:
    yes = sum(votes)
    return None if 2 * yes == len(votes) else 2 * yes > len(votes)


def calibrate(
    critic: str,
    labels: Sequence[Label],
    verdicts: dict[Subject, CriticVerdict],
    *,
    wanted: Wanted,
    rate: float,
    bins: int = BINS,
) -> Calibration:
    """Compute all figures. Raises `InputError` if the labels do not allow it."""
    truth = truths(labels)
    judged = [
        JudgedLabel(subject.run, right, verdict.accepted, verdict.confidence, verdict.quick)
        for subject, right in truth.items()
        if right is not None
        and (verdict := verdicts.get(subject)) is not None
        and verdict.confidence is not None
    ]
    undecided = sum(right is None for right in truth.values())
    if not judged:
        raise InputError(
            "no labelled attempt has a critic's confidence: its backend must return token probabilities "
            "(openai: ?logprobs=true)"
        )
    confidences, right = [each.confidence for each in judged], [each.right for each in judged]
    refuse_one_sided(right)
    return Calibration(
        critic=critic,
        labels=len(judged),
        right=sum(right),
        unjudged=len(truth) - undecided - len(judged),
        undecided=undecided,
        agreement=label_agreement(labels, Kind.ACCEPT),
        errors=errors_of(confidences, right, bins),
        bins=tuple(reliability(confidences, right, bins)),
        area=area_under_curve(confidences, right),
        as_it_says=point_of([each.accepted for each in judged], right),
        points=tuple(operating_points(confidences, right)),
        threshold=threshold_for(
            wanted, rate, confidences, right, [in_first_half(each.run) for each in judged]
        ),
        scaled=tuple(each for method in FITS if (each := _scaled(method, judged, bins)) is not None),
        quick=quick_threshold(
            [
                QuicklyJudged(each.right, each.accepted, each.quick, in_first_half(each.run))
                for each in judged
                if each.quick is not None
            ]
        ),
    )


def _scaled(method: Method, judged: Sequence[JudgedLabel], bins: int) -> ScaledErrors | None:
    """Fit a scaling on one half and measure it on the other; `None` if a half has too few labels."""
    fitted = [each for each in judged if in_first_half(each.run)]
    measured = [each for each in judged if not in_first_half(each.run)]
    for half in (fitted, measured):
        if len(half) < MIN_LABELS_PER_HALF or len({each.right for each in half}) < 2:
            return None
    scaling = FITS[method]([each.confidence for each in fitted], [each.right for each in fitted])
    before, truth = [each.confidence for each in measured], [each.right for each in measured]
    scaled = scaling.apply(before)
    return ScaledErrors(
        scaling=scaling,
        before=errors_of(before, truth, bins),
        after=errors_of(scaled, truth, bins),
        bins=tuple(reliability(scaled, truth, bins)),
    )
