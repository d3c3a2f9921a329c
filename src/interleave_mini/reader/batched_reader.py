"""The reading room: pictures that many ask about at once are read together, and none is read twice.

Whoever asks waits for a future. One thread reads: all that has come in while it read the last pictures is its
next batch, so nobody waits for company, and the more is asked at once the larger the batches are.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

from interleave.pictures import pixel_digest
from interleave_mini.reader.scene_reader import Reader, Reading, shared_reader

if TYPE_CHECKING:
    from PIL.Image import Image

READINGS_KEPT = 32_768
AT_ONCE = 256


class ReadingRoom:
    """A reader that many may ask, from threads and from coroutines."""

    def __init__(self, reader: Reader | None = None, *, keep: int = READINGS_KEPT) -> None:
        self._reader = reader
        self._keep = keep
        self._kept: OrderedDict[str, Reading] = OrderedDict()
        self._asked: dict[str, Future[Reading]] = {}
        self._waiting: dict[str, Image] = {}
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="interleave-reader")

    def read(self, picture: Image) -> Reading:
        """What is seen in a picture; waits."""
        return self.ask(picture).result()

    async def read_all(self, pictures: Sequence[Image]) -> list[Reading]:
        """What is seen in some pictures, while other coroutines go on."""
        return list(await asyncio.gather(*(asyncio.wrap_future(self.ask(each)) for each in pictures)))

    def ask(self, picture: Image) -> Future[Reading]:
        """The reading of a picture, as soon as it is there."""
        key = pixel_digest(picture)
        with self._lock:
            if (known := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                answer: Future[Reading] = Future()
                answer.set_result(known)
                return answer
            if key not in self._asked:
                self._asked[key] = Future()
                self._waiting[key] = picture
                self._thread.submit(self._take_turn)
            return _view(self._asked[key])

    def _take_turn(self) -> None:
        """Read what waits, if anything still does: every question asks for a turn, many for nothing."""
        with self._lock:
            batch = {key: self._waiting.pop(key) for key in list(self._waiting)[:AT_ONCE]}
        if not batch:
            return
        try:
            found: dict[str, Reading | BaseException] = dict(
                zip(batch, self._read(list(batch.values())), strict=True)
            )
        except Exception:
            found = {key: self._alone(picture) for key, picture in batch.items()}
        self._answer(found)

    def _read(self, pictures: list[Image]) -> list[Reading]:
        if self._reader is None:
            self._reader = _suitable_reader()
        return self._reader.read_many(pictures)

    def _alone(self, picture: Image) -> Reading | BaseException:
        """What one picture comes to, where a batch with it has failed."""
        try:
            return self._read([picture])[0]
        except Exception as error:
            return error

    def _answer(self, found: dict[str, Reading | BaseException]) -> None:
        with self._lock:
            futures = {key: self._asked.pop(key) for key in found}
            self._kept.update((key, each) for key, each in found.items() if isinstance(each, Reading))
            while len(self._kept) > self._keep:
                self._kept.popitem(last=False)
        for key, each in found.items():
            if isinstance(each, Reading):
                futures[key].set_result(each)
            else:
                futures[key].set_exception(each)


def _view(answer: Future[Reading]) -> Future[Reading]:
    """A future of one's own: who gives up waiting must not take the answer from the others."""
    mine: Future[Reading] = Future()

    def tell(done: Future[Reading]) -> None:
        if not mine.set_running_or_notify_cancel():
            return
        error = done.exception()
        if error is not None:
            mine.set_exception(error)
        else:
            mine.set_result(done.result())

    answer.add_done_callback(tell)
    return mine


def _suitable_reader() -> Reader:
    """On a GPU where this process has one in use already; else with numpy, which needs no torch."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return Reader("cuda")
    return shared_reader()


@cache
def shared_room() -> ReadingRoom:
    """The reading room of this process."""
    return ReadingRoom()


os.register_at_fork(after_in_child=shared_room.cache_clear)  # threads do not go along
