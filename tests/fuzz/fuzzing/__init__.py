"""Fuzz targets: functions of bytes that read something from outside and check what must always hold.

A target raises for a broken rule and returns whether the bytes were accepted. Its seeds are inputs that are
accepted; what it is given are seeds with damage (`mutations.py`) and the kept cases in `cases/FAMILY/TARGET`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from interleave.errors import InterleaveError

CASES = Path(__file__).parent.parent / "cases"
LONGEST_MESSAGE = 20_000
T = TypeVar("T")

Mutator = Callable[[bytes, int, int, int], bytes]
"""Damage of a kind that only this target's format knows, from three numbers."""


@dataclass(frozen=True, eq=False)
class Target:
    """One way in from outside."""

    check: Callable[[bytes], bool]
    make_seeds: Callable[[], Sequence[bytes]]
    words: tuple[bytes, ...] = ()
    """Pieces that mean something in this format; put in anywhere."""
    examples: int = 25
    """How many mutants `make test` tries; the long profile has a number of its own."""
    weight: float = 1.0
    """What part of the long profile's number is tried: less for what takes long."""
    mutators: Mapping[str, Mutator] = field(default_factory=dict)

    @property
    def family(self) -> str:
        return self.check.__module__.rpartition(".")[2]

    @property
    def name(self) -> str:
        return f"{self.family}.{self.check.__name__}"

    @cached_property
    def seeds(self) -> tuple[bytes, ...]:
        return tuple(self.make_seeds())

    @property
    def cases(self) -> list[Path]:
        """The inputs that once broke a rule."""
        folder = CASES / self.family / self.check.__name__
        return sorted(path for path in folder.glob("*") if path.is_file())


TARGETS: list[Target] = []


def target(
    seeds: Sequence[bytes] | Callable[[], Sequence[bytes]], **more: Any
) -> Callable[[Callable[[bytes], bool]], Callable[[bytes], bool]]:
    """Declare a function of bytes as a target."""

    def declare(check: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
        make = seeds if callable(seeds) else lambda: seeds
        TARGETS.append(Target(check, make, **more))
        return check

    return declare


class _Refused:
    """What `attempt` returns for an input that was refused as it should be."""

    def __bool__(self) -> bool:
        return False


REFUSED = _Refused()


def attempt(
    work: Callable[[], T], *, errors: type[Exception] | tuple[type[Exception], ...] = InterleaveError
) -> T | _Refused:
    """The result of the work, or `REFUSED` where a typed error says why; any other error is a finding."""
    try:
        return work()
    except errors as error:
        check_message(str(error))
        return REFUSED


def check_message(message: str) -> None:
    """An error says something, and not without end."""
    assert message.strip(), "an error without a message"
    assert len(message) <= LONGEST_MESSAGE, f"a message of {len(message):,} characters"


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one example, with a file beside it that nothing may touch."""
    with tempfile.TemporaryDirectory(dir=".", prefix="fuzz-") as folder:
        inside = Path(folder).absolute() / "inside"
        inside.mkdir()
        yield inside


def spare_text(data: bytes) -> str:
    """Bytes as text in which anything can stand, halves of surrogate pairs included."""
    return (
        data.decode("utf-8", "surrogatepass") if _is_wide(data) else data.decode("utf-8", "surrogateescape")
    )


def _is_wide(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True
