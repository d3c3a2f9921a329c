"""The format reward: is this reply exactly in the agreed form?

In use a reply is read with patience (`agents/replies.py`). Training rewards nothing but the form itself:
thinking, then an answer, and in it one JSON object with a judgement and a prompt. Nothing may stand before,
between or after; nothing may be left out, doubled or of another type.
"""

from __future__ import annotations

import json
import re

from interleave.agents.literals import MAX_CHARACTERS
from interleave.agents.replies import JUDGEMENT_KEYS, REFINEMENT_KEYS
from interleave.text import MAX_FIELD_CHARACTERS, unusable

_TAG = re.compile(r"<\s*+(?:/\s*+)?(?:think|answer)\b", re.IGNORECASE)
_KEYS = (JUDGEMENT_KEYS[0], REFINEMENT_KEYS[0])


def is_strict(completion: str) -> bool:
    """Whether a critic's reply is in the agreed form, to the letter."""
    if len(completion) > MAX_CHARACTERS or unusable(completion):
        return False
    thinking, answer = _parts(completion.strip())
    if answer is None or _TAG.search(thinking, 0, max(thinking.rfind(">"), 0)):  # a tag is closed by a ">"
        return False
    try:
        pairs = json.loads(answer, object_pairs_hook=list, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return _is_verdict(pairs)


def _parts(completion: str) -> tuple[str, str | None]:
    """The thinking and the answer; without one where they are not the two parts of the reply, in order.

    Found by their ends instead of by one expression, which would try every end with every other.
    """
    before, _, rest = completion.partition("<think>")
    thinking, closed, said = rest.partition("</think>")
    answer = said.lstrip()
    whole = not before and closed and answer.startswith("<answer>") and answer.endswith("</answer>")
    return thinking, answer.removeprefix("<answer>").removesuffix("</answer>") if whole else None


def _is_verdict(pairs: object) -> bool:
    """Whether these are the pairs of one object: each key once, with a value of its type."""
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        return False
    if sorted(key for key, _ in pairs) != sorted(_KEYS):
        return False
    values = dict(pairs)
    judgement, refined = values[_KEYS[0]], values[_KEYS[1]]
    if not isinstance(judgement, bool) or not isinstance(refined, str):
        return False
    return len(refined) <= MAX_FIELD_CHARACTERS and not unusable(refined)  # else the loop could not use it


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")
