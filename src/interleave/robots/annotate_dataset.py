"""Annotate many episodes concurrently; an interrupted annotation resumes with the same call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interleave import InputError, ReplyError
from interleave.robots.annotation_file import AnnotationWriter, EpisodeAnnotation
from interleave.robots.annotator import Annotator
from interleave.robots.lerobot.dataset import Camera, Dataset, Episode, frame_times
from interleave.robots.lerobot.videos import Video
from interleave.robots.replies import SheetSegment
from interleave.robots.video_segments import FrameSampling, annotate_video

if TYPE_CHECKING:
    from PIL.Image import Image

DEFAULT_CONCURRENCY = 16
LONGEST_ERROR = 500


@dataclass(frozen=True)
class AnnotationJob:
    """The dataset, the annotator and its settings."""

    dataset: Dataset
    camera: Camera
    annotator: Annotator
    sampling: FrameSampling

    async def episodes(
        self,
        chosen: Sequence[Episode],
        writer: AnnotationWriter,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        retry_failed: bool = False,
    ) -> AsyncGenerator[EpisodeAnnotation]:
        """Annotate the remaining episodes, and yield each when its line is on disk.

        An episode that cannot be read or segmented gets a line with the reason. A backend error ends the job.
        """
        remaining = [each for each in chosen if _remains(writer.done.get(each.index), retry_failed)]
        running: set[asyncio.Task[EpisodeAnnotation]] = set()
        waiting = iter(remaining)
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
        """Annotate one episode; a failure is an annotation with an error."""
        counted = _Counted(self.annotator)
        made = EpisodeAnnotation(
            episode=episode.index, task=episode.task, frames=episode.length, fps=self.dataset.fps
        )
        try:
            await asyncio.to_thread(frame_times, self.dataset, episode)
            video = Video(self.dataset, episode, self.camera)
            segments = await annotate_video(counted, video, episode.task, self.sampling)
        except (InputError, ReplyError) as error:
            problem = str(error)[:LONGEST_ERROR]
            return made.model_copy(update={"calls": counted.calls, "error": problem})
        return made.model_copy(update={"calls": counted.calls, "segments": tuple(segments)})


def _remains(existing: EpisodeAnnotation | None, retry_failed: bool) -> bool:
    return existing is None or (retry_failed and existing.error is not None)


class _Counted:
    """An annotator that counts its calls."""

    def __init__(self, annotator: Annotator) -> None:
        self.annotator = annotator
        self.calls = 0

    async def segments(self, task: str, frames: Sequence[Image]) -> tuple[SheetSegment, ...]:
        self.calls += 1
        return await self.annotator.segments(task, frames)

    async def boundary(self, earlier: str, later: str, frames: Sequence[Image]) -> int:
        self.calls += 1
        return await self.annotator.boundary(earlier, later, frames)
