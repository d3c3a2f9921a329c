"""VIEScore's two questions, shared by the benchmarks that use them.

SC (semantic consistency): does the image follow the instruction? PQ (perceptual quality): does the image,
seen alone, look natural and free of artefacts? Each reply holds a list of scores from 0 to 10, of which the
lowest counts. The overall score of an image is sqrt(SC × PQ).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interleave import ImagePart, Message, Sampling, Text
from interleave.bench.base import Question, Unparsed
from interleave.bench.parsing import json_object, number_of, without_thoughts
from interleave.bench.prompts import Constant, JudgePrompts

if TYPE_CHECKING:
    from PIL.Image import Image

SC, PQ = "sc", "pq"
KEYS = (SC, PQ)
HIGHEST = 10
PQ_SCORES = 2
"""Naturalness and artefacts."""
SAMPLING = Sampling(max_tokens=1400)
MARK = "||V^=^V||"
"""Delimiters of some replies."""

RULES = {
    "t2i": "one_image_gen_rule",
    "tie": "two_image_edit_rule",
    "mie": "two_image_edit_rule",
    "cig": "control_image_gen_rule",
    "sdig": "subject_image_gen_rule",
    "msdig": "multi_subject_image_gen_rule",
    "sdie": "subject_image_edit_rule",
}
"""The tasks, and the rules about the images of each that a judge is told, by upstream's names."""
SC_SCORES = {"t2i": 1, "tie": 2, "mie": 2, "cig": 2, "sdig": 2, "msdig": 3, "sdie": 2}

_BARE_LIST = re.compile(r"\[[^\[\]]*\]")
_UNQUOTED = re.compile(r"""["']?\bscore["']?\s*[:=]\s*(\[[^\[\]]*\]|-?\d+(?:\.\d+)?)""", re.IGNORECASE)


def official_places(file: str, tasks: Sequence[str] = tuple(RULES)) -> dict[str, Constant]:
    """Return the locations of the templates in a copy of VIEScore's prompts."""

    def constant(name: str) -> Constant:
        gaps = {f"<{gap}>": "asked" for gap in ("prompt", "instruction", "subject")}
        return Constant(file, name, gaps)

    places = {"context": constant("_context_no_delimit"), PQ: constant("_prompts_0shot_rule_PQ")}
    for task in tasks:
        places[f"rule_{task}"] = constant(f"_prompts_0shot_{RULES[task]}")
        places[f"{SC}_{task}"] = constant(f"_prompts_0shot_{task}_rule_SC")
    return places


def sc_question(prompts: JudgePrompts, task: str, asked: str, images: Sequence[Image]) -> Question:
    """Ask whether the last image follows the instruction."""
    words = [
        prompts.templates["context"],
        prompts.templates[f"rule_{task}"],
        prompts.fill(f"{SC}_{task}", asked=asked),
    ]
    return _question(words, images, SC_SCORES[task])


def pq_question(prompts: JudgePrompts, image: Image) -> Question:
    """Ask about the quality of an image alone."""
    return _question([prompts.templates["context"], prompts.templates[PQ]], [image], PQ_SCORES)


def _question(words: Sequence[str], images: Sequence[Image], count: int) -> Question:
    said = "\n".join(part.strip("\n") for part in words)
    message = Message("user", (Text(said), *map(ImagePart, images)))
    return Question((message,), lambda reply: read_scores(reply, count), SAMPLING)


def read_scores(reply: str, count: int) -> list[float]:
    """Return a reply's scores from 0 to 10. Raises `Unparsed` for other values, or another count.

    Tries JSON (between delimiters, in a fence or in braces), JSON without quotes, a list alone, then a number
    alone. For any other reply upstream picks a random score; this function never does.
    """
    reply = without_thoughts(reply)
    if reply.count(MARK) == 2:
        reply = reply.split(MARK)[1]
    scores = scores_of(_given(reply.strip()))
    if len(scores) != count:
        raise Unparsed(f"the reply has {len(scores)} scores, not {count}")
    return scores


def _given(reply: str) -> Any:
    if "{" in reply:
        try:
            found = json_object(reply)
        except Unparsed:
            return _one(_UNQUOTED.findall(reply))
        if "score" not in found:
            raise Unparsed("the reply has no 'score'")
        return found["score"]
    if lists := _BARE_LIST.findall(reply):
        return _one(lists)
    return reply


def _one(texts: Sequence[str]) -> Any:
    """Return the value of texts that all agree."""
    values: list[Any] = []
    for text in texts:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise Unparsed(f"{text[:40]!r} is not a score") from None
        if value not in values:
            values.append(value)
    if len(values) != 1:
        raise Unparsed("the reply has several scores" if values else "the reply has no score")
    return values[0]


def scores_of(value: Any) -> list[float]:
    """Return a list of scores, or a single one, each from 0 to 10."""
    given = value if isinstance(value, list) else [value]
    if not given:
        raise Unparsed("the list of scores is empty")
    return [number_of(each, low=0, high=HIGHEST) for each in given]


def lowest(value: Sequence[float] | None) -> float | None:
    """Return the lowest score, which counts for the reply."""
    return None if value is None else min(value)


def overall(sc: float | None, pq: float | None) -> float | None:
    """Return the geometric mean of both scores."""
    return None if sc is None or pq is None else math.sqrt(sc * pq)


def three_scores(sc: Sequence[float] | None, pq: Sequence[float] | None) -> Mapping[str, float | None]:
    """Return SC, PQ and O of an image; all `None` if one reply is missing, as in upstream."""
    low_sc, low_pq = lowest(sc), lowest(pq)
    if low_sc is None or low_pq is None:
        return {"SC": None, "PQ": None, "O": None}
    return {"SC": low_sc, "PQ": low_pq, "O": overall(low_sc, low_pq)}
