"""Asking a model until its answer can be read: a bad reply is told what was wrong, at most three times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from interleave.agents.prompts import PromptPack
from interleave.backends.protocols import Message, Reply, Sampling, VisionLanguageModel
from interleave.errors import BackendError, Failure, ReplyError
from interleave.text import storable
from interleave.types import Text

T = TypeVar("T")

REASKS = 3
QUOTED_CHARACTERS = 1500
"""How much of its bad reply a model is shown again."""


async def ask(
    vlm: VisionLanguageModel,
    messages: Sequence[Message],
    read: Callable[[Reply], T],
    *,
    sampling: Sampling,
    pack: PromptPack,
) -> T:
    """The value that `read` finds in the model's reply; raises the last `ReplyError` when it never does."""
    asked, unread = tuple(messages), None
    for reasks_left in range(REASKS, -1, -1):
        try:
            reply = await vlm.complete(asked, sampling)
        except BackendError as error:
            if unread is None or error.kind is not Failure.INVALID:
                raise
            raise unread from None  # with the complaint, the question is more than the model can take
        try:
            return read(reply)
        except ReplyError as error:
            if not reasks_left or reply.finish_reason == "content_filter":
                raise  # a filter does not listen to complaints
            unread = error
            asked = (*messages, *_complaint(reply, error, pack))
    raise AssertionError("unreachable: the last ask returns or raises")


def _complaint(reply: Reply, error: ReplyError, pack: PromptPack) -> tuple[Message, ...]:
    complaint = pack.messages("reask", {"problem": error.problem})
    quoted = storable(reply.text[:QUOTED_CHARACTERS]).strip()
    if not quoted:  # some servers refuse an empty turn
        return complaint
    return (Message("assistant", (Text(quoted),)), *complaint)
