"""What every backend must do. `test_contract.py` names the backends; this says what is asked of each.

A suite is a class of tests with the fixtures `generator` or `vlm`; a backend joins by one line in a list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from PIL import Image

from interleave.backends.protocols import (
    GeneratorCapabilities,
    ImageGenerator,
    ImageRequest,
    Message,
    Reply,
    Sampling,
    VisionLanguageModel,
    VlmCapabilities,
)
from interleave.errors import BackendError
from interleave.types import Picture, Slot, Text

T = TypeVar("T")

PROMPTS = {
    "one letter": "x",
    "only spaces": "   ",
    "empty": "",
    "long": "a very long corridor, " * 1500,
    "one long word": "a" * 30_000,
    "lines and tabs": "a\tcat\r\non\n\n\na mat",
    "emoji family": "👩‍👩‍👧‍👦 at the 🏖️",
    "Arabic": "قطة تجلس على الحصيرة",
    "mixed directions": "the cat קטט says \u202eolleh\u202c 3 times",
    "Zalgo": "z̸̢̛̙a̵̧͓l̴̡̛g̶̢͝o̷̧͘",
    "control characters": "a\x07\x1b[31mred\x85\x9b cat",
    "slots and tags": "{{prompt}} <image> {0.__class__} %s $HOME `id` <answer>",
}
"""Things people write, all of which must be drawn."""


def do(work: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(work, timeout=60)

    return asyncio.run(bounded())


async def ends_when_cancelled(work: Coroutine[Any, Any, object]) -> bool:
    """Whether a call that has begun ends as cancelled, or was done already; never as an error of its own."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=5)
    return task.done() and (task.cancelled() or task.exception() is None)


def draw(
    generator: ImageGenerator, prompt: str = "a cat on a mat", seed: int = 7, *sources: Image.Image
) -> Image.Image:
    return do(generator.generate(ImageRequest(prompt, seed, sources, Slot(step=2, attempt=1))))


def same(one: Image.Image, other: Image.Image) -> bool:
    return one.size == other.size and one.tobytes() == other.tobytes()


def canvas(colour: str, size: tuple[int, int] = (256, 256)) -> Image.Image:
    return Image.new("RGB", size, colour)


def some_sources(generator: ImageGenerator, count: int) -> tuple[Image.Image, ...]:
    if generator.capabilities.max_sources < count:
        pytest.skip(f"takes at most {generator.capabilities.max_sources} sources")
    colours = ("navy", "maroon", "olive", "teal")
    return tuple(canvas(colours[number % len(colours)], (200 + number, 160)) for number in range(count))


class GeneratorContract:
    """What an image generator must do."""

    def test_it_is_a_generator_and_says_what_it_can_do(self, generator: ImageGenerator) -> None:
        assert isinstance(generator, ImageGenerator)
        assert isinstance(generator.capabilities, GeneratorCapabilities)
        assert generator.capabilities.text_to_image or generator.capabilities.max_sources

    def test_a_picture_is_rgb_and_always_of_one_size(self, generator: ImageGenerator, size: int) -> None:
        first = draw(generator)
        second = draw(generator, "make it blue", 7, first)
        assert (first.mode, second.mode) == ("RGB", "RGB")
        assert first.size == second.size == (size, size)

    def test_the_same_request_gives_the_same_picture(self, generator: ImageGenerator) -> None:
        if not generator.capabilities.seeds:
            pytest.skip("takes no seeds")
        assert same(draw(generator), draw(generator))

    def test_every_seed_gives_another_picture(self, generator: ImageGenerator) -> None:
        pictures = {draw(generator, "a cat", seed).tobytes() for seed in (0, 1, 2, 3, 2**63 - 1)}
        assert len(pictures) == 5

    def test_every_prompt_gives_another_picture(self, generator: ImageGenerator) -> None:
        end = "the same words again and again, " * 8
        pictures = {draw(generator, end + colour).tobytes() for colour in ("red", "green", "blue")}
        assert len(pictures) == 3

    def test_an_edit_depends_on_its_source(self, generator: ImageGenerator) -> None:
        (source,) = some_sources(generator, 1)
        edited = draw(generator, "a cat", 7, source)
        assert not same(edited, draw(generator, "a cat", 7))
        assert not same(edited, draw(generator, "a cat", 7, canvas("white")))

    def test_an_edit_depends_on_every_one_of_its_sources_and_their_order(
        self, generator: ImageGenerator
    ) -> None:
        one, two, three = some_sources(generator, 3)
        edited = draw(generator, "a cat", 7, one, two, three)
        assert not same(edited, draw(generator, "a cat", 7, two, three))
        assert not same(edited, draw(generator, "a cat", 7, two, one, three))
        assert not same(edited, draw(generator, "a cat", 7, canvas("white"), two, three))

    def test_it_takes_as_many_sources_as_it_says_and_refuses_more(self, generator: ImageGenerator) -> None:
        most = generator.capabilities.max_sources
        sources = tuple(canvas("teal", (64, 64)) for _ in range(most + 1))
        draw(generator, "a cat", 7, *sources[:most])
        with pytest.raises(BackendError) as refusal:
            draw(generator, "a cat", 7, *sources)
        assert not refusal.value.transient

    def test_its_sources_are_left_as_they_were(self, generator: ImageGenerator) -> None:
        (source,) = some_sources(generator, 1)
        before = source.tobytes()
        draw(generator, "a cat", 7, source)
        assert source.tobytes() == before

    @pytest.mark.parametrize("shape", [(1, 1), (1, 900), (900, 1), (640, 480)])
    def test_a_source_of_any_shape_is_taken(
        self, generator: ImageGenerator, size: int, shape: tuple[int, int]
    ) -> None:
        some_sources(generator, 1)
        assert draw(generator, "a cat", 7, canvas("navy", shape)).size == (size, size)

    @pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
    def test_whatever_people_write_is_drawn(self, generator: ImageGenerator, size: int, prompt: str) -> None:
        assert draw(generator, prompt).size == (size, size)

    def test_pictures_drawn_at_once_are_those_drawn_one_by_one(self, generator: ImageGenerator) -> None:
        requests = [ImageRequest(f"cat number {number}", number) for number in range(8)]

        async def at_once() -> list[Image.Image]:
            return await asyncio.gather(*(generator.generate(request) for request in requests))

        one_by_one = [do(generator.generate(request)) for request in requests]
        assert all(same(*pair) for pair in zip(do(at_once()), one_by_one, strict=True))

    def test_a_cancelled_call_ends_at_once_and_breaks_nothing(self, generator: ImageGenerator) -> None:
        before = draw(generator)
        assert do(ends_when_cancelled(generator.generate(ImageRequest("a cat", 7))))
        assert same(draw(generator), before)


QUESTION = (
    Message("system", (Text("Be brief."),)),
    Message("user", (Text("How a frog grows up, in three pictures"), Picture(canvas("green")))),
)


def ask(vlm: VisionLanguageModel, *messages: Message, slot: Slot = Slot(step=1, attempt=1)) -> Reply:
    return do(vlm.complete(messages or QUESTION, Sampling(slot=slot)))


class VlmContract:
    """What a vision-language model must do."""

    def test_it_is_a_model_and_says_what_it_can_do(self, vlm: VisionLanguageModel) -> None:
        assert isinstance(vlm, VisionLanguageModel)
        assert isinstance(vlm.capabilities, VlmCapabilities)

    def test_a_reply_has_text_and_says_how_it_ended(self, vlm: VisionLanguageModel) -> None:
        reply = ask(vlm)
        assert reply.text
        assert reply.finish_reason == "stop"

    def test_a_greedy_answer_is_the_same_every_time(self, vlm: VisionLanguageModel) -> None:
        assert ask(vlm) == ask(vlm)

    def test_a_price_is_given_where_it_is_promised(self, vlm: VisionLanguageModel) -> None:
        assert (ask(vlm).cost is not None) == vlm.capabilities.knows_its_price

    def test_token_probabilities_spell_the_reply_where_they_are_promised(
        self, vlm: VisionLanguageModel
    ) -> None:
        if not vlm.capabilities.token_probabilities:
            pytest.skip("gives no token probabilities")
        reply = do(vlm.complete(QUESTION, Sampling(token_probabilities=True)))
        assert "".join(token.text for token in reply.tokens) == reply.text
        assert all(0 <= token.probability <= 1 for token in reply.tokens)

    @pytest.mark.parametrize("text", PROMPTS.values(), ids=PROMPTS)
    def test_whatever_people_write_is_answered(self, vlm: VisionLanguageModel, text: str) -> None:
        assert ask(vlm, Message("user", (Text(text),))).text

    def test_pictures_without_words_are_answered(self, vlm: VisionLanguageModel) -> None:
        pictures = tuple(Picture(canvas(colour)) for colour in ("red", "green", "blue"))
        assert ask(vlm, Message("user", pictures)).text

    def test_a_conversation_with_earlier_answers_is_answered(self, vlm: VisionLanguageModel) -> None:
        earlier = (Message("assistant", (Text("No."),)), Message("user", (Text("Try again."),)))
        assert ask(vlm, *QUESTION, *earlier).text

    def test_answers_given_at_once_are_those_given_one_by_one(self, vlm: VisionLanguageModel) -> None:
        async def at_once() -> list[Reply]:
            return await asyncio.gather(*(vlm.complete(QUESTION, Sampling()) for _ in range(8)))

        assert do(at_once()) == [do(vlm.complete(QUESTION, Sampling())) for _ in range(8)]

    def test_a_cancelled_call_ends_at_once_and_breaks_nothing(self, vlm: VisionLanguageModel) -> None:
        before = ask(vlm)
        assert do(ends_when_cancelled(vlm.complete(QUESTION, Sampling())))
        assert ask(vlm) == before
