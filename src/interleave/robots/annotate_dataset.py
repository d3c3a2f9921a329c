"""Annotate many episodes at once; the same call goes on where an interrupted one was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interleave import InputError, ReplyError
from interleave.robots.annotation_file import AnnotationWriter, EpisodeAnnotation
from interleave.robots.annotator import Annotator
from interleave.robots.lerobot.dataset import Camera, Dataset, Episode, frame_times
from interleave.robots.lerobot.videos import Film
from interleave.robots.replies import SheetSegment
from interleave.robots.video_segments import Looking, annotate_film

if TYPE_CHECKING:
    from PIL.Image import Image

DEFAULT_CONCURRENCY = 16
LONGEST_ERROR = 500


@dataclass(frozen=True)
class Annotating:
    """What is annotated, by whom and how."""

    dataset: Dataset
    camera: Camera
    annotator: Annotator
    looking: Looking

    async def episodes(
        self,
        chosen: Sequence[Episode],
        writer: AnnotationWriter,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        retry_failed: bool = False,
    ) -> AsyncGenerator[EpisodeAnnotation]:
        """Annotate the episodes that are not done, and yield each when its line is on disk.

        An episode that cannot be read or divided gets a line with the reason; a backend that fails ends all.
        """
        left = [each for each in chosen if _is_left(writer.done.get(each.index), retry_failed)]
        running: set[asyncio.Task[EpisodeAnnotation]] = set()
        waiting = iter(left)
        try:
            while True:
                while len(running) < concurrency and (episode := next(waiting, None)) is not None:
                    running.add(asyncio.create_task(self.annotated(episode)))
                if not running:
                    return
                ended, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    writer.add(task.result())
                    yield task.result()
        finally:
            for task in running:
                task.cancel()

    async def annotated(self, episode: Episode) -> EpisodeAnnotation:
        """The annotation of one episode, or why there is none."""
        counted = _Counted(self.annotator)
        made = EpisodeAnnotation(
            episode=episode.index, task=episode.task, frames=episode.length, fps=self.dataset.fps
        )
        try:
            await asyncio.to_thread(frame_times, self.dataset, episode)
            film = Film(self.dataset, episode, self.camera)
            segments = await annotate_film(counted, film, episode.task, self.looking)
        except (InputError, ReplyError) as error:
            problem = str(error)[:LONGEST_ERROR]
            return made.model_copy(update={"calls": counted.calls, "error": problem})
        return made.model_copy(update={"calls": counted.calls, "segments": tuple(segments)})


def _is_left(there: EpisodeAnnotation | None, retry_failed: bool) -> bool:
    return there is None or (retry_failed and there.error is not None)


class _Counted:
    """An annotator whose calls are counted."""

    def __init__(self, annotator: Annotator) -> None:
        self.annotator = annotator
        self.calls = 0

    async def segments(self, task: str, frames: Sequence[Image]) -> tuple[SheetSegment, ...]:
        self.calls += 1
        return await self.annotator.segments(task, frames)

    async def boundary(self, earlier: str, later: str, frames: Sequence[Image]) -> int:
        self.calls += 1
        return await self.annotator.boundary(earlier, later, frames)
