"""Agreement of a scorer with people: on pairs of attempts, and in the ranking of single attempts.

Scores are read from files that `data score` wrote. Agreement of a benchmark's judge with published human
verdicts is measured by the benchmarks of critics, such as `opening-pairs` and `viescore`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from interleave import InputError, Scores
from interleave.bench.labels import Kind, Label, Preferred, Subject, of_kind
from interleave.bench.statistics import spearman, tie_accuracy, wilson
from interleave.plugin import Value
from interleave.train.data.score_file import AttemptKey, read_scores


class JudgeAgreement(Value):
    """Agreement with `better` and `score` labels; `None` for a kind without labels."""

    judge: str
    pairs: int
    pair_accuracy: float | None
    """Over the pairs that people did not call equal."""
    low: float | None
    high: float | None
    with_ties: float | None
    """Over all pairs. Scores that differ by at most `epsilon` count as equal."""
    epsilon: float | None
    scored: int
    rank_correlation: float | None
    """Spearman's, with the mean of the raters' scores."""

    @property
    def lines(self) -> list[str]:
        """The figures as sentences."""
        said = []
        if self.pair_accuracy is not None:
            said.append(
                f"{self.judge} agrees on {self.pair_accuracy:.1%} ({self.low:.1%} to {self.high:.1%}) of the "
                f"pairs that people did not call equal, and on {self.with_ties:.1%} of all {self.pairs:,}"
            )
        if self.rank_correlation is not None:
            said.append(
                f"rank correlation {self.rank_correlation:.3f} with the raters' scores of "
                f"{self.scored:,} attempts"
            )
        return said


def judge_agreement(judge: str, labels: Sequence[Label], collections: Sequence[Path]) -> JudgeAgreement:
    """Compare a scorer of collections with labels of their attempts."""
    scores: dict[AttemptKey, float] = {}
    for collection in collections:
        found = read_scores(collection, judge)
        for key, score in found.items():
            if isinstance(score, Scores):
                scores[key] = scores[str(collection / key[0]), key[1], key[2]] = score.overall
    pairs = [
        (label, scores[first], scores[second])
        for label in of_kind(labels, Kind.BETTER)
        if (first := _key(label)) in scores
        and label.other is not None
        and (second := _key(label.other)) in scores
    ]
    rated: dict[AttemptKey, list[float]] = {}
    for label in of_kind(labels, Kind.SCORE):
        if label.attempt is not None and _key(label) in scores:
            rated.setdefault(_key(label), []).append(float(label.value))
    if not pairs and not rated:
        raise InputError(
            f"no 'better' or 'score' label matches an attempt that {judge!r} scored in "
            f"{', '.join(map(str, collections))}"
        )
    ranks = spearman([sum(each) / len(each) for each in rated.values()], [scores[key] for key in rated])
    return JudgeAgreement(
        judge=judge,
        pairs=len(pairs),
        **_pair_figures(pairs),
        scored=len(rated),
        rank_correlation=None if math.isnan(ranks) else ranks,
    )


def _pair_figures(pairs: Sequence[tuple[Label, float, float]]) -> dict[str, float | None]:
    names = ("pair_accuracy", "low", "high", "with_ties", "epsilon")
    signs = {Preferred.FIRST: 1.0, Preferred.SECOND: -1.0, Preferred.SAME: 0.0}
    humans = [signs[Preferred(str(label.value))] for label, _, _ in pairs]
    if not any(humans):
        return dict.fromkeys(names)
    found = tie_accuracy(humans, [first for _, first, _ in pairs], [second for _, _, second in pairs])
    low, high = wilson(found.without_ties, sum(map(bool, humans)))
    return dict(zip(names, (found.without_ties, low, high, found.with_ties, found.epsilon), strict=True))


def _key(subject: Subject) -> AttemptKey:
    return subject.run, subject.step or 0, subject.attempt or 0
