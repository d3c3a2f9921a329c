"""Frames of an episode as images, from a video with PyAV or from the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from interleave import InputError
from interleave.plugin import files, images
from interleave.robots.lerobot.dataset import Camera, Dataset, Episode, rows_of
from interleave.robots.lerobot.libraries import av

if TYPE_CHECKING:
    from PIL.Image import Image

LONGEST_SEARCH = 2000
"""Maximum frames decoded after a seek to reach a requested one."""


class Video:
    """The frames of one episode from one camera."""

    def __init__(self, dataset: Dataset, episode: Episode, camera: Camera) -> None:
        self.dataset, self.episode, self.camera = dataset, episode, camera

    @property
    def length(self) -> int:
        return self.episode.length

    def frames(self, places: Sequence[int]) -> list[Image]:
        """Return the frames at these indexes, from 0; raise `InputError` if the video lacks one."""
        if bad := [place for place in places if not 0 <= place < self.length]:
            raise ValueError(f"episode {self.episode.index} has no frame {bad[0]}")
        found = self._from_video(places) if self.camera.is_video else self._from_rows(places)
        return [found[place] for place in places]

    def _from_video(self, places: Sequence[int]) -> dict[int, Image]:
        clip, fps = self.episode.clips[self.camera.name], self.dataset.fps
        if not clip.path.is_file():
            raise InputError(f"{clip.path} is missing: it shows episode {self.episode.index}")
        found: dict[int, Image] = {}
        try:
            with av().open(str(clip.path)) as container:
                if not container.streams.video:
                    raise InputError(f"{clip.path} has no video stream")
                stream = container.streams.video[0]
                stream.thread_type = "AUTO"
                self._check_size(stream, clip.path)
                for place in sorted(set(places)):
                    if place not in found:
                        self._look_for(place, sorted(set(places)), container, stream, found)
        except av().error.FFmpegError as error:
            raise InputError(
                f"{clip.path} cannot be decoded ({files.why(error)}): it shows episode {self.episode.index}"
            ) from None
        if missing := [place for place in places if place not in found]:
            raise InputError(
                f"{clip.path} has no frame at {clip.start + missing[0] / fps:.3f} s, the time of frame "
                f"{missing[0]} of episode {self.episode.index} at {fps:g} frames per second"
            )
        return found

    def _look_for(
        self, place: int, wanted: Sequence[int], container: Any, stream: Any, found: dict[int, Image]
    ) -> None:
        """Seek to a frame, and collect requested frames until the next one is far away."""
        clip, fps = self.episode.clips[self.camera.name], self.dataset.fps
        time = clip.start + place / fps
        container.seek(max(0, int((time - 0.5 / fps) / stream.time_base)), stream=stream)
        rest = [each for each in wanted if each >= place]
        for decoded in self._decoded(container, stream):
            at = (float(decoded.time or 0.0) - clip.start) * fps
            here = round(at)
            if here in rest and abs(at - here) <= 0.25 and here not in found:
                found[here] = decoded.to_image()
                rest = [each for each in rest if each > here]
            if not rest or here > rest[0] + fps:
                return

    def _decoded(self, container: Any, stream: Any) -> Iterator[Any]:
        for count, frame in enumerate(container.decode(stream)):
            if count > LONGEST_SEARCH + self.length:
                return
            yield frame

    def _check_size(self, stream: Any, path: Any) -> None:
        size = (stream.codec_context.width, stream.codec_context.height)
        if size != self.camera.size:
            raise InputError(
                f"{path} has images of {size[0]}×{size[1]}, but the dataset specifies "
                f"{self.camera.size[0]}×{self.camera.size[1]} for {self.camera.name!r}"
            )

    def _from_rows(self, places: Sequence[int]) -> dict[int, Image]:
        rows = rows_of(self.dataset, self.episode, [self.camera.name])
        return {place: self._stored(rows[place][self.camera.name], place) for place in places}

    def _stored(self, value: Any, place: int) -> Image:
        data = value.get("bytes") if isinstance(value, dict) else None
        if not data:
            raise InputError(
                f"{self.episode.data}: frame {place} of episode {self.episode.index} has no image"
            )
        image = images.decode_image(data, name=f"frame {place} of episode {self.episode.index}")
        if image.size != self.camera.size:
            raise InputError(
                f"{self.episode.data}: frame {place} of episode {self.episode.index} has "
                f"{image.width}×{image.height} pixels, but the dataset specifies "
                f"{self.camera.size[0]}×{self.camera.size[1]}"
            )
        return image
