"""Chains of edits: where they start, what each link asks for, and who knows whether it came out right.

Three protocols. `noop`: asked again and again to change nothing. `cycle`: there and back, so that every
second image should equal the first. `chain`: a new edit every time. Where the truth is known there is a
fourth, `twins`: two characters that look alike, of which one is told to do something.

A generator's registry row may name a `ChainSource` that makes chains in its own world and reads the truth
from its images; for every other generator there are plain chains over images of the user's.
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
MOST_CHAINS_BYTES = 64_000_000


@dataclass(frozen=True)
class Link:
    """One edit of a chain."""

    prompt: str
    whole: str | None = None
    """The whole image in words, for a remedy that draws it anew; None where it is not given."""
    truth: Any = None
    """What the image should show, for the source that made the chain."""
    equals_start: bool = False
    """Whether the image should be the first one again."""
    with_assets: str | None = None
    """The prompt as it carries the descriptions of the assets that the step shows."""


@dataclass(frozen=True)
class Chain:
    id: str
    start: Image
    links: tuple[Link, ...]
    whole_starts_from_first: bool = True
    """Whether an image that is drawn anew starts from the first one; else from its words alone."""


class ChainSource(Protocol):
    """Makes chains for generators of one world, and says which images are right."""

    def chains(self, protocol: Protocol_, count: int, steps: int, seed: int) -> list[Chain]: ...

    def right(self, images: Sequence[Image], truths: Sequence[Any]) -> list[bool] | None:
        """Which images show what they should; None where the truth is unknown."""
        ...

    def mixed_up(self, image: Image, truth: Any) -> bool:
        """Whether an image has one of its assets where another should be."""
        ...


NOTHING = "Change nothing. Return the picture exactly as it is."
THERE_AND_BACK = (
    ("Add a small red ball in the lower left corner.", "Remove the small red ball in the lower left corner."),
    ("Make it night.", "Make it day, as it was before."),
    ("Add snow on the ground.", "Remove the snow from the ground."),
    (
        "Add a yellow balloon in the upper right corner.",
        "Remove the yellow balloon in the upper right corner.",
    ),
    ("Turn the picture into a pencil drawing.", "Turn the pencil drawing back into the picture it was."),
)
EDITS = tuple(prompt for pair in THERE_AND_BACK for prompt in pair)


class UnknownTruth:
    """What sources share that cannot say which images are right."""

    def right(self, images: Sequence[Image], truths: Sequence[Any]) -> list[bool] | None:
        return None

    def mixed_up(self, image: Image, truth: Any) -> bool:
        return False


class ImageChains(UnknownTruth):
    """Chains over given images, with plain edits that fit any of them; their truth is unknown."""

    def __init__(self, images: Sequence[Image]) -> None:
        if not images:
            raise InputError(
                "a generator needs pictures to edit: give some with --image FILE, or --chains FILE"
            )
        self.images = images

    def chains(self, protocol: Protocol_, count: int, steps: int, seed: int) -> list[Chain]:
        return [self._chain(protocol, number, steps, seed) for number in range(count)]

    def _chain(self, protocol: Protocol_, number: int, steps: int, seed: int) -> Chain:
        rng = Random(f"drift/{protocol}/{seed}/{number}")
        start = self.images[number % len(self.images)]
        if protocol == "noop":
            links = [Link(NOTHING, equals_start=True)] * steps
        elif protocol == "twins":
            raise InputError("twins are told apart only where the truth is known: in the miniature")
        elif protocol == "cycle":
            pairs = [rng.choice(THERE_AND_BACK) for _ in range((steps + 1) // 2)]
            links = [Link(prompt, equals_start=prompt == back) for _, back in pairs for prompt in (_, back)]
        else:
            links = list(map(Link, rng.choices(EDITS, k=steps)))
        return Chain(f"{protocol}-{number}", start, with_history(links[:steps]))


class StoredChain(Value):
    """One line of a file of chains."""

    id: str
    image: str
    """The image to start from, relative to the file."""
    prompts: tuple[Prose, ...]
    wholes: tuple[Prose, ...] = ()
    """The whole image in words after each edit, where it is given."""


class FileChains(UnknownTruth):
    """Chains of a JSONL file, such as the adapters of other benchmarks write; only the protocol `chain`."""

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
    """The chains of a file; raises `InputError` with the line that is none."""
    chains = []
    try:
        text = read_text(path, most_bytes=MOST_CHAINS_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} with the chains cannot be read ({files.why(error)})") from None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            chains.append(StoredChain.model_validate(json.loads(line)))
        except ValueError as error:
            said = first_problem(error) if isinstance(error, ValidationError) else str(error)
            raise InputError(f"{path}, line {number}: not a chain of edits ({said})") from None
    if not chains:
        raise InputError(f'{path} has no chains: a line is {{"id": …, "image": …, "prompts": […]}}')
    return chains


def with_history(links: Sequence[Link]) -> tuple[Link, ...]:
    """The links, each with all edits so far as its whole description where it has none."""
    told: list[str] = []
    complete = []
    for link in links:
        told.append(link.prompt)
        whole = link.whole or " ".join(f"{place}. {prompt}" for place, prompt in enumerate(told, start=1))
        complete.append(replace(link, whole=whole))
    return tuple(complete)
