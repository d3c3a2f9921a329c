"""What a benchmark is. A class and the words of its judge make a new one, here or in another package."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from interleave import (
    ConfigurationError,
    GivenAsset,
    InputError,
    InterleaveError,
    Message,
    Reply,
    Request,
    Sampling,
    read_image,
)
from interleave.bench.datasets import HubData
from interleave.bench.numbers import Number
from interleave.bench.prompts import Constant, JudgePrompts
from interleave.plugin import Value

if TYPE_CHECKING:
    from PIL.Image import Image

    from interleave.bench.outputs import Output

Status = Literal["ok", "unparsed", "refused", "api_error", "missing_output"]
"""How a question to the judge ended. Only `ok` carries a value: a failure is never a number."""
STATUSES: tuple[Status, ...] = ("ok", "unparsed", "refused", "api_error", "missing_output")
Policy = Literal["zero", "drop", "stop"]
"""What a question without a value counts as: the worst value, nothing, or the end of scoring."""


class Unparsed(InterleaveError):
    """A reply of the judge that holds no value, or more than one."""


class MissingOutput(Unparsed):
    """An output without what a question is about, such as an image."""


@dataclass(frozen=True)
class ItemAsset:
    """A named thing of an item that must stay the same."""

    name: str
    description: str = ""
    image: Path | None = None
    key: str = ""
    """What the benchmark calls it."""


@dataclass(frozen=True)
class Item:
    """One task of a benchmark."""

    id: str
    group: str
    """The task, category or edit type that numbers are averaged over."""
    parts: tuple[str | Path | Image, ...] = ()
    """What the system is asked: texts, and images or their paths, in order."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the judge and the numbers need to know: criteria, references, human verdicts."""
    assets: tuple[ItemAsset, ...] = ()

    @property
    def request(self) -> Request:
        """The request, with its images read from disk."""
        request = Request.of(list(self.parts))
        assets = tuple(
            GivenAsset(
                each.name, read_image(each.image) if each.image else None, description=each.description
            )
            for each in self.assets
        )
        return replace(request, assets=assets) if assets else request

    @property
    def prompt(self) -> str:
        return "\n".join(part for part in self.parts if isinstance(part, str))


@dataclass(frozen=True)
class Dataset:
    """The items of a benchmark, and where they came from."""

    items: tuple[Item, ...]
    revision: str
    """A commit, or a digest of the files: part of the name of every number."""
    source: str
    notes: tuple[str, ...] = ()
    """What was found when it was checked: counts, licence, what is odd."""

    def __post_init__(self) -> None:
        times = Counter(item.id for item in self.items)
        if twice := [name for name, count in times.items() if count > 1]:
            raise InputError(f"{self.source}: the item {twice[0]!r} stands there twice")

    def first(self, count: int | None) -> Dataset:
        """The first items of every group in turn, so that a small sample has all groups."""
        if count is None or count >= len(self.items):
            return self
        waiting: dict[str, list[Item]] = {}
        for item in self.items:
            waiting.setdefault(item.group, []).append(item)
        turns = [
            item
            for _, item in sorted(
                ((place, item) for group in waiting.values() for place, item in enumerate(group)),
                key=lambda pair: pair[0],
            )
        ]
        chosen = {item.id for item in turns[:count]}
        kept = tuple(item for item in self.items if item.id in chosen)
        note = f"{len(kept)} of {len(self.items)} items"
        return Dataset(kept, f"{self.revision}+first{count}", self.source, (*self.notes, note))


@dataclass(frozen=True)
class Question:
    """One call of the judge."""

    messages: tuple[Message, ...]
    parse: Callable[[str], Any]
    """The value of a reply, as JSON can hold it; raises `Unparsed`."""
    sampling: Sampling = field(default_factory=Sampling)
    read: Callable[[Reply], Any] | None = None
    """The value of a whole reply, where it takes more than the text, such as token probabilities."""


class JudgeRecord(Value):
    """One call of the judge, or why there was none."""

    item: str
    key: str
    """Which question about the item it is."""
    output: str
    """A digest of the output that was judged; the same output is never paid for twice."""
    status: Status
    value: Any = None
    reply: str = ""
    reason: str = ""
    """Why there is no value."""
    tries: int = 0
    cost: float | None = None
    judge: str = ""
    prompts: str = ""
    """The hash of the judge's prompts."""


@dataclass(frozen=True)
class Judge:
    """The judge that a benchmark's published numbers were made with."""

    name: str
    """As its publishers write it, with the version."""
    spec: str
    """How it is reached from here."""


class Answers:
    """The judge's values for one item, with a policy for those that are missing."""

    def __init__(
        self, records: Mapping[str, JudgeRecord], missing: Callable[[str, Status], Any | None]
    ) -> None:
        self._records = records
        self._missing = missing

    def __getitem__(self, key: str) -> Any | None:
        """The value; None where it is to be left out."""
        record = self._records.get(key)
        if record is not None and record.status == "ok":
            return record.value
        return self._missing(key, record.status if record is not None else "missing_output")


@dataclass(frozen=True)
class Context:
    """What a question is made with."""

    prompts: JudgePrompts
    folder: Path
    """What the paths of output images are relative to."""
    records: Mapping[str, JudgeRecord] = field(default_factory=dict)
    """Questions about the same item that were asked before, by key."""


class Benchmark(ABC):
    """Items, questions about each output, and numbers.

    A benchmark of systems has outputs; one of critics has none, and its items hold what is to be judged.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    version: ClassVar[str] = "1"
    """Rises when a number of ours would change for the same records."""
    licence: ClassVar[str]
    """Of the data."""
    judge: ClassVar[Judge]
    hub: ClassVar[HubData | None] = None
    """Where the data is, unless a folder is given."""
    checkout: ClassVar[str] = ""
    """The name of the repository that has the data in it, which a folder of data may have too."""
    official_prompts: ClassVar[Mapping[str, Constant]] = {}
    """Where the judge's templates stand in a checkout of the benchmark."""
    asks_as: ClassVar[str | None] = None
    """The benchmark whose words it asks in, where it has none of its own."""
    data_as: ClassVar[str | None] = None
    """The benchmark whose data it reads, where it has none of its own."""
    tests: ClassVar[Literal["systems", "critics"]] = "systems"
    about: ClassVar[str] = ""
    """What a reader of the numbers must know, in a sentence."""

    @property
    def package_folders(self) -> list[Path]:
        """What holds `judge_prompts/` and `published/`: its module's folder, then those it extends."""
        modules = [sys.modules[each.__module__] for each in type(self).__mro__ if issubclass(each, Benchmark)]
        return [Path(module.__file__).parent for module in modules if module.__file__]

    # data

    @abstractmethod
    def read(self, folder: Path) -> Dataset:
        """The items of a folder; raises `InputError` for files that are missing or have another form."""

    # judging

    def words(self, pack: str | None) -> JudgePrompts | None:
        """The words it asks in, where they are not those of a judge but those of a prompt pack."""
        return None

    @abstractmethod
    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        """The questions about an item, in the order in which they are asked."""

    @abstractmethod
    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        """One of them. Raises `Unparsed` where it needs an earlier answer that has no value."""

    def criterion(self, key: str, item: Item) -> str:
        """What a question asks, for a reader of the page."""
        return key

    # numbers

    full_marks: ClassVar[float] = 1.0
    """What the first number is, before it is scaled, for an item that is solved."""

    def item_score(self, measures: Mapping[str, float | None]) -> float | None:
        """What pages sort an item by, where no number has a value for one item alone."""
        return None

    def worst(self, key: str) -> Any:
        """The value that `zero` gives a question without one."""
        return 0

    def official(self, measure: str, key: str, status: Status) -> Policy:
        """What upstream's own script makes of a question without a value."""
        return "drop"

    @abstractmethod
    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        """What an item contributes to each measure; None where nothing is left of it."""

    @abstractmethod
    def numbers(self) -> Sequence[Number]:
        """The numbers to report, from the measures of all items; the first is the headline."""

    # the official layout

    def export(self, dataset: Dataset, outputs: Mapping[str, Output], base: Path, folder: Path) -> None:
        """Write outputs as upstream's own scripts want them."""
        raise ConfigurationError(f"{self.name} has no outputs that could be exported")

    def import_outputs(self, dataset: Dataset, folder: Path) -> Iterator[Output]:
        """Read outputs that were made elsewhere, from the official layout."""
        raise ConfigurationError(f"{self.name} has no outputs to import")

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        """Read what upstream's own script has written for its judge."""
        raise ConfigurationError(f"{self.name} has no judgements to import")
