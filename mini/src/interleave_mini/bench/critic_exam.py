"""The attempts of the critics' exam: drawn once, the same for every critic, each known to be right or wrong.

Every attempt is a step of a true plan of the test split, drawn from its short prompt as a planner writes it.
The image before it is as in use: the user's where the user gives one (the world draws it), else one the
generator drew itself, from the exact description; where the reader does not find that one right, the world's.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from interleave import ConfigurationError, ImageGenerator, ImageRequest, Slot
from interleave.plugin import ImageStore, Value, backends, folder_lock, write_atomic
from interleave_mini.bench.scores import read_images, stored_image
from interleave_mini.bench.systems import same_model
from interleave_mini.bench.task_file import shipped_tasks
from interleave_mini.bench.tasks import Task
from interleave_mini.language.prompts import scene_prompt
from interleave_mini.reader.scores import shows
from interleave_mini.world.drawing import draw
from interleave_mini.world.scene import Scene

if TYPE_CHECKING:
    from PIL.Image import Image

SUITES = ("story", "edit", "continue")
"""Round robin, one task of each, all steps of a task: what a critic sees in use."""
DEFAULT_ATTEMPTS, DEFAULT_FAILURES = 2000, 150
LIMIT = 5
"""How many times the requested attempts are drawn at most, in search of failures."""
DRAW_BATCH = 250
"""Attempts drawn before failures are counted again."""
IMAGE_THREADS = 8
ATTEMPTS_NAME, SETTINGS_NAME, LOCK_NAME = "attempts.jsonl", "exam.json", "exam.lock"

Item = TypeVar("Item")
ItemResult = TypeVar("ItemResult")


@dataclass(frozen=True)
class Question:
    """A step to draw, and what a right image of it shows."""

    id: str
    suite: str
    prompt: str
    before: Scene | None
    given: bool
    """Whether the image before is the user's."""
    target: Scene
    slot: Slot

    def seed(self, attempt: int) -> int:
        """The seed of an attempt: different for every question, and reproducible."""
        digest = hashlib.sha256(f"{self.id}/{attempt}".encode()).digest()
        return int.from_bytes(digest[:4], "big") >> 1


class Attempt(Value):
    """A question with its images, by their names in the store."""

    id: str
    suite: str
    prompt: str
    before: str | None
    after: str
    right: bool


class ExamSettings(Value):
    """The settings that determine the attempts."""

    generator: str
    seed: int


@dataclass(frozen=True)
class Exam:
    """An exam in a folder: attempts with known outcomes."""

    folder: Path
    generator: Callable[[], ImageGenerator]
    """Loads it; not called when everything is drawn already."""
    seed: int = 0
    concurrency: int = 16

    @property
    def store(self) -> ImageStore:
        return ImageStore(self.folder)

    def image(self, name: str) -> Image:
        return stored_image(self.store.path(name))

    def attempts(self) -> list[Attempt]:
        """The attempts drawn so far."""
        return read_lines(self.folder / ATTEMPTS_NAME, Attempt)

    def prepare(
        self, generator: str, count: int, failures: int, report: Callable[[str], None]
    ) -> list[Attempt]:
        """Draw until there are `count` attempts with `failures` failures among them, or the limit is reached.

        Other processes wait on a lock: all must have the same images.
        """
        with folder_lock(self.folder, LOCK_NAME):
            return self._prepare(generator, count, failures, report)

    def _prepare(
        self, generator: str, count: int, failures: int, report: Callable[[str], None]
    ) -> list[Attempt]:
        self._keep_settings(ExamSettings(generator=same_model(generator), seed=self.seed))
        drawn = self.attempts()
        while not _is_enough(drawn, count, failures):
            wrong = sum(not each.right for each in drawn)
            report(f"exam: {len(drawn):,} attempts drawn, {wrong} of them wrong")
            left = count - len(drawn) if len(drawn) < count else LIMIT * count - len(drawn)
            asked = questions(self.seed)[len(drawn) :][: min(DRAW_BATCH, count, left)]
            if not asked and len(drawn) < count:
                raise ConfigurationError(f"there are {len(drawn):,} steps to draw: ask for fewer attempts")
            if not asked:
                break
            drawn += asyncio.run(self._drawn(asked))
            write_lines(self.folder / ATTEMPTS_NAME, drawn)
        return drawn

    async def draw(self, requests: Sequence[ImageRequest]) -> list[Image]:
        """Draw many images concurrently."""
        if not requests:
            return []
        generator = backends.RetriedGenerator("the generator", self.generator())
        at_once = min(self.concurrency, generator.capabilities.concurrency or self.concurrency)
        return await concurrently(requests, generator.generate, at_once)

    async def _drawn(self, questions: Sequence[Question]) -> list[Attempt]:
        befores = await self._befores(questions)
        asked = [
            ImageRequest(each.prompt, each.seed(1), (before,) if before else (), each.slot)
            for each, before in zip(questions, befores, strict=True)
        ]
        afters = await self.draw(asked)
        readings = await asyncio.to_thread(read_images, afters)
        names = await asyncio.to_thread(self.keep, [*befores, *afters])
        return [
            Attempt(
                id=each.id,
                suite=each.suite,
                prompt=each.prompt,
                before=before,
                after=str(after),
                right=shows(reading, each.target),
            )
            for each, before, after, reading in zip(
                questions, names[: len(befores)], names[len(befores) :], readings, strict=True
            )
        ]

    async def _befores(self, questions: Sequence[Question]) -> list[Image | None]:
        """The image before every step: the generator's own if it is right and not given by the user."""
        wanted = [(each, each.before) for each in questions if each.before and not each.given]
        drawn = await self.draw(
            [ImageRequest(scene_prompt(scene, exact=True), each.seed(0)) for each, scene in wanted]
        )
        readings = await asyncio.to_thread(read_images, drawn)
        own = {
            each.id: image
            for (each, scene), image, reading in zip(wanted, drawn, readings, strict=True)
            if shows(reading, scene)
        }
        return [own.get(each.id) or (draw(each.before) if each.before else None) for each in questions]

    def keep(self, images: Sequence[Image | None]) -> list[str | None]:
        """Store images and return their names."""
        self.folder.mkdir(parents=True, exist_ok=True)
        store = self.store
        with ThreadPoolExecutor(IMAGE_THREADS) as pool:
            return list(pool.map(lambda image: store.put(image) if image else None, images))

    def _keep_settings(self, settings: ExamSettings) -> None:
        path = self.folder / SETTINGS_NAME
        there = read_lines(path, ExamSettings)
        if there and there[0] != settings:
            raise ConfigurationError(
                f"the exam in {self.folder} was drawn by {there[0].generator!r} with the seed "
                f"{there[0].seed}: choose another --out"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        write_lines(path, [settings])


def of_other_steps(attempts: Sequence[Attempt], targets: Mapping[str, Scene]) -> list[Attempt]:
    """Attempts with the right image of another step of the same task in place of their own: all wrong."""
    tasks: dict[str, list[Attempt]] = {}
    for each in attempts:
        tasks.setdefault(each.id.rpartition("/")[0], []).append(each)
    return [
        asked.model_copy(update={"id": f"{asked.id}:{shown.id}", "after": shown.after, "right": False})
        for steps in tasks.values()
        for asked in steps
        for shown in steps
        if shown.right and targets[shown.id] != targets[asked.id]
    ]


@cache
def questions(seed: int) -> tuple[Question, ...]:
    """Every step of every task, in the order of a seed; a task of each suite in turn."""
    rounds = zip(*(shipped_tasks(suite, seed=seed) for suite in SUITES), strict=False)
    return tuple(question for tasks in rounds for task in tasks for question in _steps(task))


def _steps(task: Task) -> Iterator[Question]:
    for place, step in enumerate(task.steps):
        yield Question(
            id=f"{task.id}/{place}",
            suite=task.suite,
            prompt=step.prompt,
            before=step.before,
            given=place == 0 and step.before is not None,
            target=step.scene,
            slot=Slot(task.first_number + place, 1),
        )


def _is_enough(there: Sequence[Attempt], count: int, failures: int) -> bool:
    wrong = sum(not each.right for each in there)
    return len(there) >= count and (wrong >= failures or len(there) >= LIMIT * count)


async def concurrently(
    given: Sequence[Item], do: Callable[[Item], Awaitable[ItemResult]], limit: int
) -> list[ItemResult]:
    """The results in order, with at most `limit` calls at once."""
    slots = asyncio.Semaphore(limit)

    async def one(each: Item) -> ItemResult:
        async with slots:
            return await do(each)

    return list(await asyncio.gather(*(one(each) for each in given)))


Line = TypeVar("Line", bound=Value)


def read_lines(path: Path, kind: type[Line]) -> list[Line]:
    """The values of a JSONL file; empty when the file is missing or of another kind."""
    try:
        return [kind.model_validate_json(line) for line in path.read_bytes().splitlines()]
    except (OSError, ValidationError):
        return []


def write_lines(path: Path, values: Sequence[Value]) -> None:
    write_atomic(path, "".join(f"{value.model_dump_json()}\n" for value in values).encode())
