"""The checks of vision-language models."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from PIL import Image

from interleave import (
    BackendError,
    ImagePart,
    Message,
    Reply,
    Sampling,
    Slot,
    Text,
    VisionLanguageModel,
    VlmCapabilities,
)
from interleave.diagnostics.contract.checks import (
    AWAY,
    MAX_CONCURRENT_CALLS,
    PROMPTS,
    Check,
    Known,
    NotApplicable,
    check_limits,
    ends_when_cancelled,
    must,
    refusal_allowed,
)
from interleave.plugin import RetriedVlm

SYSTEM = Message("system", (Text("Be brief."),))
ASKED = Text("How a frog grows up, in three pictures")
TEXT_QUESTION = (SYSTEM, Message("user", (ASKED,)))
IMAGE_QUESTION = (
    SYSTEM,
    Message("user", (ASKED, ImagePart(Image.new("RGB", (256, 256), "green")))),
)
CONCURRENT_CALLS = 4


async def implements_interface(vlm: VisionLanguageModel, known: Known) -> None:
    must(isinstance(vlm, VisionLanguageModel), "it has no 'capabilities' or no 'complete'")
    must(isinstance(vlm.capabilities, VlmCapabilities), f"its capabilities are a {type(vlm.capabilities)}")


async def answers_text(vlm: VisionLanguageModel, known: Known) -> None:
    must(bool((await ask(vlm, known, *TEXT_QUESTION)).text), "the reply is empty")


async def reply_has_text_and_finish_reason(vlm: VisionLanguageModel, known: Known) -> None:
    reply = await ask(vlm, known)
    must(isinstance(reply, Reply), f"it returned a {type(reply).__name__}, not a Reply")
    must(bool(reply.text.strip()), "the reply is empty")
    must(reply.finish_reason == "stop", f"the reply ended with {reply.finish_reason!r}, not 'stop'")


async def greedy_replies_are_reproducible(vlm: VisionLanguageModel, known: Known) -> None:
    only_repeatable(vlm, known)
    must((await ask(vlm, known)).text == (await ask(vlm, known)).text, "equal prompts got different replies")


async def reports_cost(vlm: VisionLanguageModel, known: Known) -> None:
    reply = await ask(vlm, known)
    promised, given = vlm.capabilities.knows_its_price, reply.cost is not None
    must(promised or not given, "its knows_its_price is false, but the reply has a cost")
    must(given or not promised, "its knows_its_price is true, but the reply has no cost")
    must(reply.cost is None or reply.cost >= 0, f"the cost is {reply.cost}")


async def token_probabilities_spell_the_reply(vlm: VisionLanguageModel, known: Known) -> None:
    if not vlm.capabilities.token_probabilities:
        raise NotApplicable("it does not return token probabilities")
    reply = await vlm.complete(
        question(known), Sampling(token_probabilities=True, slot=Slot(step=1, attempt=1))
    )
    must(bool(reply.tokens), "its token_probabilities is true, but the reply has none")
    spelled = "".join(token.text for token in reply.tokens)
    must(spelled == reply.text, f"its tokens spell {spelled[:80]!r}, but its reply is {reply.text[:80]!r}")
    must(all(0 <= token.probability <= 1 for token in reply.tokens), "a probability is not between 0 and 1")


async def keeps_token_limit(vlm: VisionLanguageModel, known: Known) -> None:
    reply = await vlm.complete(question(known), Sampling(max_tokens=64, slot=Slot(step=1, attempt=1)))
    written = reply.usage.get("completion_tokens")
    if written is None:
        raise NotApplicable("it does not report its tokens")
    must(written <= 64, f"the limit was 64 tokens, and the reply has {written}")


async def accepts_prompt(vlm: VisionLanguageModel, known: Known, *, name: str) -> None:
    with refusal_allowed(name):
        reply = await ask(vlm, known, Message("user", (Text(PROMPTS[name]),)))
    must(bool(reply.text), "the reply is empty")


async def answers_image(vlm: VisionLanguageModel, known: Known) -> None:
    await must_read(vlm, known, *IMAGE_QUESTION)


async def answers_images_without_text(vlm: VisionLanguageModel, known: Known) -> None:
    images = tuple(ImagePart(Image.new("RGB", (256, 256), colour)) for colour in ("red", "green", "blue"))
    await must_read(vlm, known, Message("user", images))


async def answers_conversation(vlm: VisionLanguageModel, known: Known) -> None:
    earlier = (Message("assistant", (Text("No."),)), Message("user", (Text("Try again."),)))
    must(bool((await ask(vlm, known, *question(known), *earlier)).text), "the reply is empty")


async def concurrent_replies_match(vlm: VisionLanguageModel, known: Known) -> None:
    questions = [Message("user", (Text(f"Say the number {number}."),)) for number in range(CONCURRENT_CALLS)]
    together = await asyncio.gather(*(ask(vlm, known, question) for question in questions))
    must(all(reply.text for reply in together), "a reply is empty")
    only_repeatable(vlm, known)
    one_by_one = [await ask(vlm, known, question) for question in questions]
    must(
        [reply.text for reply in together] == [reply.text for reply in one_by_one],
        "concurrent calls got different replies, or each other's",
    )


async def cancelled_call_ends(vlm: VisionLanguageModel, known: Known) -> None:
    before = await ask(vlm, known)
    await ends_when_cancelled(ask(vlm, known))
    after = await ask(vlm, known)
    only_repeatable(vlm, known)
    must(before.text == after.text, "after a cancelled call, an equal prompt got a different reply")


async def keeps_limits(vlm: VisionLanguageModel, known: Known) -> None:
    check_limits(vlm.capabilities, known)
    counted = _Counted(vlm)
    limited = RetriedVlm("it", counted)
    calls = min(vlm.capabilities.concurrency or 0, MAX_CONCURRENT_CALLS) + 1
    await asyncio.gather(*(ask(limited, known) for _ in range(calls)))
    must(
        counted.most <= (vlm.capabilities.concurrency or calls),
        f"{counted.most} calls were in flight, above its concurrency {vlm.capabilities.concurrency}",
    )


class _Counted:
    """Counts the calls in flight to a model."""

    def __init__(self, vlm: VisionLanguageModel) -> None:
        self.vlm = vlm
        self.capabilities = vlm.capabilities
        self.most = self._in_flight = 0

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        self._in_flight += 1
        self.most = max(self.most, self._in_flight)
        try:
            return await self.vlm.complete(messages, sampling)
        finally:
            self._in_flight -= 1


async def must_read(vlm: VisionLanguageModel, known: Known, *messages: Message) -> None:
    """Fail unless the model answers messages with images; a planner may read text alone."""
    try:
        reply = await ask(vlm, known, *messages)
    except BackendError as error:
        if known.role != "planner" or error.kind in AWAY:
            raise
        raise NotApplicable(
            f"it reads no images, so it plans only requests without images: {error}"
        ) from error
    must(bool(reply.text), "the reply is empty")


def question(known: Known) -> tuple[Message, ...]:
    """Return a text prompt for a planner, which may read text alone, and one with an image for others."""
    return TEXT_QUESTION if known.role == "planner" else IMAGE_QUESTION


async def ask(vlm: VisionLanguageModel, known: Known, *messages: Message) -> Reply:
    return await vlm.complete(messages or question(known), Sampling(slot=Slot(step=1, attempt=1)))


def only_repeatable(vlm: VisionLanguageModel, known: Known) -> None:
    repeatable = vlm.capabilities.repeatable if known.repeatable is None else known.repeatable
    if not repeatable:
        raise NotApplicable("its replies are not reproducible, so they cannot be compared")


VLM_CHECKS = (
    Check("implements the model interface", implements_interface),
    Check("answers text alone", answers_text),
    Check("a reply has text and a finish reason", reply_has_text_and_finish_reason),
    Check("greedy replies are reproducible", greedy_replies_are_reproducible),
    Check("reports a cost if knows_its_price is true", reports_cost),
    Check("token probabilities spell the reply", token_probabilities_spell_the_reply),
    Check("keeps the token limit", keeps_token_limit),
    Check("keeps the concurrency and timeout of its spec", keeps_limits),
    Check("answers text with an image", answers_image),
    Check("answers images without text", answers_images_without_text),
    Check("answers a conversation with earlier replies", answers_conversation),
    Check(
        "concurrent calls give the same replies as sequential calls",
        concurrent_replies_match,
        thorough=True,
    ),
    Check("a cancelled call ends without side effects", cancelled_call_ends),
    *(
        Check(f"accepts any prompt: {name}", partial(accepts_prompt, name=name), thorough=True)
        for name in PROMPTS
    ),
)
