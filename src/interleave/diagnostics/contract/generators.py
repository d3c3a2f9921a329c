"""The checks of image generators."""

from __future__ import annotations

import asyncio
from functools import partial

from PIL import Image

from interleave import BackendError, GeneratorCapabilities, ImageGenerator, ImageRequest, Slot
from interleave.diagnostics.contract.checks import (
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
from interleave.plugin import backends

SHAPES = ((1, 1), (1, 900), (900, 1), (640, 480))
SEEDS = (0, 1, 2, 3, 2**31 - 1)
AT_ONCE = 4


async def it_is_a_generator(generator: ImageGenerator, known: Known) -> None:
    must(isinstance(generator, ImageGenerator), "it has no 'capabilities' or no 'generate'")
    capabilities = generator.capabilities
    must(isinstance(capabilities, GeneratorCapabilities), f"its capabilities are {capabilities!r}")
    must(
        capabilities.text_to_image or capabilities.max_sources > 0,
        "it says that it can draw neither from text nor from images",
    )


async def it_draws(generator: ImageGenerator, known: Known) -> None:
    image = await draw(generator)
    must(isinstance(image, Image.Image), f"it returned a {type(image).__name__}, not a PIL image")


async def a_image_is_rgb_and_always_of_one_size(generator: ImageGenerator, known: Known) -> None:
    first = await draw(generator)
    must(first.mode == "RGB", f"the image is {first.mode}, not RGB")
    must(known.size in (None, first.size), f"the image is {first.size}, not {known.size}")
    if generator.capabilities.max_sources:
        second = await draw(generator, "make it blue", 7, first)
        must(second.mode == "RGB", f"the edited image is {second.mode}, not RGB")
        must(second.size == first.size, f"an image of {first.size} was edited to one of {second.size}")


async def the_same_request_gives_the_same_image(generator: ImageGenerator, known: Known) -> None:
    only_repeatable(generator, known)
    must(same(await draw(generator), await draw(generator)), "the same request gave two images")


async def every_seed_gives_another_image(generator: ImageGenerator, known: Known) -> None:
    if not generator.capabilities.seeds:
        raise NotPromised("it takes no seeds")
    images = {(await draw(generator, "a cat", seed)).tobytes() for seed in SEEDS}
    must(len(images) == len(SEEDS), f"{len(SEEDS)} seeds gave {len(images)} different images")


async def every_prompt_gives_another_image(generator: ImageGenerator, known: Known) -> None:
    only_repeatable(generator, known)
    start = "the same words again and again, " * 8
    images = {(await draw(generator, start + colour)).tobytes() for colour in ("red", "green", "blue")}
    must(len(images) == 3, f"3 prompts gave {len(images)} different images")


async def an_edit_depends_on_its_source(generator: ImageGenerator, known: Known) -> None:
    (source,) = some_sources(generator, 1)
    only_repeatable(generator, known)
    edited = await draw(generator, "a cat", 7, source)
    other = await draw(generator, "a cat", 7, canvas("white"))
    must(not same(edited, other), "two different sources gave the same image")
    if generator.capabilities.text_to_image:
        drawn = await draw(generator, "a cat", 7)
        must(not same(edited, drawn), "the same image came with and without a source")


async def an_edit_depends_on_every_source(generator: ImageGenerator, known: Known) -> None:
    one, two, three = some_sources(generator, 3)
    only_repeatable(generator, known)
    edited = await draw(generator, "a cat", 7, one, two, three)
    for change, others in {
        "leaving the first source out": (two, three),
        "swapping the first two sources": (two, one, three),
        "another first source": (canvas("white"), two, three),
    }.items():
        must(not same(edited, await draw(generator, "a cat", 7, *others)), f"{change} changed nothing")


async def it_takes_as_many_sources_as_it_says(generator: ImageGenerator, known: Known) -> None:
    most = generator.capabilities.max_sources
    sources = tuple(canvas("teal", (64, 64)) for _ in range(most + 1))
    if most:
        await draw(generator, "a cat", 7, *sources[:most])
    try:
        await draw(generator, "a cat", 7, *sources)
    except BackendError as refusal:
        must(not refusal.transient, "one source too many was refused as if trying again would help")
    else:
        must(False, f"it says it takes {most} sources, and took {most + 1}")


async def drawing_from_nothing_is_refused_where_it_cannot(generator: ImageGenerator, known: Known) -> None:
    if generator.capabilities.text_to_image:
        raise NotPromised("it can draw from text alone")
    try:
        await generator.generate(ImageRequest("a cat", 7))
    except BackendError as refusal:
        must(not refusal.transient, "it was refused as if trying again would help")
    else:
        must(False, "it says that it cannot draw from text alone, and did")


async def its_sources_are_left_as_they_were(generator: ImageGenerator, known: Known) -> None:
    (source,) = some_sources(generator, 1)
    before = source.tobytes()
    await draw(generator, "a cat", 7, source)
    must(source.tobytes() == before, "it painted on the image it was given")


async def a_source_of_this_shape_is_taken(
    generator: ImageGenerator, known: Known, *, shape: tuple[int, int]
) -> None:
    some_sources(generator, 1)
    image = await draw(generator, "a cat", 7, canvas("navy", shape))
    must(known.size in (None, image.size), f"the image is {image.size}, not {known.size}")


async def this_is_drawn(generator: ImageGenerator, known: Known, *, name: str) -> None:
    with refusal_allowed(name):
        image = await draw(generator, PROMPTS[name])
    must(known.size in (None, image.size), f"the image is {image.size}, not {known.size}")


async def images_drawn_at_once_are_those_drawn_one_by_one(generator: ImageGenerator, known: Known) -> None:
    prompts = [f"cat number {number}" for number in range(AT_ONCE)]
    together = await asyncio.gather(*(draw(generator, prompt) for prompt in prompts))
    must(len(together) == AT_ONCE, f"{AT_ONCE} calls at once gave {len(together)} images")
    only_repeatable(generator, known)
    one_by_one = [await draw(generator, prompt) for prompt in prompts]
    must(
        all(same(*pair) for pair in zip(together, one_by_one, strict=True)),
        "calls made at once got other images, or each other's",
    )


async def a_cancelled_call_ends_and_breaks_nothing(generator: ImageGenerator, known: Known) -> None:
    before = await draw(generator)
    await ends_when_cancelled(draw(generator, "a cat", 8))
    after = await draw(generator)
    only_repeatable(generator, known)
    must(same(before, after), "after a cancelled call, the same request gave another image")


async def settings_of_a_request_are_followed(generator: ImageGenerator, known: Known) -> None:
    takes = generator.capabilities.request_settings
    if not takes:
        raise NotPromised("requests set nothing here: its spec does")
    usual = await draw(generator)
    if "size" in takes:
        wanted = (2 * usual.width, usual.height)
        drawn = await draw(generator, settings=backends.ImageSettings(size=wanted))
        must(drawn.size == wanted, f"asked for {wanted}, it drew {drawn.size}")
    if "steps" in takes:
        one = await draw(generator, settings=backends.ImageSettings(steps=1))
        three = await draw(generator, settings=backends.ImageSettings(steps=3))
        only_repeatable(generator, known)
        must(not same(one, three), "one step and three gave the same image")


async def a_mask_of_a_request_is_followed(generator: ImageGenerator, known: Known) -> None:
    if generator.capabilities.masks == "never":
        raise NotPromised("it takes no masks")
    source = canvas("navy")
    left = canvas("black")
    left.paste("white", (0, 0, 128, 256))
    images = [await draw(generator, "a cat", 7, source, mask=each) for each in (left, canvas("white"))]
    only_repeatable(generator, known)
    must(not same(*images), "two masks gave the same image")


async def the_limits_of_its_spec_are_kept(generator: ImageGenerator, known: Known) -> None:
    capabilities = generator.capabilities
    limits_said(capabilities, known)
    counted = _Counted(generator)
    limited = backends.RetriedGenerator("it", counted)
    calls = min(capabilities.concurrency or 0, MAX_CALLS_AT_ONCE) + 1
    await asyncio.gather(*(draw(limited, f"cat number {number}") for number in range(calls)))
    must(
        counted.most <= (capabilities.concurrency or calls),
        f"{counted.most} calls were in flight at once, and it takes {capabilities.concurrency}",
    )


class _Counted:
    """Counts the calls in flight to a generator."""

    def __init__(self, generator: ImageGenerator) -> None:
        self.generator = generator
        self.capabilities = generator.capabilities
        self.most = self._in_flight = 0

    async def generate(self, request: ImageRequest) -> Image.Image:
        self._in_flight += 1
        self.most = max(self.most, self._in_flight)
        try:
            return await self.generator.generate(request)
        finally:
            self._in_flight -= 1


async def draw(
    generator: ImageGenerator,
    prompt: str = "a cat on a mat",
    seed: int = 7,
    *sources: Image.Image,
    mask: Image.Image | None = None,
    settings: backends.ImageSettings = backends.NO_SETTINGS,
) -> Image.Image:
    """Draw one image, with a plain source and a mask of all of it where the generator needs them."""
    if not sources and not generator.capabilities.text_to_image:
        sources = (canvas("grey"),)
    if mask is None and sources and generator.capabilities.masks == "must":
        mask = canvas("white", sources[0].size)
    slot = Slot(step=2, attempt=1)
    return await generator.generate(ImageRequest(prompt, seed, sources, slot, mask, settings))


def same(one: Image.Image, other: Image.Image) -> bool:
    return one.size == other.size and one.tobytes() == other.tobytes()


def canvas(colour: str, size: tuple[int, int] = (256, 256)) -> Image.Image:
    return Image.new("RGB", size, colour)


def some_sources(generator: ImageGenerator, count: int) -> tuple[Image.Image, ...]:
    if generator.capabilities.max_sources < count:
        raise NotPromised(f"it takes at most {generator.capabilities.max_sources} sources")
    colours = ("navy", "maroon", "olive", "teal")
    return tuple(canvas(colours[number % len(colours)], (200 + number, 160)) for number in range(count))


def only_repeatable(generator: ImageGenerator, known: Known) -> None:
    repeatable = generator.capabilities.seeds if known.repeatable is None else known.repeatable
    if not repeatable:
        raise NotPromised("its images are not repeatable, so nothing can be told from comparing them")


GENERATOR_CHECKS = (
    Check("it is a generator and says what it can do", it_is_a_generator),
    Check("it draws an image", it_draws),
    Check("an image is RGB and always of one size", a_image_is_rgb_and_always_of_one_size),
    Check("the same request gives the same image", the_same_request_gives_the_same_image),
    Check("every seed gives another image", every_seed_gives_another_image, thorough=True),
    Check("every prompt gives another image", every_prompt_gives_another_image, thorough=True),
    Check("an edit depends on its source", an_edit_depends_on_its_source),
    Check("an edit depends on every one of its sources and their order", an_edit_depends_on_every_source),
    Check("it takes as many sources as it says, and refuses more", it_takes_as_many_sources_as_it_says),
    Check(
        "what it cannot draw from nothing it refuses",
        drawing_from_nothing_is_refused_where_it_cannot,
        thorough=True,
    ),
    Check("its sources are left as they were", its_sources_are_left_as_they_were, thorough=True),
    Check(
        "images drawn at once are those drawn one by one",
        images_drawn_at_once_are_those_drawn_one_by_one,
        thorough=True,
    ),
    Check("settings of a request are followed", settings_of_a_request_are_followed, thorough=True),
    Check("a mask of a request is followed", a_mask_of_a_request_is_followed, thorough=True),
    Check("the concurrency and the timeout of its spec are kept", the_limits_of_its_spec_are_kept),
    Check("a cancelled call ends and breaks nothing", a_cancelled_call_ends_and_breaks_nothing),
    *(
        Check(
            f"a source of {width}×{height} is taken",
            partial(a_source_of_this_shape_is_taken, shape=(width, height)),
            thorough=True,
        )
        for width, height in SHAPES
    ),
    *(
        Check(f"it draws whatever people write: {name}", partial(this_is_drawn, name=name), thorough=True)
        for name in PROMPTS
    ),
)
