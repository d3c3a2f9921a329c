"""Frames of an episode as images: from a film, by PyAV, or from the rows themselves."""

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
"""Frames that are decoded at most on the way to a wanted one, which a seek brings near."""


class Film:
    """The frames of one episode, as one camera saw them."""

    def __init__(self, dataset: Dataset, episode: Episode, camera: Camera) -> None:
        self.dataset, self.episode, self.camera = dataset, episode, camera

    @property
    def length(self) -> int:
        return self.episode.length

    def frames(self, places: Sequence[int]) -> list[Image]:
        """The frames at these places, from 0; raises `InputError` where the film lacks one."""
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
                    raise InputError(f"{clip.path} has no video in it")
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
                f"{clip.path} has no frame at {clip.start + missing[0] / fps:.3f} s, where frame "
                f"{missing[0]} of episode {self.episode.index} should be at {fps:g} frames a second"
            )
        return found

    def _look_for(
        self, place: int, wanted: Sequence[int], container: Any, stream: Any, found: dict[int, Image]
    ) -> None:
        """Seek to a frame, and keep the wanted ones from there on, until there is a long way to the next."""
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
                f"{path} has images of {size[0]}×{size[1]}, and the dataset says "
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
                f"{image.width}×{image.height} pixels, and the dataset says "
                f"{self.camera.size[0]}×{self.camera.size[1]}"
            )
        return image
