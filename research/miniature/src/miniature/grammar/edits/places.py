"""Places to add or move something to, in words that prompts do not have: "next to the cat"."""

from __future__ import annotations

from random import Random

from interleave_mini.language.patterns import NotUnderstood
from interleave_mini.language.references import REFERENCE, find, find_position
from interleave_mini.language.words import DIRECTIONS, neighbour, one_of
from interleave_mini.world.scene import Scene

OTHER_WORDS = 0.5
NEXT_TO = ("next to", "beside", "near", "close to", "right next to", "by")
"""On the right, or on the left if there is no room on the right."""
_SAID_FOR = {
    **dict.fromkeys(("on top of", "over", "behind"), "above"),
    **dict.fromkeys(("beneath", "underneath", "in front of"), "below"),
    **dict.fromkeys(("on the left of", "on the left side of"), "left of"),
    **dict.fromkeys(("on the right of", "on the right side of"), "right of"),
}
"""Relations of requests → those of the world."""
PATTERN = rf"(?:{one_of((*NEXT_TO, *_SAID_FOR))} {REFERENCE})"
_PLAIN = ("to the left of ", "to the right of ", "left of ", "right of ", "above ", "below ", "under ")


def in_other_words(where: str, scene: Scene, cell: int, rng: Random) -> str:
    """Word a place next to a thing as people do; return any other place unchanged."""
    relation = next((each for each in _PLAIN if where.startswith(each)), None)
    if relation is None or rng.random() > OTHER_WORDS:
        return where
    anchor = where.removeprefix(relation)
    meant = relation.strip().removeprefix("to the ").replace("under", "below")
    ways = [words for words, same in _SAID_FOR.items() if same == meant]
    if next_to(scene, find(scene, anchor)) == cell:
        ways += NEXT_TO
    return f"{rng.choice(ways)} {anchor}"


def position(scene: Scene, words: str) -> int:
    """Return the cell of a place in the words of requests."""
    for relation in sorted((*NEXT_TO, *_SAID_FOR), key=len, reverse=True):
        if not words.startswith(f"{relation} the "):
            continue
        anchor = words.removeprefix(f"{relation} ")
        if relation in _SAID_FOR:
            return find_position(scene, f"{_SAID_FOR[relation]} {anchor}")
        cell = next_to(scene, find(scene, anchor))
        if cell is None:
            raise NotUnderstood(f"there is no room {words!r}")
        return cell
    return find_position(scene, words)


def next_to(scene: Scene, anchor: int) -> int | None:
    """Return the free cell next to a thing: on its right, else on its left."""
    beside = (neighbour(anchor, DIRECTIONS[side]) for side in ("right", "left"))
    return next((cell for cell in beside if cell is not None and scene.is_free(cell)), None)
