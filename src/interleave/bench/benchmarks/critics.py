"""What benchmarks of critics share: our critic asked as it runs, and what its verdicts on pairs come to.

A critic is asked in one of two ways. The benchmark's own: a judge sees both images, or gives marks. Or as
the critic of the loop, about each image alone, through the same input, words and parser as in a run; the
image with the higher probability of "this is right" is the better one, and where a backend gives no
probabilities, the one that is accepted.
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
"""What `--missing zero` gives a question without a value: it makes every pair that needs it wrong."""
OUR_CRITIC = Judge("Qwen3-VL-8B-Instruct", "transformers:Qwen/Qwen3-VL-8B-Instruct")
"""Who is asked where no --judge is given: the model that the paper's critic is trained from."""

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


class AskedAsInARun:
    """What benchmarks have in common that ask a critic as the loop does: goes before the benchmark's class.

    Upstream does not ask in this way, so there are no official prompts, failures or judgements of it.
    """

    name: ClassVar[str]
    official_prompts: ClassVar[Mapping[str, Constant]] = {}

    def words(self, pack: str | None) -> JudgePrompts:
        """The critic's prompt of a pack, as the words of a judge."""
        loaded = load_pack(pack or agents.DEFAULT_PACK)
        return JudgePrompts(f"pack-{loaded.name}", {CRITIC: loaded.texts[CRITIC]})

    def official(self, measure: str, key: str, status: Status) -> Policy:
        return "drop"

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        raise ConfigurationError(f"{self.name} has no judgements to import")


@contextmanager
def showing() -> Iterator[None]:
    """Within it, an image that cannot be read raises `Unparsed`.

    One damaged image of thousands is a question without an answer, not the end of all others.
    """
    try:
        yield
    except InputError as error:
        raise Unparsed(f"what is to be judged cannot be shown: {error}") from None


def critic_question(prompt: str, sources: Sequence[Image], image: Image, context: Context) -> Question:
    """The question that a run asks its critic about a first attempt.

    The first verdict that can be read counts: a run would ask again for a better prompt where a rejection
    has none.
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
    """A verdict as a record holds it."""
    return {"accepted": verdict.accepted, "confidence": verdict.confidence}


def scores_of(verdicts: Sequence[Mapping[str, Any]]) -> list[float]:
    """Scores that can be compared: the probabilities where all have one, else one for accepted, or none."""
    known = [verdict["confidence"] for verdict in verdicts]
    if all(confidence is not None for confidence in known):
        return [float(confidence) for confidence in known]
    return [float(verdict["accepted"]) for verdict in verdicts]


def pair_measures(pairs: Sequence[tuple[Any, Any]]) -> dict[str, float | None]:
    """What the pairs of an item contribute: verdicts on the chosen and on the rejected image.

    None stands for an answer that is left out, `WRONG` for one that counts as wrong.
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
    """The sum of one measure by the sum of another."""
    return Number(name, lambda table: _ratio(table, top, bottom), scale, digits, (top, bottom))


def group_ratio(name: str, top: str, bottom: str, *, groups: Sequence[str] = ()) -> Number:
    """The mean over groups of such ratios; over these alone where some are named."""

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
    """The numbers of a binary critic on pairs, with what one would have that accepts everything."""

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
