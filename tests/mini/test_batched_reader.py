"""The reading room: what the plain reader sees, read together and once."""

from __future__ import annotations

import asyncio
from random import Random
from threading import Event
from typing import Any

import pytest
from PIL import Image
from samples import random_scene

from interleave_mini.reader import BatchedReader, Reader, Reading, shared_reader
from interleave_mini.world.drawing import draw
from work import HANGS_AFTER


class Counting:
    """A reader that notes how many images it is given at a time, and can be held up."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.go = Event()
        self.go.set()

    def read_many(self, images: Any) -> list[Reading]:
        self.batches.append(len(images))
        self.go.wait(HANGS_AFTER)
        if any(image.size == (1, 1) for image in images):
            raise ValueError("too small")
        return shared_reader().read_many(images)


@pytest.fixture(scope="module")
def images() -> list[Image.Image]:
    rng = Random(5)
    return [draw(random_scene(rng)) for _ in range(6)]


def batched_reader(reader: Any, **options: Any) -> BatchedReader:
    return BatchedReader(reader, **options)


def test_readings_are_those_of_the_plain_reader(images: list[Image.Image]) -> None:
    plain = shared_reader()
    batched = batched_reader(plain)
    assert asyncio.run(batched.read_all(images)) == plain.read_many(images)
    for image in images:
        alone, here = plain.read(image), batched.read(image)
        assert here.scene == alone.scene
        assert here.confidence == pytest.approx(alone.confidence, abs=1e-4)
        assert here.errors == pytest.approx(alone.errors, abs=1e-3)


def test_what_is_asked_meanwhile_is_read_together_and_once(images: list[Image.Image]) -> None:
    reader = Counting()
    reader.go.clear()
    batched = batched_reader(reader)
    first = batched.submit(images[0])
    while not reader.batches:
        pass
    rest = [batched.submit(image) for image in [*images, *(each.copy() for each in images)]]
    reader.go.set()
    assert [answer.result(HANGS_AFTER).scene for answer in rest] == 2 * [
        answer.result().scene for answer in rest[:6]
    ]
    assert reader.batches == [1, 5]
    assert first.result() == batched.read(images[0])
    assert reader.batches == [1, 5]


def test_one_who_gives_up_takes_nothing_from_the_others(images: list[Image.Image]) -> None:
    reader = Counting()
    reader.go.clear()
    batched = batched_reader(reader)
    gone, waits = batched.submit(images[0]), batched.submit(images[0])
    assert gone.cancel()
    reader.go.set()
    assert waits.result(HANGS_AFTER).scene == shared_reader().read(images[0]).scene


def test_an_image_that_cannot_be_read_fails_alone(images: list[Image.Image]) -> None:
    reader = Counting()
    reader.go.clear()
    batched = batched_reader(reader)
    answers = [batched.submit(each) for each in (images[0], images[1], Image.new("RGB", (1, 1)), images[2])]
    reader.go.set()
    assert isinstance(answers[1].result(HANGS_AFTER), Reading)
    assert isinstance(answers[3].result(HANGS_AFTER), Reading)
    with pytest.raises(ValueError, match="too small"):
        answers[2].result(HANGS_AFTER)


def test_the_oldest_readings_are_forgotten(images: list[Image.Image]) -> None:
    reader = Counting()
    batched = batched_reader(reader, cache_size=2)
    for image in [*images[:3], images[2], images[0]]:
        batched.read(image)
    assert reader.batches == [1, 1, 1, 1]


@pytest.mark.slow
def test_torch_reads_the_same(images: list[Image.Image]) -> None:
    pytest.importorskip("torch")
    for here, plain in zip(Reader("cpu").read_many(images), shared_reader().read_many(images), strict=True):
        assert here.scene == plain.scene
        assert here.errors == pytest.approx(plain.errors, abs=0.05)
