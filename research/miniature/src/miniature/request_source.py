"""Requests sampled from the miniature's grammar (`--source mini`), with their images as files."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path

from interleave import ConfigurationError, InputError
from interleave.plugin import ImageStore, did_you_mean
from interleave.train.data.prompts.corpus import IMAGES, JsonPart, RequestRow
from interleave.train.data.prompts.stage import RequestSource
from interleave.train.data.prompts.taxonomy import Key
from interleave_mini.bench.splits import SPLITS
from interleave_mini.bench.tasks import SUITES, Task
from interleave_mini.world.drawing import draw
from interleave_mini.world.scene import Scene
from miniature.grammar.tasks import tasks

DRAWS = 4
"""Maximum number of tasks sampled per task kept, so that rare topics get their share."""
DRAWS_WITHOUT_NEWS = 500
"""Number of tasks without a new topic after which all topics count as found."""
MAX_THREADS = 4
"""Maximum threads; more would wait for the GIL, as a quarter of the work on an image is Python."""


def mini_requests(
    folder: Path,
    items: int,
    *,
    suites: Sequence[str] = SUITES,
    split: str = "train",
    seed: int = 0,
    progress: Callable[[int], None] = lambda written: None,
) -> list[RequestRow]:
    """Return distinct requests, balanced over suites and topics; write their images below `folder`."""
    suites = suites or SUITES
    _check(suites, split)
    shares = _shares(items, len(suites))
    pools = [
        _Pool(tasks(suite, split, seed=seed), share)
        for suite, share in zip(suites, shares, strict=True)
        if share
    ]
    chosen: list[Task] = []
    so_far: Counter[Key] = Counter()
    while len(chosen) < items:
        # round robin, so that any prefix of the corpus is balanced too
        chosen += [pool.take(so_far) for pool in pools[: items - len(chosen)]]
    return _rows(chosen, _Images(folder), progress)


def _rows(chosen: Sequence[Task], store: _Images, progress: Callable[[int], None]) -> list[RequestRow]:
    """Return the rows in order; images are compressed in threads, which releases the GIL."""
    rows: list[RequestRow] = []
    with ThreadPoolExecutor(min(MAX_THREADS, cpu_count() or 1)) as threads:
        for row in threads.map(lambda task: _row(task, store), chosen):
            rows.append(row)
            progress(len(rows))
    return rows


def _check(suites: Sequence[str], split: str) -> None:
    for suite in suites:
        if suite not in SUITES:
            raise ConfigurationError(f"no suite named {suite!r}. {did_you_mean(suite, SUITES)}")
    if len(set(suites)) < len(suites):
        raise ConfigurationError("a suite is named twice: name each suite once")
    if split not in SPLITS:
        raise ConfigurationError(f"no split named {split!r}. {did_you_mean(split, SPLITS)}")


def _shares(items: int, among: int) -> list[int]:
    each, more = divmod(items, among)
    return [each + (place < more) for place in range(among)]


class _Pool:
    """Tasks of a suite, sampled ahead so that rare topics get their share."""

    def __init__(self, stream: Iterator[Task], items: int) -> None:
        self._tasks: dict[Key, deque[Task]] = {}
        for task in _ahead(stream, items):
            self._tasks.setdefault((task.domain, task.topic), deque()).append(task)
        self._order = {key: place for place, key in enumerate(_domains_in_turn(self._tasks))}
        self._taken: Counter[Key] = Counter()

    def take(self, so_far: Counter[Key]) -> Task:
        """Return a task of the topic taken least from this suite; on a tie, the one taken least overall."""
        key = min(self._order, key=lambda key: (self._taken[key], so_far[key], self._order[key]))
        task = self._tasks[key].popleft()
        self._taken[key] += 1
        so_far[key] += 1
        if not self._tasks[key]:
            del self._order[key]
        return task


def _ahead(stream: Iterator[Task], items: int) -> Iterator[Task]:
    """Yield tasks until every topic has its share or the limit is reached, and while new topics appear."""
    found: Counter[Key] = Counter()
    drawn = last_new = 0
    while not (drawn >= DRAWS * items or _enough(found, items)) or drawn - last_new < DRAWS_WITHOUT_NEWS:
        try:
            task = next(stream)
        except InputError as error:  # the grammar is exhausted
            if drawn >= items:
                return
            raise InputError(
                f"{error}: ask for fewer with --items, or for other suites with --suite"
            ) from None
        drawn += 1
        if (key := (task.domain, task.topic)) not in found:
            last_new = drawn
        found[key] += 1
        yield task


def _enough(found: Counter[Key], items: int) -> bool:
    """Return whether `items` tasks can be taken evenly over the topics found."""
    return found.total() >= items and min(found.values()) * len(found) >= items + len(found)


def _domains_in_turn(keys: Iterable[Key]) -> list[Key]:
    """Order topics round robin over domains, so that a small corpus has all domains."""
    place: Counter[str] = Counter()
    order: dict[Key, int] = {}
    for domain, topic in keys:
        order[domain, topic] = place[domain]
        place[domain] += 1
    return sorted(order, key=lambda key: order[key])


class _Images(ImageStore):
    """The images of a corpus, in `images/` next to its file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._names: dict[Scene, str] = {}

    def part(self, scene: Scene) -> JsonPart:
        if scene not in self._names:
            self._names[scene] = self.put(draw(scene))
        return {"image": f"{IMAGES}/{self._names[scene]}"}


def _row(task: Task, store: _Images) -> RequestRow:
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


SOURCE = RequestSource(mini_requests)
