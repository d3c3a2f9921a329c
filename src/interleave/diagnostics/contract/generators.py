"""The checks of image generators."""

from __future__ import annotations

import asyncio
from functools import partial

from PIL import Image

from interleave import BackendError, GeneratorCapabilities, ImageGenerator, ImageRequest, Slot
from interleave.diagnostics.contract.checks import (
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
from interleave.plugin import backends

SHAPES = ((1, 1), (1, 900), (900, 1), (640, 480))
SEEDS = (0, 1, 2, 3, 2**31 - 1)
CONCURRENT_CALLS = 4


async def implements_interface(generator: ImageGenerator, known: Known) -> None:
    must(isinstance(generator, ImageGenerator), "it has no 'capabilities' or no 'generate'")
    capabilities = generator.capabilities
    must(isinstance(capabilities, GeneratorCapabilities), f"its capabilities are {capabilities!r}")
    must(
        capabilities.text_to_image or capabilities.max_sources > 0,
        "its capabilities allow neither text nor source images",
    )


async def generates_image(generator: ImageGenerator, known: Known) -> None:
    image = await draw(generator)
    must(isinstance(image, Image.Image), f"it returned a {type(image).__name__}, not a PIL image")


async def images_are_rgb_and_of_one_size(generator: ImageGenerator, known: Known) -> None:
    first = await draw(generator)
    must(first.mode == "RGB", f"the image is {first.mode}, not RGB")
    must(known.size in (None, first.size), f"the image is {first.size}, not {known.size}")
    if generator.capabilities.max_sources:
        second = await draw(generator, "make it blue", 7, first)
        must(second.mode == "RGB", f"the edited image is {second.mode}, not RGB")
        must(second.size == first.size, f"an image of {first.size} was edited to one of {second.size}")


async def requests_are_reproducible(generator: ImageGenerator, known: Known) -> None:
    only_repeatable(generator, known)
    must(same(await draw(generator), await draw(generator)), "equal requests gave different images")


async def seeds_give_different_images(generator: ImageGenerator, known: Known) -> None:
    if not generator.capabilities.seeds:
        raise NotApplicable("it does not support seeds")
    images = {(await draw(generator, "a cat", seed)).tobytes() for seed in SEEDS}
    must(len(images) == len(SEEDS), f"{len(SEEDS)} seeds gave {len(images)} different images")


async def prompts_give_different_images(generator: ImageGenerator, known: Known) -> None:
    only_repeatable(generator, known)
    start = "the same words again and again, " * 8
    images = {(await draw(generator, start + colour)).tobytes() for colour in ("red", "green", "blue")}
    must(len(images) == 3, f"3 prompts gave {len(images)} different images")


async def edit_depends_on_source(generator: ImageGenerator, known: Known) -> None:
    (source,) = some_sources(generator, 1)
    only_repeatable(generator, known)
    edited = await draw(generator, "a cat", 7, source)
    other = await draw(generator, "a cat", 7, canvas("white"))
    must(not same(edited, other), "two different sources gave the same image")
    if generator.capabilities.text_to_image:
        drawn = await draw(generator, "a cat", 7)
        must(not same(edited, drawn), "the image is the same with and without a source")


async def edit_depends_on_every_source(generator: ImageGenerator, known: Known) -> None:
    one, two, three = some_sources(generator, 3)
    only_repeatable(generator, known)
    edited = await draw(generator, "a cat", 7, one, two, three)
    for change, others in {
        "omitting the first source": (two, three),
        "swapping the first two sources": (two, one, three),
        "another first source": (canvas("white"), two, three),
    }.items():
        must(not same(edited, await draw(generator, "a cat", 7, *others)), f"{change} changed nothing")


async def enforces_max_sources(generator: ImageGenerator, known: Known) -> None:
    most = generator.capabilities.max_sources
    sources = tuple(canvas("teal", (64, 64)) for _ in range(most + 1))
    if most:
        await draw(generator, "a cat", 7, *sources[:most])
    try:
        await draw(generator, "a cat", 7, *sources)
    except BackendError as refusal:
        must(not refusal.transient, "the error for one source too many is transient")
    else:
        must(False, f"its max_sources is {most}, but it accepted {most + 1}")


async def rejects_missing_source(generator: ImageGenerator, known: Known) -> None:
    if generator.capabilities.text_to_image:
        raise NotApplicable("it accepts text alone")
    try:
        await generator.generate(ImageRequest("a cat", 7))
    except BackendError as refusal:
        must(not refusal.transient, "the error for a missing source is transient")
    else:
        must(False, "its text_to_image is false, but it accepted text alone")


async def keeps_sources_unchanged(generator: ImageGenerator, known: Known) -> None:
    (source,) = some_sources(generator, 1)
    before = source.tobytes()
    await draw(generator, "a cat", 7, source)
    must(source.tobytes() == before, "it changed the source image")


async def accepts_source_shape(generator: ImageGenerator, known: Known, *, shape: tuple[int, int]) -> None:
    some_sources(generator, 1)
    image = await draw(generator, "a cat", 7, canvas("navy", shape))
    must(known.size in (None, image.size), f"the image is {image.size}, not {known.size}")


async def accepts_prompt(generator: ImageGenerator, known: Known, *, name: str) -> None:
    with refusal_allowed(name):
        image = await draw(generator, PROMPTS[name])
    must(known.size in (None, image.size), f"the image is {image.size}, not {known.size}")


async def concurrent_images_match(generator: ImageGenerator, known: Known) -> None:
    prompts = [f"cat number {number}" for number in range(CONCURRENT_CALLS)]
    together = await asyncio.gather(*(draw(generator, prompt) for prompt in prompts))
    must(len(together) == CONCURRENT_CALLS, f"{CONCURRENT_CALLS} calls gave {len(together)} images")
    only_repeatable(generator, known)
    one_by_one = [await draw(generator, prompt) for prompt in prompts]
    must(
        all(same(*pair) for pair in zip(together, one_by_one, strict=True)),
        "concurrent calls got different images, or each other's",
    )


async def cancelled_call_ends(generator: ImageGenerator, known: Known) -> None:
    before = await draw(generator)
    await ends_when_cancelled(draw(generator, "a cat", 8))
    after = await draw(generator)
    only_repeatable(generator, known)
    must(same(before, after), "after a cancelled call, an equal request gave a different image")


async def follows_settings(generator: ImageGenerator, known: Known) -> None:
    takes = generator.capabilities.request_settings
    if not takes:
        raise NotApplicable("its requests have no settings, only its spec")
    usual = await draw(generator)
    if "size" in takes:
        wanted = (2 * usual.width, usual.height)
        drawn = await draw(generator, settings=backends.ImageSettings(size=wanted))
        must(drawn.size == wanted, f"the requested size is {wanted}, the image is {drawn.size}")
    if "steps" in takes:
        one = await draw(generator, settings=backends.ImageSettings(steps=1))
        three = await draw(generator, settings=backends.ImageSettings(steps=3))
        only_repeatable(generator, known)
        must(not same(one, three), "1 step and 3 steps gave the same image")


async def follows_mask(generator: ImageGenerator, known: Known) -> None:
    if generator.capabilities.masks == "never":
        raise NotApplicable("it does not support masks")
    source = canvas("navy")
    left = canvas("black")
    left.paste("white", (0, 0, 128, 256))
    images = [await draw(generator, "a cat", 7, source, mask=each) for each in (left, canvas("white"))]
    only_repeatable(generator, known)
    must(not same(*images), "two masks gave the same image")


async def keeps_limits(generator: ImageGenerator, known: Known) -> None:
    capabilities = generator.capabilities
    check_limits(capabilities, known)
    counted = _Counted(generator)
    limited = backends.RetriedGenerator("it", counted)
    calls = min(capabilities.concurrency or 0, MAX_CONCURRENT_CALLS) + 1
    await asyncio.gather(*(draw(limited, f"cat number {number}") for number in range(calls)))
    must(
        counted.most <= (capabilities.concurrency or calls),
        f"{counted.most} calls were in flight, above its concurrency {capabilities.concurrency}",
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
    """Generate one image, with a plain source and a full mask if the generator needs them."""
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
        raise NotApplicable(f"it takes at most {generator.capabilities.max_sources} sources")
    colours = ("navy", "maroon", "olive", "teal")
    return tuple(canvas(colours[number % len(colours)], (200 + number, 160)) for number in range(count))


def only_repeatable(generator: ImageGenerator, known: Known) -> None:
    repeatable = generator.capabilities.seeds if known.repeatable is None else known.repeatable
    if not repeatable:
        raise NotApplicable("its images are not reproducible, so they cannot be compared")


GENERATOR_CHECKS = (
    Check("implements the generator interface", implements_interface),
    Check("generates an image", generates_image),
    Check("images are RGB and of one size", images_are_rgb_and_of_one_size),
    Check("equal requests give equal images", requests_are_reproducible),
    Check("different seeds give different images", seeds_give_different_images, thorough=True),
    Check("different prompts give different images", prompts_give_different_images, thorough=True),
    Check("an edit depends on its source", edit_depends_on_source),
    Check("an edit depends on every source and their order", edit_depends_on_every_source),
    Check("accepts max_sources sources and rejects more", enforces_max_sources),
    Check(
        "rejects text alone if text_to_image is false",
        rejects_missing_source,
        thorough=True,
    ),
    Check("does not change its sources", keeps_sources_unchanged, thorough=True),
    Check(
        "concurrent calls give the same images as sequential calls",
        concurrent_images_match,
        thorough=True,
    ),
    Check("follows the settings of a request", follows_settings, thorough=True),
    Check("follows the mask of a request", follows_mask, thorough=True),
    Check("keeps the concurrency and timeout of its spec", keeps_limits),
    Check("a cancelled call ends without side effects", cancelled_call_ends),
    *(
        Check(
            f"accepts a source of {width}×{height}",
            partial(accepts_source_shape, shape=(width, height)),
            thorough=True,
        )
        for width, height in SHAPES
    ),
    *(
        Check(f"accepts any prompt: {name}", partial(accepts_prompt, name=name), thorough=True)
        for name in PROMPTS
    ),
)
