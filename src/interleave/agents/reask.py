"""Prompting a model until its reply can be parsed: it is told what was wrong, at most three times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from interleave.agents.prompts import PromptPack
from interleave.backends.protocols import Message, Reply, Sampling, VisionLanguageModel
from interleave.errors import BackendError, Failure, ReplyError
from interleave.text import storable
from interleave.types import Text

T = TypeVar("T")

REASKS = 3
QUOTED_CHARACTERS = 1500
"""How much of its bad reply a model sees again."""


async def ask(
    vlm: VisionLanguageModel,
    messages: Sequence[Message],
    read: Callable[[Reply], T],
    *,
    sampling: Sampling,
    pack: PromptPack,
) -> T:
    """The value that `read` parses from a reply; raises the last `ReplyError` when it never succeeds."""
    asked, unread, first = tuple(messages), None, sampling
    for reasks_left in range(REASKS, -1, -1):
        try:
            reply = await vlm.complete(asked, sampling)
        except BackendError as error:
            if unread is None or error.kind is not Failure.INVALID:
                raise
            raise unread from None  # with the complaint, the prompt is longer than the model accepts
        try:
            return read(reply)
        except ReplyError as error:
            error.advice = _advice(vlm, reply)
            if not reasks_left or reply.finish_reason == "content_filter":
                raise  # a content filter does not change its mind
            unread, sampling = error, replace(first, reask=True)
            asked = (*messages, *_complaint(reply, error, pack))
    raise AssertionError("unreachable: the last ask returns or raises")


def _advice(vlm: VisionLanguageModel, reply: Reply) -> str:
    """What the person can change in the spec of a model whose replies cannot be read."""
    options = vlm.capabilities.reply_options
    if reply.finish_reason == "length" and "max_tokens" in options:
        return "Longer replies are allowed with ?max_tokens=16384 in the spec of the model"
    if reply.finish_reason != "content_filter" and "json_schema" in options:
        return "If its server can hold it to a JSON schema, say ?json_schema=true in the spec of the model"
    return ""


def _complaint(reply: Reply, error: ReplyError, pack: PromptPack) -> tuple[Message, ...]:
    complaint = pack.messages("reask", {"problem": error.problem})
    quoted = storable(reply.text[:QUOTED_CHARACTERS]).strip()
    if not quoted:  # some servers refuse an empty message
        return complaint
    return (Message("assistant", (Text(quoted),)), *complaint)
