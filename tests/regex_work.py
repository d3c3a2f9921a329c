"""How much work a regular expression makes of a text, counted in steps instead of seconds.

Python's `re` does not say how often it tries. This machine does what `re` does, backtracking and all, one
instruction at a time, and counts them: equal on every computer, however busy. It reads the same syntax tree
that `re` compiles; what it does not know it refuses.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from re import _constants as names  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Test = Callable[[str], bool]
REPEATS = (names.MAX_REPEAT, names.MIN_REPEAT, names.POSSESSIVE_REPEAT)
CHARACTERS = (names.LITERAL, names.NOT_LITERAL, names.ANY, names.IN)
BRANCHES = 12
"""So many of the ways in which a repeated piece can read are tried."""
FEW = 4
"""A repetition with a limit is tried at most so often: a limit makes work larger, but not grow faster."""


@dataclass
class Program:
    """Instructions: (name, argument, …)."""

    code: list[tuple[Any, ...]] = field(default_factory=list)

    def add(self, *instruction: Any) -> int:
        self.code.append(instruction)
        return len(self.code) - 1


class Work:
    """Steps made so far, and how many are allowed."""

    def __init__(self, most: int = 50_000_000) -> None:
        self.steps = 0
        self.most = most

    def step(self) -> None:
        self.steps += 1
        if self.steps > self.most:
            raise TooMuch


class TooMuch(Exception):
    """More steps than allowed."""


def parsed(pattern: re.Pattern[Any]) -> Any:
    """The syntax tree that `re` has of it."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    return parser.parse(text, pattern.flags)


@cache
def compiled(pattern: re.Pattern[Any]) -> Program:
    tree = parsed(pattern)
    program = Program()
    _sequence(program, tree, tree.state.flags | pattern.flags)
    program.add("done")
    return program


def _sequence(program: Program, nodes: Any, flags: int) -> None:
    for node in nodes:
        _node(program, node, flags)


def _sub(nodes: Any, flags: int) -> Program:
    program = Program()
    _sequence(program, nodes, flags)
    program.add("done")
    return program


def _node(program: Program, node: tuple[Any, Any], flags: int) -> None:
    kind, value = node
    match kind:
        case names.LITERAL | names.NOT_LITERAL | names.ANY | names.IN:
            program.add("char", char_test(node, flags))
        case names.SUBPATTERN:
            _group, added, removed, inner = value
            _sequence(program, inner, (flags | added) & ~removed)
        case names.ATOMIC_GROUP:
            program.add("atomic", _sub(value, flags))
        case names.BRANCH:
            _branch(program, value[1], flags)
        case names.MAX_REPEAT | names.MIN_REPEAT:
            _repeat(program, *value, kind is names.MAX_REPEAT, flags)
        case names.POSSESSIVE_REPEAT:
            inner = Program()
            _repeat(inner, *value, True, flags)
            inner.add("done")
            program.add("atomic", inner)
        case names.AT:
            program.add("at", _place(value, flags))
        case names.ASSERT | names.ASSERT_NOT:
            direction, inner = value
            width = inner.getwidth()
            program.add("look", _sub(inner, flags), direction, width[0], kind is names.ASSERT)
        case _:
            raise NotImplementedError(f"{kind} is not known here")


def _branch(program: Program, ways: Sequence[Any], flags: int) -> None:
    ends = []
    for way in ways[:-1]:
        split = program.add("split", 0, 0)
        _sequence(program, way, flags)
        ends.append(program.add("jump", 0))
        program.code[split] = ("split", split + 1, len(program.code))
    _sequence(program, ways[-1], flags)
    for end in ends:
        program.code[end] = ("jump", len(program.code))


def _repeat(program: Program, fewest: int, most: Any, inner: Any, greedy: bool, flags: int) -> None:
    for _ in range(fewest):
        _sequence(program, inner, flags)
    if most is names.MAXREPEAT:
        split = program.add("split", 0, 0)
        if inner.getwidth()[0] == 0:
            program.add("mark", split)
        _sequence(program, inner, flags)
        if inner.getwidth()[0] == 0:
            program.add("moved", split)
        program.add("jump", split)
        ways = (split + 1, len(program.code))
        program.code[split] = ("split", *(ways if greedy else ways[::-1]))
        return
    splits = []
    for _ in range(min(most - fewest, FEW)):
        splits.append(program.add("split", 0, 0))
        _sequence(program, inner, flags)
    for split in splits:
        ways = (split + 1, len(program.code))
        program.code[split] = ("split", *(ways if greedy else ways[::-1]))


def char_test(node: tuple[Any, Any], flags: int) -> Test:
    """Whether one character fits."""
    kind, value = node
    if kind is names.ANY:
        return (lambda char: True) if flags & re.DOTALL else (lambda char: char != "\n")
    items = value if kind is names.IN else [(names.LITERAL, value)]
    negated = kind is names.NOT_LITERAL or bool(items and items[0][0] is names.NEGATE)
    tests = [_item_test(item) for item in items if item[0] is not names.NEGATE]
    known: dict[str, bool] = {}

    def fits(char: str) -> bool:
        if char not in known:
            forms = {char, *(char.lower(), char.upper())} if flags & re.IGNORECASE else {char}
            hit = any(test(form) for test in tests for form in forms if len(form) == 1)
            known[char] = hit is not negated
        return known[char]

    return fits


_CATEGORIES = {
    names.CATEGORY_SPACE: str.isspace,
    names.CATEGORY_NOT_SPACE: lambda char: not char.isspace(),
    names.CATEGORY_DIGIT: str.isdecimal,
    names.CATEGORY_NOT_DIGIT: lambda char: not char.isdecimal(),
    names.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
    names.CATEGORY_NOT_WORD: lambda char: not (char.isalnum() or char == "_"),
}


def _item_test(item: tuple[Any, Any]) -> Test:
    kind, value = item
    if kind is names.LITERAL:
        return lambda char: ord(char) == value
    if kind is names.RANGE:
        return lambda char: value[0] <= ord(char) <= value[1]
    if kind is names.CATEGORY:
        return _CATEGORIES[value]
    raise NotImplementedError(f"{kind} is not known here")


def _place(kind: Any, flags: int) -> Callable[[str, int], bool]:
    def word(text: str, at: int) -> bool:
        return 0 <= at < len(text) and (text[at].isalnum() or text[at] == "_")

    lines = bool(flags & re.MULTILINE)
    match kind:
        case names.AT_BEGINNING:
            return lambda text, at: at == 0 or (lines and text[at - 1] == "\n")
        case names.AT_BEGINNING_STRING:
            return lambda text, at: at == 0
        case names.AT_END:
            return lambda text, at: at == len(text) or (text[at] == "\n" and (lines or at == len(text) - 1))
        case names.AT_END_STRING:
            return lambda text, at: at == len(text)
        case names.AT_BOUNDARY:
            return lambda text, at: word(text, at - 1) is not word(text, at)
        case names.AT_NON_BOUNDARY:
            return lambda text, at: word(text, at - 1) is word(text, at)
    raise NotImplementedError(f"{kind} is not known here")


def match_at(program: Program, text: str, start: int, work: Work, *, whole: bool = False) -> int | None:
    """Where a match that begins here ends."""
    code, size = program.code, len(text)
    waiting: list[tuple[int, int, dict[int, int]]] = [(0, start, {})]
    while waiting:
        pc, at, marks = waiting.pop()
        while True:
            work.step()
            instruction = code[pc]
            name = instruction[0]
            if name == "char":
                if at < size and instruction[1](text[at]):
                    pc, at = pc + 1, at + 1
                    continue
                break
            if name == "split":
                waiting.append((instruction[2], at, marks))
                pc = instruction[1]
                continue
            if name == "jump":
                pc = instruction[1]
                continue
            if name == "done":
                if whole and at != size:
                    break
                return at
            if name == "at":
                if not instruction[1](text, at):
                    break
            elif name == "atomic":
                end = match_at(instruction[1], text, at, work)
                if end is None:
                    break
                at = end
            elif name == "look":
                _, inner, direction, width, wanted = instruction
                begin = at if direction > 0 else at - width
                found = begin >= 0 and match_at(inner, text, begin, work) is not None
                if found is not wanted:
                    break
            elif name == "mark":
                marks = {**marks, instruction[1]: at}
            elif name == "moved" and marks[instruction[1]] == at:
                break
            pc += 1
    return None


def work_of(pattern: re.Pattern[Any], text: str, use: str = "search", most: int = 50_000_000) -> int:
    """The steps that a use of this pattern takes: `search` (all matches, as finditer), match or fullmatch."""
    program, work = compiled(pattern), Work(most)
    try:
        if use != "search":
            match_at(program, text, 0, work, whole=use == "fullmatch")
            return work.steps
        start = 0
        while start <= len(text):
            end = match_at(program, text, start, work)
            start = start + 1 if end is None or end == start else end
    except TooMuch:
        pass
    return work.steps


def work_at(pattern: re.Pattern[Any], text: str, places: Sequence[int]) -> int:
    """The steps that matches at these places take, all together."""
    program, work = compiled(pattern), Work()
    for place in places:
        match_at(program, text, place, work)
    return work.steps


# --- texts that make it hard


@dataclass(frozen=True)
class Hard:
    """A text made of what a pattern looks for, again and again, of any size."""

    before: str
    unit: str
    after: str

    def text(self, times: int) -> str:
        return self.before + self.unit * times + self.after


def hard_texts(pattern: re.Pattern[Any], *, ways: int = 2) -> Iterator[Hard]:
    """Texts that might take long."""
    tree = parsed(pattern)
    begun = dict.fromkeys(_beginnings(tree, ways))
    repeated = dict.fromkeys(_repeated(tree, ways))
    units = [*repeated, *begun]
    units += [a + b for a, b in itertools.product(repeated, repeated) if a != b][:40]
    for unit in dict.fromkeys(unit for unit in units if unit):
        for before in ["", *begun]:
            for after in ("", "\x01", "\n", " x"):
                yield Hard(before, unit, after)


def growth(pattern: re.Pattern[Any], hard: Hard, use: str, size: int = 40) -> float:
    """How the work grows when the text does: about 1 where it grows as the text, 2 where as its square."""
    times = max(-(-size // len(hard.unit)), 2 * FEW)
    one, two, four = (work_of(pattern, hard.text(times * each), use) for each in (1, 2, 4))
    return math.log2(max(four - two, 1) / max(two - one, 1))


def is_endless(nodes: Any) -> bool:
    """Whether anything in a pattern may be repeated without limit; without that, work grows as the text."""
    return any(
        (kind in REPEATS and value[1] is names.MAXREPEAT) or any(map(is_endless, _inner(kind, value)))
        for kind, value in nodes
    )


def _inner(kind: Any, value: Any) -> list[Any]:
    """The patterns inside a node."""
    if kind in REPEATS:
        return [value[2]]
    if kind is names.SUBPATTERN:
        return [value[3]]
    if kind is names.ATOMIC_GROUP:
        return [value]
    if kind is names.BRANCH:
        return list(value[1])
    return [value[1]] if kind in (names.ASSERT, names.ASSERT_NOT) else []


def _beginnings(nodes: Any, ways: int) -> Iterator[str]:
    """What fits the first few nodes of a pattern."""
    starts = [""]
    for node in nodes:
        samples = list(itertools.islice(_samples([node], ways), ways))
        if node[0] is names.SUBPATTERN or node[0] is names.BRANCH:
            inners = [node[1][3]] if node[0] is names.SUBPATTERN else node[1][1][:ways]
            for inner in inners:
                for begun in _beginnings(inner, ways):
                    yield starts[0] + begun
        starts = [start + sample for start in starts for sample in samples][:ways]
        yield from starts


def _repeated(nodes: Any, ways: int) -> Iterator[str]:
    """What fits the body of each repetition, and single characters that fit somewhere."""
    for kind, value in nodes:
        if kind in REPEATS:
            yield from itertools.islice(_samples(value[2], BRANCHES), BRANCHES)
        for inner in _inner(kind, value):
            yield from _repeated(inner, ways)
        if kind in CHARACTERS:
            yield from itertools.islice(_chars((kind, value)), 1)


_CANDIDATES = " a1\n-.\"'<>/\\!?[](){}:;,_*#`|=+\t0xAZé"


def _chars(node: tuple[Any, Any]) -> Iterator[str]:
    fits = char_test(node, 0)
    if node[0] is names.LITERAL:
        yield chr(node[1])
        return
    listed = [chr(value) for kind, value in (node[1] if node[0] is names.IN else []) if kind is names.LITERAL]
    ranged = [
        chr(value[0]) for kind, value in (node[1] if node[0] is names.IN else []) if kind is names.RANGE
    ]
    yield from (char for char in dict.fromkeys([*_CANDIDATES, *listed, *ranged]) if fits(char))


def _samples(nodes: Any, ways: int) -> Iterator[str]:
    """Texts that fit, a few."""
    pools = [list(itertools.islice(_node_samples(node, ways), ways)) or [""] for node in nodes]
    for number in range(ways):
        yield "".join(pool[number % len(pool)] for pool in pools)


def _node_samples(node: tuple[Any, Any], ways: int) -> Iterator[str]:
    kind, value = node
    if kind in CHARACTERS:
        yield from _chars(node)
    elif kind is names.SUBPATTERN:
        yield from _samples(value[3], ways)
    elif kind is names.ATOMIC_GROUP:
        yield from _samples(value, ways)
    elif kind is names.BRANCH:
        for way in value[1]:
            yield from itertools.islice(_samples(way, ways), 1)
    elif kind in REPEATS:
        fewest = value[0]
        for sample in _samples(value[2], ways):
            yield sample * max(fewest, 1)
