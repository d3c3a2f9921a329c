"""Requests of the miniature's grammar, with their pictures as files beside the corpus."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from interleave.data.prompts.rows import PICTURES, JsonPart, RequestRow
from interleave.errors import ConfigurationError, InputError, did_you_mean
from interleave.mini.language.splits import SPLITS
from interleave.mini.language.tasks import SUITES, Task, tasks
from interleave.mini.world.drawing import draw
from interleave.mini.world.scene import Scene
from interleave.runs.store import PictureStore

DRAWS = 3
"""So many times as many tasks are looked at as are wanted, so that rare topics get their share."""


def mini_requests(
    folder: Path,
    items: int,
    *,
    suites: Sequence[str] = SUITES,
    split: str = "train",
    seed: int = 0,
    progress: Callable[[int], None] = lambda written: None,
) -> list[RequestRow]:
    """Different requests, evenly over the suites and their topics; pictures are put below the folder."""
    _check(suites, split)
    store, rows = _Pictures(folder), []
    for suite, share in zip(suites, _shares(items, len(suites)), strict=True):
        for task in _balanced(tasks(suite, split, seed=seed), share, suite):
            rows.append(_row(task, store))
            progress(len(rows))
    return sorted(rows, key=lambda row: row.id.rpartition("-")[2])  # suites mixed, any first part balanced


def _check(suites: Sequence[str], split: str) -> None:
    for suite in suites:
        if suite not in SUITES:
            raise ConfigurationError(f"no suite named {suite!r}. {did_you_mean(suite, SUITES)}")
    if len(set(suites)) < len(suites):
        raise ConfigurationError("a suite is named twice: name each once")
    if split not in SPLITS:
        raise ConfigurationError(f"no split named {split!r}. {did_you_mean(split, SPLITS)}")


def _shares(items: int, among: int) -> list[int]:
    each, more = divmod(items, among)
    return [each + (place < more) for place in range(among)]


def _balanced(stream: Iterator[Task], items: int, suite: str) -> list[Task]:
    """So many tasks, no topic with more than its share as long as others have any."""
    taken: list[Task] = []
    surplus: list[Task] = []
    seen: Counter[str] = Counter()
    for _ in range(DRAWS * items):
        try:
            task = next(stream)
        except InputError as error:  # the grammar has no more
            if len(taken) + len(surplus) >= items:
                break
            raise InputError(
                f"{error}: ask for fewer with --items, or for other suites with --suite"
            ) from None
        seen[task.topic] += 1
        room = math.ceil(items / len(seen))
        (taken if seen[task.topic] <= room else surplus).append(task)
        if len(taken) == items:
            break
    return [*taken, *surplus][:items]


class _Pictures(PictureStore):
    """The pictures of a corpus, in `images/` beside its file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._names: dict[Scene, str] = {}

    def part(self, scene: Scene) -> JsonPart:
        if scene not in self._names:
            self._names[scene] = self.put(draw(scene))
        return {"image": f"{PICTURES}/{self._names[scene]}"}


def _row(task: Task, store: _Pictures) -> RequestRow:
    parts = tuple({"text": part} if isinstance(part, str) else store.part(part) for part in task.parts)
    only = parts[0].get("text") if len(parts) == 1 else None
    return RequestRow(
        id=task.id,
        request=only if only is not None else parts,
        domain=task.domain,
        subcategory=task.topic,
        template=task.template,
        suite=task.suite,
        split=task.split,
    )
