"""Strict format check of a critic's reply, for a reward. `replies.py` parses leniently."""

from __future__ import annotations

import json
import re

from interleave.agents.literals import MAX_CHARACTERS, read_literal
from interleave.agents.prompts import AnswerForm
from interleave.agents.replies import JUDGEMENT_KEYS, REFINEMENT_KEYS
from interleave.text import MAX_FIELD_CHARACTERS, unusable

_TAG = re.compile(r"<\s*+(?:/\s*+)?(?:think|answer)\b", re.IGNORECASE)
_KEYS = (JUDGEMENT_KEYS[0], REFINEMENT_KEYS[0])


def is_strict_verdict(reply: str, answers: AnswerForm = "json") -> bool:
    """Return whether a critic's reply is exactly in the required format.

    That is thinking, then an answer with one object of a judgement and a prompt, in JSON or, if the prompts
    ask for it, as a Python literal. Nothing may be before, between or after them, and nothing missing,
    duplicated or of another type.
    """
    if len(reply) > MAX_CHARACTERS or unusable(reply):
        return False
    thinking, answer = _split_tags(reply.strip())
    if answer is None or _TAG.search(thinking, 0, max(thinking.rfind(">"), 0)):  # a tag ends with ">"
        return False
    try:
        if answers == "python":
            value = read_literal(answer)
            return _is_verdict(list(value.items()) if isinstance(value, dict) else value)
        return _is_verdict(json.loads(answer, object_pairs_hook=list, parse_constant=_no_constant))
    except (ValueError, RecursionError):
        return False


def _split_tags(reply: str) -> tuple[str, str | None]:
    """Return the thinking and the answer. The answer is `None` if the reply is not these two parts in order.

    The reply is split by tags, because a regular expression would backtrack over all pairs of tags.
    """
    before, _, rest = reply.partition("<think>")
    thinking, closed, said = rest.partition("</think>")
    answer = said.lstrip()
    whole = not before and closed and answer.startswith("<answer>") and answer.endswith("</answer>")
    return thinking, answer.removeprefix("<answer>").removesuffix("</answer>") if whole else None


def _is_verdict(pairs: object) -> bool:
    """Return whether these are the pairs of one object: each key once, with a value of its type."""
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        return False
    if sorted(key for key, _ in pairs) != sorted(_KEYS):
        return False
    values = dict(pairs)
    judgement, refined = values[_KEYS[0]], values[_KEYS[1]]
    if not isinstance(judgement, bool) or not isinstance(refined, str):
        return False
    # otherwise the pipeline could not use the prompt
    return len(refined) <= MAX_FIELD_CHARACTERS and not unusable(refined)


def _no_constant(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")
