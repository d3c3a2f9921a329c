"""The benchmark interface. A class and a file of judge prompts define one, here or in another package."""

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
"""How a question to the judge ended. Only `ok` carries a value: a failure never becomes a number."""
STATUSES: tuple[Status, ...] = ("ok", "unparsed", "refused", "api_error", "missing_output")
Policy = Literal["zero", "drop", "stop"]
"""How a question without a value counts: as the worst value, not at all, or as an error."""


class Unparsed(InterleaveError):
    """A judge's reply with no value, or with several."""


class MissingOutput(Unparsed):
    """An output that lacks the subject of a question, such as an image."""


@dataclass(frozen=True)
class ItemAsset:
    """A named asset of an item whose look must stay the same."""

    name: str
    description: str = ""
    image: Path | None = None
    key: str = ""
    """The benchmark's own name for it."""


@dataclass(frozen=True)
class Item:
    """One task of a benchmark."""

    id: str
    group: str
    """The task, category or edit type over which numbers are averaged."""
    parts: tuple[str | Path | Image, ...] = ()
    """The request to the system: texts, and images or their paths, in order."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts for the judge and the numbers: criteria, references, human verdicts."""
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
    """The items of a benchmark, with their source."""

    items: tuple[Item, ...]
    revision: str
    """A commit, or a digest of the files. Part of the id of every number."""
    source: str
    notes: tuple[str, ...] = ()
    """Findings of the check: counts, licence, irregularities."""

    def __post_init__(self) -> None:
        times = Counter(item.id for item in self.items)
        if twice := [name for name, count in times.items() if count > 1]:
            raise InputError(f"{self.source}: duplicate item {twice[0]!r}")

    def first(self, count: int | None) -> Dataset:
        """Keep the first `count` items, taken from all groups in turn so that a small sample covers each."""
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
    """One call to the judge."""

    messages: tuple[Message, ...]
    parse: Callable[[str], Any]
    """Parse the reply's text to a JSON value. Raises `Unparsed`."""
    sampling: Sampling = field(default_factory=Sampling)
    read: Callable[[Reply], Any] | None = None
    """Parse the whole reply if the text is not enough, for example to use token probabilities."""


class JudgeRecord(Value):
    """One call to the judge, or the reason why none was made."""

    item: str
    key: str
    """Identifies the question about the item."""
    output: str
    """A digest of the judged output. An output with a record is not judged again."""
    status: Status
    value: Any = None
    reply: str = ""
    reason: str = ""
    """Why the record has no value."""
    tries: int = 0
    cost: float | None = None
    judge: str = ""
    prompts: str = ""
    """Hash of the judge's prompts."""


@dataclass(frozen=True)
class Judge:
    """The judge behind a benchmark's published numbers."""

    name: str
    """The publishers' name for it, with the version."""
    spec: str
    """The model spec that calls it."""


class Answers:
    """The judge's values for one item, with a policy for missing ones."""

    def __init__(
        self, records: Mapping[str, JudgeRecord], missing: Callable[[str, Status], Any | None]
    ) -> None:
        self._records = records
        self._missing = missing

    def __getitem__(self, key: str) -> Any | None:
        """Return the value; `None` if the question is left out."""
        record = self._records.get(key)
        if record is not None and record.status == "ok":
            return record.value
        return self._missing(key, record.status if record is not None else "missing_output")


@dataclass(frozen=True)
class Context:
    """Everything a question is built from."""

    prompts: JudgePrompts
    folder: Path
    """The base folder of output image paths."""
    records: Mapping[str, JudgeRecord] = field(default_factory=dict)
    """Earlier records about the same item, by key."""


class Benchmark(ABC):
    """Items, questions about each output, and numbers.

    A benchmark of systems judges outputs. A benchmark of critics judges the contents of its items.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    version: ClassVar[str] = "1"
    """Incremented when one of our numbers would change for the same records."""
    licence: ClassVar[str]
    """Licence of the data."""
    judge: ClassVar[Judge]
    hub: ClassVar[HubData | None] = None
    """Source of the data unless the user gives a folder."""
    checkout: ClassVar[str] = ""
    """Name of the upstream repository that contains the data. A data folder may have this name too."""
    official_prompts: ClassVar[Mapping[str, Constant]] = {}
    """Locations of the judge's templates in a checkout of the benchmark."""
    asks_as: ClassVar[str | None] = None
    """The benchmark whose prompts it uses, if it has none."""
    data_as: ClassVar[str | None] = None
    """The benchmark whose data it reads, if it has none."""
    tests: ClassVar[Literal["systems", "critics"]] = "systems"
    about: ClassVar[str] = ""
    """One sentence that every reader of the numbers must know."""

    @property
    def package_folders(self) -> list[Path]:
        """Folders with `judge_prompts/` and `published/`: the class's module first, then its base classes."""
        modules = [sys.modules[each.__module__] for each in type(self).__mro__ if issubclass(each, Benchmark)]
        return [Path(module.__file__).parent for module in modules if module.__file__]

    # data

    @abstractmethod
    def read(self, folder: Path) -> Dataset:
        """Read the items of a folder. Raises `InputError` if a file is missing or malformed."""

    # judging

    def words(self, pack: str | None) -> JudgePrompts | None:
        """Return the prompts of a prompt pack, if it uses a pack in place of judge prompts."""
        return None

    @abstractmethod
    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        """Return the keys of the questions about an item, in the order of asking."""

    @abstractmethod
    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        """Build a question. Raises `Unparsed` if it depends on an earlier answer without a value."""

    def criterion(self, key: str, item: Item) -> str:
        """Describe a question to readers of the page."""
        return key

    # numbers

    full_marks: ClassVar[float] = 1.0
    """The unscaled first number of a solved item."""

    def item_score(self, measures: Mapping[str, float | None]) -> float | None:
        """Return the score that pages sort an item by, if no number is defined for a single item."""
        return None

    def worst(self, key: str) -> Any:
        """Return the value that the policy `zero` assigns to a question without one."""
        return 0

    def official(self, measure: str, key: str, status: Status) -> Policy:
        """Return how upstream's script treats a question without a value."""
        return "drop"

    @abstractmethod
    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        """Return the item's contribution to each measure; `None` for no contribution."""

    @abstractmethod
    def numbers(self) -> Sequence[Number]:
        """Return the numbers to report. The first is the headline."""

    # the official layout

    def export(self, dataset: Dataset, outputs: Mapping[str, Output], base: Path, folder: Path) -> None:
        """Write outputs in the layout that upstream's scripts read."""
        raise ConfigurationError(f"benchmark {self.name!r} has no outputs to export")

    def import_outputs(self, dataset: Dataset, folder: Path) -> Iterator[Output]:
        """Read outputs of another program from the official layout."""
        raise ConfigurationError(f"benchmark {self.name!r} has no outputs to import")

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        """Read the judgements that upstream's script wrote."""
        raise ConfigurationError(f"benchmark {self.name!r} has no judgements to import")

    def judge_of_import(self, path: Path) -> str:
        """Return who made the judgements of a file. Its name, unless upstream's names tell."""
        return path.stem

    def imported_keys(self, item: Item) -> Sequence[str]:
        """Return the keys of the questions that upstream's script asks about an item."""
        return self.keys(item, None)
