"""The rules of selecting, as laws that hold for any scores whatever."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from interleave.train.data.score_file import Unscored
from interleave.train.data.select.rules import (
    DROPPED,
    FALLING,
    LOW,
    NO_SCORE,
    RL,
    SCORE_FAILED,
    SFT,
    SURPLUS,
    Candidate,
    ScoredStep,
    ThresholdOptions,
    Thresholds,
    copy_counts,
    move_acceptances_to_rl,
    part_of,
    quantile,
    step_stats,
    thresholds_for,
    variance_for,
    why_dropped,
    with_score,
)
from interleave.train.data.select.stage import SelectOptions, choose, counts_of, step_key
from interleave.types import Scores

CASES = 300


def step(name: str, *marks: float | None, accepted: tuple[bool, ...] | None = None) -> ScoredStep:
    """A step whose attempts got these marks in both respects; None for no score."""
    accepted = accepted or tuple(number == len(marks) for number in range(1, len(marks) + 1))
    attempts = (
        with_score(
            (number, accepted[number - 1], None),
            None if mark is None else Scores(semantics=mark, quality=mark),
        )
        for number, mark in enumerate(marks, start=1)
    )
    return ScoredStep("col", name, 1, tuple(attempts))


def random_steps(rng: Random) -> list[ScoredStep]:
    """Any steps whatever: ties, missing and failed scores, one attempt, flaws."""
    steps = []
    for number in range(rng.randint(1, 30)):
        attempts = []
        for attempt in range(1, rng.choice((1, 1, 2, 3, 5)) + 1):
            problem = rng.choice((None, None, None, None, "unreadable verdict"))
            marks = Scores(
                semantics=rng.choice((0, 5, 10, rng.uniform(0, 10))), quality=rng.choice((0, 10, 7.5))
            )
            score = rng.choice((marks, marks, marks, marks, None, Unscored(reason="no answer")))
            attempts.append(with_score((attempt, rng.random() < 0.5, problem), score))
        steps.append(ScoredStep("col", f"run-{number:02d}", rng.randint(1, 9), tuple(attempts)))
    return steps


def parts(steps: list[ScoredStep], options: SelectOptions) -> dict[str, list[tuple[str, str | None, int]]]:
    chosen = choose(steps, thresholds_for(steps, options.thresholds), options)
    return {key: [(each.part, each.reason, each.copies) for each in own] for key, own in chosen.items()}


@pytest.mark.parametrize("filtered", [True, False])
def test_K12_every_attempt_is_in_exactly_one_part_and_the_sums_are_right(filtered: bool) -> None:
    for case in range(CASES):
        steps = random_steps(Random(case))
        options = SelectOptions(ThresholdOptions(filtered=filtered))
        choices = choose(steps, thresholds_for(steps, options.thresholds), options)
        counts = counts_of(steps, choices)
        attempts = sum(len(each.attempts) for each in steps)
        assert counts["attempts"] == attempts == counts[SFT] + counts[RL] + counts[DROPPED]
        reasons = sum(number for name, number in counts.items() if name.startswith("dropped: "))
        assert reasons == counts[DROPPED]
        for each in steps:
            for attempt, choice in zip(each.attempts, choices[step_key(each)], strict=True):
                assert (choice.part == DROPPED) == bool(choice.reason) == (choice.copies == 0)
                assert attempt.problem is None or choice.reason == attempt.problem


def test_K13_the_order_of_the_input_does_not_matter() -> None:
    for case in range(CASES):
        rng = Random(case)
        steps = random_steps(rng)
        shuffled = rng.sample(steps, len(steps))
        assert parts(shuffled, SelectOptions(seed=case)) == parts(steps, SelectOptions(seed=case))


def test_balancing_makes_judgements_even_wherever_both_occur() -> None:
    for case in range(CASES):
        rng = Random(case)
        candidates = [
            Candidate(str(number), rng.choice((SFT, RL)), rng.randint(1, 3), rng.random() < 0.8)
            for number in range(rng.randint(1, 60))
        ]
        copies = copy_counts(candidates, seed=case, max_copies=3)
        rows: Counter[tuple[str, int, bool]] = Counter()
        for each, number in zip(candidates, copies, strict=True):
            rows[each.part, each.iteration, each.accepted] += number
        judged = {(each.part, each.iteration): set[bool]() for each in candidates}
        for each in candidates:
            judged[each.part, each.iteration].add(each.accepted)
        for (part, iteration), both in judged.items():
            if len(both) == 2:
                assert rows[part, iteration, True] == rows[part, iteration, False] > 0
        assert max(copies) <= 3


def test_iterations_with_one_judgement_are_weighed_against_each_other() -> None:
    refused = [Candidate(f"r{number}", RL, 1, False) for number in range(6)]
    accepted = [Candidate(f"a{number}", RL, 2, True) for number in range(2)]
    copies = copy_counts(refused + accepted, seed=0, max_copies=4)
    assert sum(copies[:6]) == sum(copies[6:]) == 6


def test_where_there_is_only_one_judgement_nothing_is_lost() -> None:
    assert copy_counts([Candidate(str(each), SFT, 1, True) for each in range(5)], seed=0) == [1] * 5


def test_the_rarer_judgement_is_repeated_and_the_surplus_of_the_other_left_out() -> None:
    steps = [step(f"good-{number}", 9.0) for number in range(10)] + [
        step("bad", 9.0, accepted=(False,)),
    ]
    chosen = parts(steps, SelectOptions(max_copies=4))
    assert chosen["col/bad/1"] == [(SFT, None, 4)]
    good = [own[0] for key, own in chosen.items() if "good" in key]
    assert sorted(good, key=str) == sorted([(SFT, None, 1)] * 4 + [(DROPPED, SURPLUS, 0)] * 6, key=str)


@pytest.mark.parametrize(
    ("marks", "fall", "best", "variance"),
    [
        ([7.0], 0, 7, 0),
        ([2.0, 9.0], 0, 9, 12.25),
        ([9.0, 2.0], 7, 9, 12.25),
        ([5.0, 9.0, 8.0], 1, 9, 2.888889),
        ([4.0, 4.0, 4.0], 0, 4, 0),
    ],
)
def test_the_figures_of_a_step(marks: list[float], fall: float, best: float, variance: float) -> None:
    stats = step_stats(marks)
    assert (stats.fall, stats.best, stats.variance) == (fall, best, variance)


LINES = Thresholds(max_fall=1.0, min_best=5.0, variance=2.0)


@pytest.mark.parametrize(
    ("marks", "reason"),
    [
        ([9.0, 7.0], FALLING),
        ([9.0, 8.0], None),
        ([3.0, 4.0], LOW),
        ([3.0, 5.0], None),
        ([9.0, 3.0, 9.0], None),
    ],
)
def test_falling_and_low_steps_are_dropped_and_what_is_on_the_line_stays(
    marks: list[float], reason: str | None
) -> None:
    assert why_dropped(step("one", *marks), LINES) == reason


def test_high_variance_goes_to_rl_and_low_to_sft() -> None:
    assert part_of(step_stats([2.0, 9.0]), LINES) == RL
    assert part_of(step_stats([8.0, 9.0]), LINES) == SFT


def test_the_variance_threshold_comes_as_near_to_two_to_one_as_it_can() -> None:
    steps = [step(f"varies-{number}", 1.0 + number / 10, 9.0) for number in range(30)]
    line = variance_for(steps, 2.0)
    to_rl = sum(each.stats is not None and each.stats.variance > line for each in steps)
    assert to_rl == 10


def test_at_most_half_of_the_steps_that_vary_go_to_rl_unless_told() -> None:
    for case in range(CASES):
        steps = [each for each in random_steps(Random(case)) if each.usable and each.stats]
        varying = [each.stats.variance for each in steps if each.stats and each.stats.variance > 0]
        line = variance_for(steps)
        assert sum(variance > line for variance in varying) <= len(varying) / 2
        assert line >= variance_for(steps, 2.0)


def test_what_is_accepted_in_the_end_or_good_is_never_called_low_unless_told() -> None:
    good = [step(f"good-{number}", 9.9) for number in range(30)]
    accepted = step("accepted", 5.0, 6.0)
    refused = step("refused", 8.8, accepted=(False,))
    low = step("low", 5.0, accepted=(False,))
    steps = [*good, accepted, refused, low]
    from_data = thresholds_for(steps, ThresholdOptions())
    assert [each.run for each in steps if why_dropped(each, from_data)] == ["low"]
    told = thresholds_for(steps, ThresholdOptions(min_best=9.0))
    assert {each.run for each in steps if why_dropped(each, told)} == {"accepted", "refused", "low"}


def test_K12_a_step_that_does_not_vary_never_goes_to_rl() -> None:
    steps = [step(f"same-{number}", 8.0, 8.0) for number in range(9)]
    assert variance_for(steps, 2.0) == 0.0
    assert {own[0][0] for own in parts(steps, SelectOptions(balanced=False)).values()} == {SFT}


def test_defaults_drop_at_most_a_quarter_of_the_retried_for_falling_and_a_tenth_for_being_low() -> None:
    for case in range(CASES):
        steps = random_steps(Random(case))
        lines = thresholds_for(steps, ThresholdOptions())
        stats = [each.stats for each in steps if each.stats is not None and each.usable]
        retried = [each for each in steps if each.stats is not None and len(each.attempts) > 1]
        falling = [each for each in retried if each.stats and why_dropped(each, lines) == FALLING]
        low = [each for each in stats if lines.min_best is not None and each.best < lines.min_best]
        assert len(falling) <= len(retried) / 4
        assert len(low) <= len(stats) / 10


def test_thresholds_that_are_given_are_taken() -> None:
    lines = thresholds_for([step("one", 1.0, 9.0)], ThresholdOptions(max_fall=3, min_best=2, variance=1))
    assert lines == Thresholds(max_fall=3, min_best=2, variance=1)


def test_a_quantile_is_one_of_the_values() -> None:
    assert quantile([5.0, 1.0, 3.0], 0.5) == 3.0
    assert quantile([], 0.5) == 0.0


def test_K12_missing_and_failed_scores_are_reasons_of_their_own() -> None:
    missing = with_score((1, True, None), None)
    failed = with_score((1, True, None), Unscored(reason="no answer"))
    assert (missing.problem, failed.problem) == (NO_SCORE, SCORE_FAILED)
    alone = ScoredStep("col", "run", 1, (missing,))
    assert parts([alone], SelectOptions()) == {"col/run/1": [(DROPPED, NO_SCORE, 0)]}


def test_first_attempts_of_rl_are_not_all_refused() -> None:
    """Steps that vary were refused at first; SFT lends acceptances and keeps as many as its refusals."""
    refused = [Candidate(f"r{number}", RL, 1, False) for number in range(6)]
    again = [Candidate(f"s{number}", RL, 2, bool(number % 2)) for number in range(6)]
    copied = [Candidate(f"a{number}", SFT, 1, number >= 4) for number in range(20)]
    lent = move_acceptances_to_rl(refused + again + copied, seed=0)
    parts = Counter((each.part, each.iteration, each.accepted) for each in lent)
    assert parts[RL, 1, True] == parts[RL, 1, False] == 6
    assert parts[SFT, 1, True] == 10
    assert parts[RL, 2, True] == parts[RL, 2, False] == 3
    spared = move_acceptances_to_rl(
        refused + [Candidate(f"o{number}", SFT, 1, True) for number in range(5)], seed=0
    )
    assert Counter(each.part for each in spared) == {RL: 6 + 2, SFT: 3}, "never the larger half"
    mixed = again + [Candidate(f"t{number}", SFT, 2, True) for number in range(9)]
    assert move_acceptances_to_rl(mixed, seed=0) == mixed, "where RL knows both there is nothing to lend"
    poor = move_acceptances_to_rl(refused + copied[:10], seed=0)
    assert Counter((each.part, each.accepted) for each in poor) == {
        (RL, False): 6,
        (RL, True): 2,
        (SFT, True): 4,
        (SFT, False): 4,
    }


def test_selection_lends_first_acceptances_to_rl() -> None:
    steps = [step(f"varied-{number}", 2.0, 9.0, accepted=(False, True)) for number in range(3)]
    steps += [step(f"good-{number}", 9.0) for number in range(9)]
    options = SelectOptions(ThresholdOptions(variance=1.0))
    choices = choose(steps, thresholds_for(steps, options.thresholds), options)
    first = Counter(
        (choices[step_key(each)][0].part, each.attempts[0].accepted)
        for each in steps
        for _ in range(choices[step_key(each)][0].copies)
    )
    assert first[RL, False] == first[RL, True] == 3
