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
    MAX_CALLS_AT_ONCE,
    PROMPTS,
    Check,
    Known,
    NotPromised,
    ends_when_cancelled,
    limits_said,
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
AT_ONCE = 4


async def it_is_a_model(vlm: VisionLanguageModel, known: Known) -> None:
    must(isinstance(vlm, VisionLanguageModel), "it has no 'capabilities' or no 'complete'")
    must(isinstance(vlm.capabilities, VlmCapabilities), f"its capabilities are a {type(vlm.capabilities)}")


async def a_question_in_text_alone_is_answered(vlm: VisionLanguageModel, known: Known) -> None:
    must(bool((await ask(vlm, known, *TEXT_QUESTION)).text), "the reply is empty")


async def a_reply_has_text_and_says_how_it_ended(vlm: VisionLanguageModel, known: Known) -> None:
    reply = await ask(vlm, known)
    must(isinstance(reply, Reply), f"it returned a {type(reply).__name__}, not a Reply")
    must(bool(reply.text.strip()), "the reply is empty")
    must(reply.finish_reason == "stop", f"the reply ended with {reply.finish_reason!r}, not 'stop'")


async def a_greedy_answer_is_the_same_every_time(vlm: VisionLanguageModel, known: Known) -> None:
    only_repeatable(vlm, known)
    must((await ask(vlm, known)).text == (await ask(vlm, known)).text, "the same question got two answers")


async def a_price_is_given_where_it_is_promised(vlm: VisionLanguageModel, known: Known) -> None:
    reply = await ask(vlm, known)
    promised, given = vlm.capabilities.knows_its_price, reply.cost is not None
    must(promised or not given, "it gave a price, but says it knows none")
    must(given or not promised, "it says it knows its price, and gave none")
    must(reply.cost is None or reply.cost >= 0, f"the price is {reply.cost}")


async def token_probabilities_spell_the_reply(vlm: VisionLanguageModel, known: Known) -> None:
    if not vlm.capabilities.token_probabilities:
        raise NotPromised("it gives no token probabilities")
    reply = await vlm.complete(
        question(known), Sampling(token_probabilities=True, slot=Slot(step=1, attempt=1))
    )
    must(bool(reply.tokens), "it says it gives token probabilities, and gave none")
    spelled = "".join(token.text for token in reply.tokens)
    must(spelled == reply.text, f"its tokens spell {spelled[:80]!r}, and its reply is {reply.text[:80]!r}")
    must(all(0 <= token.probability <= 1 for token in reply.tokens), "a probability is not between 0 and 1")


async def a_short_limit_is_kept(vlm: VisionLanguageModel, known: Known) -> None:
    reply = await vlm.complete(question(known), Sampling(max_tokens=64, slot=Slot(step=1, attempt=1)))
    written = reply.usage.get("completion_tokens")
    if written is None:
        raise NotPromised("it does not count its tokens")
    must(written <= 64, f"it was allowed 64 tokens and wrote {written}")


async def this_is_answered(vlm: VisionLanguageModel, known: Known, *, name: str) -> None:
    with refusal_allowed(name):
        reply = await ask(vlm, known, Message("user", (Text(PROMPTS[name]),)))
    must(bool(reply.text), "the reply is empty")


async def a_question_with_an_image_is_answered(vlm: VisionLanguageModel, known: Known) -> None:
    await must_read(vlm, known, *IMAGE_QUESTION)


async def images_without_words_are_answered(vlm: VisionLanguageModel, known: Known) -> None:
    images = tuple(ImagePart(Image.new("RGB", (256, 256), colour)) for colour in ("red", "green", "blue"))
    await must_read(vlm, known, Message("user", images))


async def a_conversation_is_answered(vlm: VisionLanguageModel, known: Known) -> None:
    earlier = (Message("assistant", (Text("No."),)), Message("user", (Text("Try again."),)))
    must(bool((await ask(vlm, known, *question(known), *earlier)).text), "the reply is empty")


async def answers_given_at_once_are_those_given_one_by_one(vlm: VisionLanguageModel, known: Known) -> None:
    questions = [Message("user", (Text(f"Say the number {number}."),)) for number in range(AT_ONCE)]
    together = await asyncio.gather(*(ask(vlm, known, question) for question in questions))
    must(all(reply.text for reply in together), "a reply is empty")
    only_repeatable(vlm, known)
    one_by_one = [await ask(vlm, known, question) for question in questions]
    must(
        [reply.text for reply in together] == [reply.text for reply in one_by_one],
        "questions asked at once got other answers, or each other's",
    )


async def a_cancelled_call_ends_and_breaks_nothing(vlm: VisionLanguageModel, known: Known) -> None:
    before = await ask(vlm, known)
    await ends_when_cancelled(ask(vlm, known))
    after = await ask(vlm, known)
    only_repeatable(vlm, known)
    must(before.text == after.text, "after a cancelled call, the same question got another answer")


async def the_limits_of_its_spec_are_kept(vlm: VisionLanguageModel, known: Known) -> None:
    limits_said(vlm.capabilities, known)
    counted = _Counted(vlm)
    limited = RetriedVlm("it", counted)
    calls = min(vlm.capabilities.concurrency or 0, MAX_CALLS_AT_ONCE) + 1
    await asyncio.gather(*(ask(limited, known) for _ in range(calls)))
    must(
        counted.most <= (vlm.capabilities.concurrency or calls),
        f"{counted.most} calls were in flight at once, and it takes {vlm.capabilities.concurrency}",
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
    """Fail if images are not answered; a planner may read none, and plans from text alone."""
    try:
        reply = await ask(vlm, known, *messages)
    except BackendError as error:
        if known.role != "planner" or error.kind in AWAY:
            raise
        raise NotPromised(f"it reads no images, so it plans requests without images only: {error}") from error
    must(bool(reply.text), "the reply is empty")


def question(known: Known) -> tuple[Message, ...]:
    """A planner may be a model that reads text alone; a critic and a scorer always see images."""
    return TEXT_QUESTION if known.role == "planner" else IMAGE_QUESTION


async def ask(vlm: VisionLanguageModel, known: Known, *messages: Message) -> Reply:
    return await vlm.complete(messages or question(known), Sampling(slot=Slot(step=1, attempt=1)))


def only_repeatable(vlm: VisionLanguageModel, known: Known) -> None:
    repeatable = vlm.capabilities.repeatable if known.repeatable is None else known.repeatable
    if not repeatable:
        raise NotPromised("its answers are not repeatable, so nothing can be told from comparing them")


VLM_CHECKS = (
    Check("it is a model and says what it can do", it_is_a_model),
    Check("a question in text alone is answered", a_question_in_text_alone_is_answered),
    Check("a reply has text and says how it ended", a_reply_has_text_and_says_how_it_ended),
    Check("a greedy answer is the same every time", a_greedy_answer_is_the_same_every_time),
    Check("a price is given where it is promised", a_price_is_given_where_it_is_promised),
    Check("token probabilities spell the reply where they are promised", token_probabilities_spell_the_reply),
    Check("a limit on tokens is kept", a_short_limit_is_kept),
    Check("the concurrency and the timeout of its spec are kept", the_limits_of_its_spec_are_kept),
    Check("a question with an image is answered", a_question_with_an_image_is_answered),
    Check("images without words are answered", images_without_words_are_answered),
    Check("a conversation with earlier answers is answered", a_conversation_is_answered),
    Check(
        "answers given at once are those given one by one",
        answers_given_at_once_are_those_given_one_by_one,
        thorough=True,
    ),
    Check("a cancelled call ends and breaks nothing", a_cancelled_call_ends_and_breaks_nothing),
    *(
        Check(
            f"it answers whatever people write: {name}", partial(this_is_answered, name=name), thorough=True
        )
        for name in PROMPTS
    ),
)
