"""Changes to the tree of a JSON document, or of the JSON inside a text: types swapped, keys renamed, dropped
and doubled, values that JSON can write and a program does not expect."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

NUMBER = 2**16 - 1
DEEP = 300


class Raw(str):
    """A piece of JSON that is written as it is."""


class Pairs(list[Any]):
    """An object as its pairs, so that a key can stand twice."""


VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 1.5, -0.0, 2**31, 2**63, -(2**63) - 1, 10**40, 1e308),
    *(Raw("NaN"), Raw("Infinity"), Raw("-Infinity"), Raw("1e999"), Raw("9" * 5000), Raw("1.0"), Raw("-0")),
    *("", " ", "0", "1", "None", "null", "true", "a", "²", "٣", "é", "🐸", "x" * 2000, "\x00", "\x1b[31m"),
    *(
        "\ud800",
        "\udc00\ud83d",
        "a\u202eb",
        "../x",
        "/etc/passwd",
        "../../outside/secret.png",
        "http://x/y.png",
    ),
    *("<image>", "<script>alert(1)</script>", "a\nb", "# a", "---", "![](x)", "images", "white.png", "."),
    *([], [[]], [None], [1, 2], ["a"], [[], {}], Pairs(), Pairs([["a", 1]]), Pairs([["", None], ["", 1]])),
    *(Raw("[" * DEEP + "]" * DEEP), Raw('{"a":' * DEEP + "1" + "}" * DEEP), Raw("[" * 30 + "]" * 30)),
)


def change_json(data: bytes, where: int, how: int, what: int) -> bytes:
    """The bytes with one change in a tree of JSON that is found in them; unchanged where there is none."""
    spot = _spot(data, where)
    if spot is None:
        return data
    start, end, tree = spot
    holder = [tree]
    CHANGES[how % len(CHANGES)](holder, where, what)
    return data[:start] + (_written(holder[0]) if holder else b"") + data[end:]


def _spot(data: bytes, where: int) -> tuple[int, int, Any] | None:
    """All of it, one of its lines, or what stands between its first and its last bracket."""
    if (tree := _parsed(data)) is not None:
        return 0, len(data), tree
    lines, at = [], 0
    for line in data.splitlines(keepends=True)[:200]:
        if line.lstrip()[:1] in (b"{", b"["):
            lines.append((at, at + len(line.rstrip(b"\r\n"))))
        at += len(line)
    for start, end in lines[where % len(lines) :] if lines else []:
        if (tree := _parsed(data[start:end])) is not None:
            return start, end, tree
    start, end = data.find(b"{"), data.rfind(b"}") + 1
    if 0 <= start < end and (tree := _parsed(data[start:end])) is not None:
        return start, end, tree
    return None


def _parsed(data: bytes) -> Any:
    try:
        value = json.loads(
            data.decode("utf-8"), object_pairs_hook=lambda pairs: Pairs(map(list, pairs)), parse_constant=Raw
        )
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _written(value: Any) -> bytes:
    try:
        return _text(value).encode("utf-8", "surrogatepass")
    except RecursionError:
        return b"[]"


def _text(value: Any) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Pairs):
        return "{" + ", ".join(f"{json.dumps(key)}: {_text(item)}" for key, item in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return json.dumps(value)


Place = tuple[list[Any], int]
"""A list and an index in it: the value of a pair has index 1."""


def _places(tree: list[Any]) -> list[Place]:
    found: list[Place] = []
    open_lists: list[list[Any]] = [tree]
    while open_lists:
        holder = open_lists.pop()
        for index, item in enumerate(holder):
            if isinstance(holder, Pairs):
                found.append((item, 1))
                inner = item[1]
            else:
                found.append((holder, index))
                inner = item
            if isinstance(inner, list):
                open_lists.append(inner)
    return found


def _pick(tree: list[Any], number: int) -> Place:
    places = _places(tree)
    return places[number * (len(places) - 1) // NUMBER]


def _lists(tree: list[Any]) -> list[list[Any]]:
    """Lists and objects that have something in them, but for the one that holds the whole."""
    found = [holder[index] for holder, index in _places(tree)]
    return [item for item in found if isinstance(item, list) and item]


def _keys(tree: list[Any]) -> list[str]:
    pairs = [item for item in _lists(tree) if isinstance(item, Pairs)]
    return [key for item in pairs for key, _ in item]


def _put(tree: list[Any], where: int, what: int) -> None:
    holder, index = _pick(tree, where)
    holder[index] = VALUES[what % len(VALUES)]


def _copy_over(tree: list[Any], where: int, what: int) -> None:
    """One value in the place of another."""
    holder, index = _pick(tree, where)
    other, at = _pick(tree, what)
    holder[index] = json_copy(other[at])


def _drop(tree: list[Any], where: int, what: int) -> None:
    if lists := _lists(tree):
        chosen = lists[where % len(lists)]
        del chosen[what % len(chosen)]


def _double(tree: list[Any], where: int, what: int) -> None:
    """An item or key twice; of a key the second time perhaps with another value."""
    if lists := _lists(tree):
        chosen = lists[where % len(lists)]
        item = json_copy(chosen[what % len(chosen)])
        if isinstance(chosen, Pairs) and what % 2:
            item[1] = VALUES[where % len(VALUES)]
        chosen.insert(what % (len(chosen) + 1), item)


def _rename(tree: list[Any], where: int, what: int) -> None:
    pairs = [pair for item in _lists(tree) if isinstance(item, Pairs) for pair in item]
    if pairs:
        names = [*_keys(tree), "", "x", "\x00", "\ud800", "id", "type", "1"]
        pairs[where % len(pairs)][0] = names[what % len(names)]


def _swap_items(tree: list[Any], where: int, what: int) -> None:
    if lists := _lists(tree):
        chosen = lists[where % len(lists)]
        one, other = what % len(chosen), (what // 7) % len(chosen)
        chosen[one], chosen[other] = chosen[other], chosen[one]


def _wrap(tree: list[Any], where: int, what: int) -> None:
    holder, index = _pick(tree, where)
    holder[index] = [holder[index]] if what % 2 else Pairs([["a", holder[index]]])


def _nudge(tree: list[Any], where: int, what: int) -> None:
    """A number a little different, a text with something in it, a truth turned around."""
    holder, index = _pick(tree, where)
    value = holder[index]
    match value:
        case bool():
            holder[index] = not value
        case int() | float():
            holder[index] = (value + 1, value - 1, -value, value * 10, str(value), float(value % 2**50))[
                what % 6
            ]
        case str() if not isinstance(value, Raw):
            piece = VALUES[what % len(VALUES)]
            at = where % (len(value) + 1)
            holder[index] = value[:at] + (piece if isinstance(piece, str) else str(piece)[:50]) + value[at:]
        case list():
            holder[index] = value[:0] if what % 2 else [*value, *value]


def json_copy(value: Any) -> Any:
    if isinstance(value, Pairs):
        return Pairs([json_copy(pair) for pair in value])
    if isinstance(value, list):
        return [json_copy(item) for item in value]
    return value


CHANGES: tuple[Callable[[list[Any], int, int], None], ...] = (
    *(_put, _put, _put, _nudge, _nudge, _copy_over, _drop, _drop, _double, _rename, _swap_items, _wrap),
)
