"""WGO-Bench's measures of annotations against the ground truth.

A found sub-task matches a true one if their times overlap by at least 0.75 (intersection over union); each
matches at most one. *Segment F1* counts the pairs. *End-to-end F1* counts only pairs whose instructions
agree, and *label accuracy* is their fraction of all pairs. Counts are pooled over all episodes. WGO-Bench
compares instructions with a model; here they agree if their words do, unless `agree` is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

from interleave.robots.annotation_file import EpisodeAnnotation
from interleave.robots.video_segments import Segment

LEAST_OVERLAP = 0.75
TOLERANCES = (0.25, 0.5, 1.0, 2.0)
"""Seconds within which a boundary counts as found."""
RESAMPLED = 1000
Agree = Callable[[str, str], bool]
_WORD = re.compile(r"[^\W_]+")
_SAYS_NOTHING = {"the", "a", "an", "gripper", "robot", "it"}


def same_words(found: str, true: str) -> bool:
    """Return whether two instructions have the same words, ignoring case, verb endings and articles."""
    return _words(found) == _words(true)


def _words(text: str) -> list[str]:
    words = (word.casefold() for word in _WORD.findall(text))
    return [word.removesuffix("s") for word in words if word not in _SAYS_NOTHING]


@dataclass(frozen=True)
class EpisodeCounts:
    """The counts of one episode."""

    found: int
    true: int
    fitting: int
    agreeing: int
    """Pairs whose instructions agree."""
    distances: tuple[float, ...]
    """Distance of every true boundary from the nearest found one, in seconds; infinite if none was found."""
    fits_loosely: int = 0
    """Pairs with an overlap of at least 0.5."""


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval, by resampling episodes."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class AnnotationScores:
    """The measures of a set of episodes."""

    episodes: int
    missing: int
    """True episodes without an annotation; all their sub-tasks count as not found."""
    found: int
    true: int
    segment_f1: Estimate
    segment_f1_half: Estimate
    """With a minimum overlap of 0.5."""
    end_to_end_f1: Estimate
    label_accuracy: Estimate
    boundary_error: float
    """Median in seconds."""
    boundaries_within: Mapping[float, float]
    """Fraction of true boundaries found, by tolerance in seconds."""


def score_annotations(
    found: Mapping[int, EpisodeAnnotation],
    true: Mapping[int, EpisodeAnnotation],
    *,
    agree: Agree = same_words,
    seed: int = 0,
) -> AnnotationScores:
    """Score annotations against the true ones of the same episodes."""
    counts = [
        count_episode(found[number].segments if number in found else (), truth, agree)
        for number, truth in true.items()
    ]
    rng = Random(seed)
    samples = [rng.choices(counts, k=len(counts)) for _ in range(RESAMPLED)] if counts else []

    def estimate(measure: Callable[[Sequence[EpisodeCounts]], float]) -> Estimate:
        values = sorted(measure(sample) for sample in samples)
        if not values:
            return Estimate(0.0, 0.0, 0.0)
        low, high = values[int(0.025 * len(values))], values[int(0.975 * len(values))]
        return Estimate(measure(counts), low, high)

    distances = [each for count in counts for each in count.distances]
    return AnnotationScores(
        episodes=len(counts),
        missing=sum(number not in found for number in true),
        found=sum(each.found for each in counts),
        true=sum(each.true for each in counts),
        segment_f1=estimate(lambda some: _f1(some, [each.fitting for each in some])),
        segment_f1_half=estimate(lambda some: _f1(some, [each.fits_loosely for each in some])),
        end_to_end_f1=estimate(lambda some: _f1(some, [each.agreeing for each in some])),
        label_accuracy=estimate(
            lambda some: sum(each.agreeing for each in some) / max(1, sum(each.fitting for each in some))
        ),
        boundary_error=median(distances) if distances else 0.0,
        boundaries_within={
            tolerance: sum(each <= tolerance + 1e-9 for each in distances) / max(1, len(distances))
            for tolerance in TOLERANCES
        },
    )


def count_episode(
    found: Sequence[Segment], truth: EpisodeAnnotation, agree: Agree = same_words
) -> EpisodeCounts:
    """Pair the found and true sub-tasks of an episode, by decreasing overlap."""
    pairs = _pairs(found, truth.segments, LEAST_OVERLAP)
    starts = [each.start for each in found[1:]]
    return EpisodeCounts(
        found=len(found),
        true=len(truth.segments),
        fitting=len(pairs),
        agreeing=sum(agree(one.instruction, other.instruction) for one, other in pairs),
        distances=tuple(
            min((abs(each.start - start) for start in starts), default=float("inf")) / truth.fps
            for each in truth.segments[1:]
        ),
        fits_loosely=len(_pairs(found, truth.segments, 0.5)),
    )


def _pairs(found: Sequence[Segment], true: Sequence[Segment], least: float) -> list[tuple[Segment, Segment]]:
    overlaps = sorted(
        ((overlap(one, other), i, j) for i, one in enumerate(found) for j, other in enumerate(true)),
        key=lambda each: (-each[0], each[1], each[2]),
    )
    pairs, taken_found, taken_true = [], set[int](), set[int]()
    for share, i, j in overlaps:
        if share >= least and i not in taken_found and j not in taken_true:
            pairs.append((found[i], true[j]))
            taken_found.add(i)
            taken_true.add(j)
    return pairs


def overlap(one: Segment, other: Segment) -> float:
    """Return the intersection over union of two segments."""
    shared = min(one.end, other.end) - max(one.start, other.start)
    return max(0, shared) / (max(one.end, other.end) - min(one.start, other.start))


def _f1(counts: Sequence[EpisodeCounts], right: Sequence[int]) -> float:
    total = sum(each.found + each.true for each in counts)
    return 2 * sum(right) / total if total else 0.0
