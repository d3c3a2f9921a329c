"""Chains of edits: their start images, the prompt of each link, and the source of truth.

There are three protocols. `noop` asks repeatedly to change nothing. `cycle` edits and reverts, so that every
second image should equal the first. `chain` asks for a new edit every time. If the truth is known there is a
fourth, `twins`: two look-alike characters, of which one is told to act.

A generator's registry row may name a `ChainSource` that builds chains in its own world and reads the truth
from its images. Other generators get generic chains over the user's images.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Literal, Protocol

from PIL.Image import Image
from pydantic import ValidationError

from interleave import InputError, read_image
from interleave.plugin import Prose, Value, files, first_problem, read_text

Protocol_ = Literal["noop", "cycle", "chain", "twins"]
PROTOCOLS: tuple[Protocol_, ...] = ("noop", "cycle", "chain", "twins")
MAX_CHAINS_BYTES = 64_000_000


@dataclass(frozen=True)
class Link:
    """One edit of a chain."""

    prompt: str
    whole: str | None = None
    """Description of the whole image, for drift control that redraws it from scratch; `None` if unknown."""
    truth: Any = None
    """The expected content, in the form of the source that built the chain."""
    equals_start: bool = False
    """Whether the image should equal the first one."""
    with_assets: str | None = None
    """The prompt with the descriptions of the assets in this step."""


@dataclass(frozen=True)
class Chain:
    id: str
    start: Image
    links: tuple[Link, ...]
    whole_starts_from_first: bool = True
    """Whether a redrawn image starts from the first one; otherwise from its description alone."""


class ChainSource(Protocol):
    """Builds chains for generators of one world, and checks their images."""

    def chains(self, protocol: Protocol_, count: int, steps: int, seed: int) -> list[Chain]: ...

    def right(self, images: Sequence[Image], truths: Sequence[Any]) -> list[bool] | None:
        """Return which images show the truth; `None` if it is unknown."""
        ...

    def mixed_up(self, image: Image, truth: Any) -> bool:
        """Return whether an image has one of its assets in another's place."""
        ...


NOTHING = "Change nothing. Return the picture exactly as it is."
CYCLES = (
    ("Add a small red ball in the lower left corner.", "Remove the small red ball in the lower left corner."),
    ("Make it night.", "Make it day, as it was before."),
    ("Add snow on the ground.", "Remove the snow from the ground."),
    (
        "Add a yellow balloon in the upper right corner.",
        "Remove the yellow balloon in the upper right corner.",
    ),
    ("Turn the picture into a pencil drawing.", "Turn the pencil drawing back into the picture it was."),
)
EDITS = tuple(prompt for pair in CYCLES for prompt in pair)


class UnknownTruth:
    """Base of sources that cannot check images."""

    def right(self, images: Sequence[Image], truths: Sequence[Any]) -> list[bool] | None:
        return None

    def mixed_up(self, image: Image, truth: Any) -> bool:
        return False


class ImageChains(UnknownTruth):
    """Chains over given images, with generic edits that fit any image. Their truth is unknown."""

    def __init__(self, images: Sequence[Image]) -> None:
        if not images:
            raise InputError("the generator needs images to edit: give --image FILE or --chains-file FILE")
        self.images = images

    def chains(self, protocol: Protocol_, count: int, steps: int, seed: int) -> list[Chain]:
        return [self._chain(protocol, number, steps, seed) for number in range(count)]

    def _chain(self, protocol: Protocol_, number: int, steps: int, seed: int) -> Chain:
        rng = Random(f"drift/{protocol}/{seed}/{number}")
        start = self.images[number % len(self.images)]
        if protocol == "noop":
            links = [Link(NOTHING, equals_start=True)] * steps
        elif protocol == "twins":
            raise InputError("the protocol 'twins' needs a generator with known truth, such as the miniature")
        elif protocol == "cycle":
            pairs = [rng.choice(CYCLES) for _ in range((steps + 1) // 2)]
            links = [Link(prompt, equals_start=prompt == back) for _, back in pairs for prompt in (_, back)]
        else:
            links = list(map(Link, rng.choices(EDITS, k=steps)))
        return Chain(f"{protocol}-{number}", start, with_history(links[:steps]))


class StoredChain(Value):
    """One line of a chains file."""

    id: str
    image: str
    """The start image, relative to the file."""
    prompts: tuple[Prose, ...]
    wholes: tuple[Prose, ...] = ()
    """Description of the whole image after each edit, if given."""


class FileChains(UnknownTruth):
    """Chains of a JSONL file, as adapters of other benchmarks write. Only for the protocol `chain`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stored = read_chains(path)

    def chains(self, protocol: Protocol_, count: int, steps: int, seed: int) -> list[Chain]:
        if protocol != "chain":
            images = [read_image(self.path.parent / each.image) for each in self.stored[:count]]
            return ImageChains(images).chains(protocol, count, steps, seed)
        return [self._chain(each, steps) for each in self.stored[:count]]

    def _chain(self, stored: StoredChain, steps: int) -> Chain:
        wholes = (*stored.wholes, *[None] * len(stored.prompts))
        links = [Link(prompt, whole) for prompt, whole in zip(stored.prompts, wholes, strict=False)]
        start = read_image(self.path.parent / stored.image)
        return Chain(stored.id, start, with_history(links[:steps]))


def read_chains(path: Path) -> list[StoredChain]:
    """Read the chains of a file. Raises `InputError` naming the malformed line."""
    chains = []
    try:
        text = read_text(path, most_bytes=MAX_CHAINS_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the chains in {path} ({files.why(error)})") from None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            chains.append(StoredChain.model_validate(json.loads(line)))
        except ValueError as error:
            said = first_problem(error) if isinstance(error, ValidationError) else str(error)
            raise InputError(f"{path}, line {number}: not a chain of edits ({said})") from None
    if not chains:
        raise InputError(f'{path} has no chains: write lines such as {{"id": …, "image": …, "prompts": […]}}')
    return chains


def with_history(links: Sequence[Link]) -> tuple[Link, ...]:
    """Return the links, with all edits so far as the description of each that has none."""
    told: list[str] = []
    complete = []
    for link in links:
        told.append(link.prompt)
        whole = link.whole or " ".join(f"{place}. {prompt}" for place, prompt in enumerate(told, start=1))
        complete.append(replace(link, whole=whole))
    return tuple(complete)
