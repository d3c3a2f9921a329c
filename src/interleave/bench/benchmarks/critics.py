"""Shared code of critic benchmarks: asking our critic as in a run, and scoring its verdicts on pairs.

A critic is asked in one of two ways. Either as in the benchmark: a judge sees both images, or gives marks. Or
as the critic of the loop: about each image alone, with the same input, prompts and parser as in a run. Then
the image with the higher acceptance probability is the better one, or the accepted one if the backend gives
no probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from interleave import ConfigurationError, InputError, Reply, Verdict
from interleave.bench.base import Context, Dataset, Judge, JudgeRecord, Policy, Question, Status, Unparsed
from interleave.bench.numbers import Number, Table
from interleave.bench.prompts import Constant, JudgePrompts
from interleave.plugin import PromptPack, agents, critic_input, critic_messages, load_pack, read_verdict

if TYPE_CHECKING:
    from PIL.Image import Image

CRITIC = "critic"
WRONG = "wrong"
"""The value that `--missing zero` gives a question without one. It makes every dependent pair wrong."""
OUR_CRITIC = Judge("Qwen3-VL-8B-Instruct", "transformers:Qwen/Qwen3-VL-8B-Instruct")
"""The default judge: the model that the paper's critic is trained from."""

MEASURES = (
    "right",
    "tied",
    "pairs",
    "chosen_accepted",
    "chosen",
    "rejected_accepted",
    "rejected",
    "margin",
    "margins",
)


class LoopCriticMixin:
    """Mixin for benchmarks that ask a critic as the loop does. It precedes the benchmark's class.

    Upstream does not ask in this way, so it has no official prompts, failures or judgements.
    """

    name: ClassVar[str]
    official_prompts: ClassVar[Mapping[str, Constant]] = {}

    def words(self, pack: str | None) -> JudgePrompts:
        """Return the critic's prompt of a pack as judge prompts."""
        loaded = load_pack(pack or agents.DEFAULT_PACK)
        return JudgePrompts(f"pack-{loaded.name}", {CRITIC: loaded.texts[CRITIC]})

    def official(self, measure: str, key: str, status: Status) -> Policy:
        return "drop"

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        raise ConfigurationError(f"benchmark {self.name!r} has no judgements to import")


@contextmanager
def showing() -> Iterator[None]:
    """Convert errors of unreadable images to `Unparsed`.

    One damaged image of thousands leaves one question without an answer and does not stop the others.
    """
    try:
        yield
    except InputError as error:
        raise Unparsed(f"cannot show the image to judge: {error}") from None


def critic_question(prompt: str, sources: Sequence[Image], image: Image, context: Context) -> Question:
    """Return the question that a run asks its critic about a first attempt.

    The first readable verdict counts. A run would ask again for a better prompt if a rejection has none.
    """
    pack = PromptPack(
        agents.PackDescription(name=context.prompts.label, version="1"), context.prompts.templates
    )
    seen = critic_input(prompt, prompt, tuple(sources), image)
    return Question(
        critic_messages(seen, pack),
        lambda text: verdict_value(read_verdict(Reply(text))),
        agents.critic_sampling(),
        lambda reply: verdict_value(read_verdict(reply)),
    )


def verdict_value(verdict: Verdict) -> dict[str, Any]:
    """Convert a verdict to a record's value."""
    return {"accepted": verdict.accepted, "confidence": verdict.confidence}


def scores_of(verdicts: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return comparable scores: probabilities if all have one, else 1 for accepted and 0 for rejected."""
    known = [verdict["confidence"] for verdict in verdicts]
    if all(confidence is not None for confidence in known):
        return [float(confidence) for confidence in known]
    return [float(verdict["accepted"]) for verdict in verdicts]


def pair_measures(pairs: Sequence[tuple[Any, Any]]) -> dict[str, float | None]:
    """Return the contributions of an item's pairs, from verdicts on the chosen and the rejected image.

    `None` is an answer that is left out, `WRONG` one that counts as wrong.
    """
    counts = dict.fromkeys(MEASURES, 0.0)
    for chosen, rejected in pairs:
        if chosen is not None:
            counts["chosen"] += 1
            counts["chosen_accepted"] += chosen != WRONG and chosen["accepted"]
        if rejected is not None:
            counts["rejected"] += 1
            counts["rejected_accepted"] += rejected == WRONG or rejected["accepted"]
        if chosen is None or rejected is None:
            continue
        counts["pairs"] += 1
        if WRONG in (chosen, rejected):
            continue
        better, worse = scores_of([chosen, rejected])
        counts["right"] += better > worse
        counts["tied"] += better == worse
        if chosen["confidence"] is not None and rejected["confidence"] is not None:
            counts["margins"] += 1
            counts["margin"] += better - worse
    if not counts["chosen"] and not counts["rejected"]:
        return dict.fromkeys(MEASURES)
    return {name: float(value) for name, value in counts.items()}


def ratio(name: str, top: str, bottom: str, *, scale: float = 100, digits: int = 1) -> Number:
    """Define the ratio of the sums of two measures."""
    return Number(name, lambda table: _ratio(table, top, bottom), scale, digits, (top, bottom))


def group_ratio(name: str, top: str, bottom: str, *, groups: Sequence[str] = ()) -> Number:
    """Define the mean of such ratios over groups, or over the named groups."""

    def aggregate(table: Table) -> float:
        tops, bottoms = _group_sums(table, top), _group_sums(table, bottom)
        rates = [
            tops[group] / bottoms[group]
            for group in table.names
            if bottoms[group] and (not groups or group in groups)
        ]
        return sum(rates) / len(rates) if rates else float("nan")

    return Number(name, aggregate, 100, 1, (top, bottom))


def critic_numbers() -> list[Number]:
    """Return the numbers of a binary critic on pairs, with those of one that accepts everything."""

    def verdicts(table: Table) -> float:
        right = sums(table, "chosen_accepted") + sums(table, "rejected") - sums(table, "rejected_accepted")
        return _divided(right, sums(table, "chosen") + sums(table, "rejected"))

    def always(table: Table) -> float:
        return _divided(sums(table, "chosen"), sums(table, "chosen") + sums(table, "rejected"))

    def half(table: Table) -> float:
        return _divided(sums(table, "right") + sums(table, "tied") / 2, sums(table, "pairs"))

    used = ("chosen_accepted", "rejected_accepted", "chosen", "rejected")
    return [
        ratio("pair_acc", "right", "pairs"),
        Number("pair_acc_half_ties", half, 100, 1, ("right", "tied", "pairs")),
        ratio("accepts_chosen", "chosen_accepted", "chosen"),
        ratio("accepts_rejected", "rejected_accepted", "rejected"),
        Number("verdict_acc", verdicts, 100, 1, used),
        Number("verdict_acc_of_always_true", always, 100, 1, used),
        ratio("margin", "margin", "margins", scale=1, digits=3),
    ]


def sums(table: Table, measure: str) -> float:
    import numpy as np

    return float(np.nansum(table.columns[measure]))


def _ratio(table: Table, top: str, bottom: str) -> float:
    return _divided(sums(table, top), sums(table, bottom))


def _divided(top: float, bottom: float) -> float:
    return top / bottom if bottom else float("nan")


def _group_sums(table: Table, measure: str) -> dict[str, float]:
    import numpy as np

    column = np.nan_to_num(table.columns[measure])
    return dict(zip(table.names, np.bincount(table.groups, column, len(table.names)).tolist(), strict=True))
