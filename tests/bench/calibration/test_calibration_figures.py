"""The figures of a calibration: reliability, thresholds and scaling, on data whose truth is known."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime

import pytest

from interleave.bench.calibration.quick import QuicklyJudged, quick_threshold
from interleave.bench.calibration.report import calibrate, truths
from interleave.bench.calibration.thresholds import operating_points, point_at, threshold_for
from interleave.bench.calibration.verdicts import stored_verdicts
from interleave.bench.labels import CriticVerdict, Kind, Label
from interleave.bench.statistics import (
    area_under_curve,
    errors_of,
    fit_platt,
    fit_temperature,
    reliability,
    wilson,
)
from interleave.errors import InputError

CONFIDENCES = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]
RIGHT = [False, False, True, False, True, False, True, True]


def too_sure(count: int, sharpness: float = 3.0, seed: int = 1) -> tuple[list[float], list[bool]]:
    """Images that are right with a known probability, and a critic that makes its log odds too large."""
    chance = random.Random(seed)
    odds = [chance.gauss(0, 1.5) for _ in range(count)]
    right = [chance.random() < 1 / (1 + math.exp(-each)) for each in odds]
    return [1 / (1 + math.exp(-sharpness * each)) for each in odds], right


def test_wilson_gives_published_intervals() -> None:
    """E. B. Wilson's score interval, as in R. G. Newcombe (1998), table I, method 3."""
    for hits, of, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)):
        assert wilson(hits / of, of) == pytest.approx((low, high), abs=1e-4)
    assert wilson(0.0, 0) == (0.0, 1.0)


def test_bins_hold_as_many_attempts_each_and_equal_confidences_stay_together() -> None:
    bins = reliability(CONFIDENCES, RIGHT, 4)
    assert [each.count for each in bins] == [2, 2, 2, 2]
    assert [each.confidence for each in bins] == pytest.approx([0.15, 0.35, 0.65, 0.85])
    assert [each.right for each in bins] == [0.0, 0.5, 0.5, 1.0]
    assert all(each.low <= each.right <= each.high for each in bins)
    sure = reliability([0.5] * 7 + [1.0] * 3, [True] * 10, 10)
    assert [(each.count, each.confidence) for each in sure] == [(7, 0.5), (3, 1.0)]


def test_errors_are_those_of_hand() -> None:
    found = errors_of([0.8, 0.8, 0.2, 0.2], [True, False, False, False], bins=2)
    assert found.calibration == pytest.approx((2 * 0.3 + 2 * 0.2) / 4)
    assert found.brier == pytest.approx((0.04 + 0.64 + 0.04 + 0.04) / 4)
    assert found.log_loss == pytest.approx(-(math.log(0.8) * 3 + math.log(0.2)) / 4)
    assert errors_of([1.0, 0.0], [True, False]).brier == 0


def test_a_threshold_trades_false_alarms_for_misses() -> None:
    point = point_at(0.5, CONFIDENCES, RIGHT)
    assert (point.false_alarms.share, point.misses.share) == (0.25, 0.25)
    points = operating_points(CONFIDENCES, RIGHT)
    assert points[0].threshold == 0 and points[0].misses.share == 1 and points[0].false_alarms.share == 0
    assert points[-1].false_alarms.share == 1 and points[-1].misses.share == 0
    alarms = [each.false_alarms.share for each in points]
    assert alarms == sorted(alarms)
    assert area_under_curve(CONFIDENCES, RIGHT) == 13 / 16
    assert area_under_curve([0.5, 0.5], [True, False]) == 0.5


def test_the_threshold_keeps_the_wanted_rate() -> None:
    half = [True, False] * 4
    strict = threshold_for("false_alarms", 0.25, CONFIDENCES, RIGHT, half)
    assert strict.point.threshold == 0.5  # the strictest that refuses one of four right images
    assert strict.low <= 0.5 <= strict.high
    mild = threshold_for("misses", 0.25, CONFIDENCES, RIGHT, half)
    assert mild.point.threshold == 0.5 and mild.point.misses.share == 0.25
    assert threshold_for("false_alarms", 0.0, CONFIDENCES, RIGHT, half).point.threshold == 0.25
    all_sure = threshold_for("misses", 0.0, [1.0, 1.0, 0.2], [True, False, True], half[:3])
    assert all_sure.point.misses.share == 1  # no threshold keeps it: the strictest is taken


def test_a_threshold_between_close_confidences_tells_them_apart() -> None:
    close = [0.999990, 0.999991, 0.999992, 0.999993]
    found = threshold_for("misses", 0.0, close, [False, False, True, True], [True, False] * 2)
    assert 0.999991 < (found.point.threshold or 0) <= 0.999992
    assert found.point.false_alarms.share == found.point.misses.share == 0


def test_scaling_finds_how_much_too_sure_a_critic_is() -> None:
    confidences, right = too_sure(4000)
    assert fit_temperature(confidences, right).temperature == pytest.approx(3.0, rel=0.1)
    platt = fit_platt(confidences, right)
    assert platt.slope == pytest.approx(1 / 3, rel=0.1) and abs(platt.intercept) < 0.1
    for scaling in (platt, fit_temperature(confidences, right)):
        scaled = scaling.apply(confidences)
        assert errors_of(scaled, right).calibration < errors_of(confidences, right).calibration / 3
        by_confidence = [value for _, value in sorted(zip(confidences, scaled, strict=True))]
        assert by_confidence == sorted(by_confidence)


def test_scaling_stays_finite_where_labels_are_separated_or_reversed() -> None:
    perfect = fit_temperature([0.1, 0.2, 0.8, 0.9], [False, False, True, True])
    assert all(0 <= each <= 1 for each in perfect.apply([0.0, 0.5, 1.0]))
    reversed_ = fit_platt([0.9, 0.8, 0.2, 0.1] * 5, [False, False, True, True] * 5)
    assert reversed_.slope == 0 and reversed_.apply([0.1, 0.9]) == pytest.approx([0.5, 0.5])


def label(number: int, value: bool, confidence: float | None, rater: str = "ann") -> Label:
    critic = None if confidence is None else CriticVerdict(accepted=confidence >= 0.5, confidence=confidence)
    return Label(
        kind=Kind.ACCEPT,
        rater=rater,
        at=datetime(2026, 1, 1, tzinfo=UTC),
        run=f"run-{number}",
        step=1,
        attempt=1,
        value=value,
        critic=critic,
    )


def test_raters_decide_by_majority_and_a_split_is_left_out() -> None:
    labels = [label(1, True, 0.9), label(1, True, 0.9, "ben"), label(1, False, 0.9, "cat")]
    labels += [label(2, True, 0.9), label(2, False, 0.9, "ben"), label(3, True, 0.9), label(3, False, 0.9)]
    assert list(truths(labels).values()) == [True, None, False]


def test_a_calibration_has_everything() -> None:
    confidences, right = too_sure(400)
    labels = [label(place, *each) for place, each in enumerate(zip(right, confidences, strict=True))]
    labels += [label(1000, True, None), label(1001, True, 0.7), label(1001, False, 0.7, "ben")]
    found = calibrate("a-critic", labels, stored_verdicts(labels), wanted="false_alarms", rate=0.1)
    assert (found.labels, found.right, found.unjudged, found.undecided) == (400, sum(right), 1, 1)
    assert found.threshold.point.false_alarms.share <= 0.1
    assert found.threshold.held_out is not None
    assert 0.5 < found.area < 1
    temperature, platt = found.scaled
    assert temperature.scaling.temperature > 2
    assert temperature.after.calibration < temperature.before.calibration
    assert platt.after.brier < platt.before.brier
    assert temperature.before.count + platt.before.count < 2 * 400  # one half only


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ([label(1, True, None)], "no labelled attempt has a critic's confidence"),
        ([label(1, True, 0.9), label(2, True, 0.8)], "all labels say right"),
        ([label(1, False, 0.9)], "all labels say wrong"),
    ],
)
def test_labels_that_say_too_little_are_refused(labels: list[Label], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        calibrate("c", labels, stored_verdicts(labels), wanted="misses", rate=0.1)


def quickly(*rows: tuple[bool, bool, float]) -> list[QuicklyJudged]:
    return [QuicklyJudged(*row, is_fitted=place % 2 == 0) for place, row in enumerate(rows)]


def test_no_wrong_image_is_accepted_at_once_that_reasoning_rejects() -> None:
    judged = quickly(
        (True, True, 0.99), (True, False, 0.7), (False, False, 0.8), (False, True, 0.95), (True, True, 0.3)
    )
    found = quick_threshold(judged)
    assert found is not None
    assert found.point.threshold == pytest.approx(0.8) and found.point.threshold > 0.8
    assert (found.point.saved.share, found.point.saved.of) == (0.4, 5)
    assert found.point.misses.share == found.point.misses_with_reasoning.share == 0.5


def test_a_threshold_of_one_half_may_miss_more_on_the_other() -> None:
    judged = quickly((True, True, 0.9), (False, False, 0.95), (False, False, 0.6), (True, True, 0.99))
    found = quick_threshold(judged)
    assert found is not None and found.held_out is not None
    assert found.point.misses.share == 0
    assert found.held_out.threshold == pytest.approx(0.6)
    assert (found.held_out.misses.share, found.held_out.misses_with_reasoning.share) == (1, 0)


def test_without_a_wrong_image_half_is_enough_and_certainty_of_one_leaves_no_threshold() -> None:
    found = quick_threshold(quickly((True, True, 0.6), (True, True, 0.4)))
    assert found is not None and found.point.threshold == 0.5
    assert quick_threshold(quickly((True, True, 1.0), (False, False, 1.0))) is None
    assert quick_threshold([]) is None
