"""Damage to an input: one small step at a time, chosen by a few numbers, so that findings can be made small.

Bytes are flipped, cut, repeated, moved and spliced; lines are dropped, doubled and moved; where there is JSON
its tree is changed (`json_trees.py`), so that most of an input stays well formed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from fuzzing import Target
from fuzzing.json_trees import change_json

LARGEST = 60_000
"""Bytes of a mutant: enough for every bound to be met by somebody, and little enough to try thousands."""
MOST_STEPS = 6
STEP_BYTES = 8
SIZES = (1, 1, 1, 2, 3, 4, 8, 16, 40, 100, 400)
REPEATS = (2, 3, 5, 17, 100, 1000)
NUMBER = 2**16 - 1

WORDS: tuple[bytes, ...] = (
    *(bytes([byte]) for byte in b"\x00\x01\x0b\x1b\x7f\x80\xc0\xff\"'\\{}[]()<>,:;#&%=?/@.-+*_~|!`$^ \t\n\r"),
    *(
        text.encode()
        for text in ("é", "蛙", "🐸", "\u2028", "\u202e", "\ufeff", "\u0130", "²", "٣", "\u200b")
    ),
    *(b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xef\xbf\xbe", b"\xc0\xaf", b"\r\n", b"\n\n"),
    *(b"\\u0000", b"\\ud800", b"\\udc00\\ud800", b"\\x00", b"\\N{DOT}", b"%00", b"%ff", b"%2e%2e%2f", b"%"),
    *(
        b"0",
        b"-1",
        b"1e999",
        b"-0",
        b"1_0",
        b"0x1",
        b"NaN",
        b"Infinity",
        b"9" * 30,
        b"9" * 5000,
        b"1.0",
        b"1e3",
    ),
    *(b"null", b"None", b"true", b"True", b"[]", b"{}", b'""', b"''", b"[" * 60, b"{" * 60, b"(" * 60),
    *(b"[" * 3000, b'{"a":' * 3000, b"../", b"../../outside/secret.png", b"/etc/passwd", b"~", b"C:\\x"),
    *(b"http://x/", b"https://[", b"file:///etc/passwd", b"data:image/png;base64,", b"javascript:alert(1)"),
    *(b"<image>", b"<script>alert(1)</script>", b"</think>", b"<answer>", b"<!--", b"-->", b"]]>", b"&amp;"),
    *(b" " * 400, b"\n" * 400, b"a" * 400, b"\\" * 41, b"`" * 7, b"-" * 40, b"=" * 4),
)


@dataclass(frozen=True)
class Step:
    """One piece of damage: what kind, where, how much, and with what."""

    kind: str
    where: int
    size: int
    what: int


@dataclass(frozen=True)
class Mutant:
    """A seed and the damage done to it; short to print, and the same bytes whenever it is built."""

    seed: int
    steps: tuple[Step, ...]

    def build(self, target: Target) -> bytes:
        data = target.seeds[self.seed % len(target.seeds)]
        for step in self.steps:
            data = _apply(data, step, target)[:LARGEST]
        return data


def read_case(target: Target, case: Path) -> bytes:
    """A kept input. A `.steps` file has the damage to a seed instead, where our own format is damaged."""
    if case.suffix != ".steps":
        return case.read_bytes()
    kept = json.loads(case.read_text("utf-8"))
    return Mutant(kept["seed"], tuple(Step(*step) for step in kept["steps"])).build(target)


def mutants(target: Target) -> st.SearchStrategy[Mutant]:
    """Mutants of a target's seeds."""
    kinds = [*KINDS, *target.mutators, *target.mutators]

    def mutant(drawn: bytes) -> Mutant:
        # Drawn as one piece of bytes: many small draws take several times as long as most checks.
        numbers = struct.iter_unpack(">HHHH", drawn[1 : 1 + (len(drawn) - 1) // STEP_BYTES * STEP_BYTES])
        return Mutant(drawn[0], tuple(Step(kinds[kind % len(kinds)], *rest) for kind, *rest in numbers))

    return st.binary(min_size=1 + STEP_BYTES, max_size=1 + STEP_BYTES * MOST_STEPS).map(mutant)


def _apply(data: bytes, step: Step, target: Target) -> bytes:
    if step.kind in target.mutators:
        return target.mutators[step.kind](data, step.where, step.size, step.what)
    return KINDS[step.kind](data, step, target)


def _span(data: bytes, step: Step) -> tuple[int, int]:
    start = step.where * len(data) // NUMBER
    return start, min(len(data), start + SIZES[step.size % len(SIZES)])


def _word(step: Step, target: Target) -> bytes:
    words: Sequence[bytes] = (*target.words, *target.words, *WORDS) if step.size % 2 else WORDS
    return words[step.what % len(words)]


def _flip(data: bytes, step: Step, target: Target) -> bytes:
    if not data:
        return data
    at = min(step.where * len(data) // NUMBER, len(data) - 1)
    return data[:at] + bytes([data[at] ^ (1 << step.what % 8)]) + data[at + 1 :]


def _set(data: bytes, step: Step, target: Target) -> bytes:
    start, end = _span(data, step)
    return data[:start] + bytes([step.what % 256]) * (end - start) + data[end:]


def _delete(data: bytes, step: Step, target: Target) -> bytes:
    start, end = _span(data, step)
    return data[:start] + data[end:]


def _double(data: bytes, step: Step, target: Target) -> bytes:
    start, end = _span(data, step)
    return data[:end] + data[start:]


def _repeat(data: bytes, step: Step, target: Target) -> bytes:
    start, end = _span(data, step)
    times = REPEATS[step.what % len(REPEATS)]
    return data[:start] + (data[start:end] * times)[:LARGEST] + data[end:]


def _insert(data: bytes, step: Step, target: Target) -> bytes:
    start, _ = _span(data, step)
    return data[:start] + _word(step, target) + data[start:]


def _replace(data: bytes, step: Step, target: Target) -> bytes:
    start, end = _span(data, step)
    return data[:start] + _word(step, target) + data[end:]


def _truncate(data: bytes, step: Step, target: Target) -> bytes:
    start, _ = _span(data, step)
    return data[start:] if step.what % 4 == 0 else data[:start]


def _splice(data: bytes, step: Step, target: Target) -> bytes:
    """The beginning of this and the end of another."""
    other = target.seeds[step.what % len(target.seeds)]
    start, _ = _span(data, step)
    return data[:start] + other[step.size * len(other) // NUMBER :]


def _swap(data: bytes, step: Step, target: Target) -> bytes:
    start, end = _span(data, step)
    later = end + step.what * (len(data) - end) // NUMBER
    return data[:start] + data[end:later] + data[start:end] + data[later:]


def _drop_line(data: bytes, step: Step, target: Target) -> bytes:
    lines = data.splitlines(keepends=True)
    del lines[_index(lines, step.where)]
    return b"".join(lines)


def _double_line(data: bytes, step: Step, target: Target) -> bytes:
    lines = data.splitlines(keepends=True)
    lines.insert(_index(lines, step.what), lines[_index(lines, step.where)])
    return b"".join(lines)


def _move_line(data: bytes, step: Step, target: Target) -> bytes:
    lines = data.splitlines(keepends=True)
    lines.insert(_index(lines, step.what), lines.pop(_index(lines, step.where)))
    return b"".join(lines)


def _index(lines: Sequence[object], number: int) -> int:
    return number * max(len(lines) - 1, 0) // NUMBER


def _change_tree(data: bytes, step: Step, target: Target) -> bytes:
    return change_json(data, step.where, step.size, step.what)


def _in_lines(work: Callable[[bytes, Step, Target], bytes]) -> Callable[[bytes, Step, Target], bytes]:
    return lambda data, step, target: work(data, step, target) if data.strip() else data


KINDS: dict[str, Callable[[bytes, Step, Target], bytes]] = {
    "flip a bit": _flip,
    "set bytes": _set,
    "delete": _delete,
    "double": _double,
    "repeat": _repeat,
    "insert": _insert,
    "replace": _replace,
    "truncate": _truncate,
    "splice": _splice,
    "swap": _swap,
    "drop a line": _in_lines(_drop_line),
    "double a line": _in_lines(_double_line),
    "move a line": _in_lines(_move_line),
    "change the tree": _change_tree,
    "change the tree twice": lambda data, step, target: _change_tree(
        _change_tree(data, step, target), Step(step.kind, step.what, step.where, step.size), target
    ),
}
