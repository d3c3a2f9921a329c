"""Stories in the user's own sentences: each sentence is a step, and its caption.

Found by rule: a list, lines, or two or more statements. Instructions around the story, such as "Please
illustrate this:", and a title are no steps. Commands and questions are left to the planner.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MOST_SENTENCES = 9
"""The planner has learned lists of up to nine steps."""
LONGEST = 240
"""Characters of a sentence that describes one image."""

_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|st|prof|sr|jr|vs|etc|approx|e\.g|i\.e|a\.m|p\.m)|\b(?!I\b)[A-Z])\.$", re.IGNORECASE
)
"""A word whose full stop ends no sentence; "I say no." does end."""
_END = re.compile(r"""(?:\.{3}|…|[.!?])+["'”’)»]*(?=\s|$)""")
_LOWER_CASE_START = re.compile(r"(?:it|he|she|they)\b")
"""Words that begin a sentence in lower case after a sentence with a capital: "It ran. it fell."."""
_LOWER_CASE_END = re.compile(r"(?<=\w\.)\s+(?=[a-z])")
_NO_LOWER_CASE_STORY = re.compile(r"[A-HJ-Z\d:()#?!…]|\.\.")
"""What stories in lower case do not have, and other requests in lower case often have."""
_MARK = re.compile(
    r"^\s*(?:[-*•–]\s+|\(?\d{1,2}[.):]\s+|(?:step|picture|image|frame|panel|scene|page)\s+\d{1,2}\s*[.:)–-]\s*)",
    re.IGNORECASE,
)
_INLINE_MARK = re.compile(r"(?:^|(?<=\s))\(?(\d)[.)]\s+(?=\S)")
_POLITE = (
    r"^(?:please,? |pls |now,? |then,? |next,? |and |also |just |can you |could you |would you |kindly )*"
)
_DRAWING = (
    r"draw|show|paint|tell|make|create|illustrate|generate|explain|imagine|depict|visuali[sz]e|design|sketch"
    r"|write|add|remove|delete|change|recolou?r|colou?r|replace|swap"
)
_TO_THE_PAINTER = re.compile(rf"{_POLITE}(?:{_DRAWING})\b", re.IGNORECASE)
_COMMAND = re.compile(
    rf"{_POLITE}(?:(?:{_DRAWING}|give|put|take|move|turn|set|use|keep|start|begin|continue|finish|pick|do|don't"
    r"|let|i (?:want|need|wish)|i(?:'d| would) (?:want|need|like|love|wish)|we (?:want|need)"
    r"|my (?:teacher|boss|class) (?:wants|needs|asks|says)|for (?:my|our)|not)\b|no \w+(?: \w+)?\W*$)",
    re.IGNORECASE,
)
"""Sentences to the planner instead of about the story."""
_ABOUT_STORY = re.compile(
    r"\b(?:story|tale|sentences?|pictures|images|panels|frames|comic|storyboard|book|steps?|sequence|poem|text"
    r"|following|illustrate|each|this|these)\b|\b(?:draw|illustrate|depict|show|see) (?:that|it|them)"
    r"(?: (?:drawn|painted|for me|please))*\W*$",
    re.IGNORECASE,
)
_BRIEFLY = re.compile(
    r"^(?:\w+ ){0,2}(?:story|tale|poem|comic|report|letter)\W*$"
    r"|\b(?:(?:my|our|the|a) (?:own |short )?(?:story|tale|poem|text|comic)|pictures|images|panels|frames"
    r"|illustrate|please|pls|sentences?)\b",
    re.IGNORECASE,
)
"""Requests in a few words: "My story", "Three pictures"."""
_TELLS = re.compile(
    r"\b(?:i|he|she|it|they|we|is|was|are|were|has|had|did|comes?|came|goes|went|says|said|[a-z]{3,}ed)\b",
    re.IGNORECASE,
)
"""Words of sentences that tell something."""
_TWO_EVENTS = re.compile(r"(?:,|;| and|\bor) (?:and )?then\b|->|=>|→|;", re.IGNORECASE)
"""A sentence with several steps, which the planner divides."""
_NO_EVENT = re.compile(
    r"^all the (?:time|while)\b"
    r"|\b(?:from beginning to end|one can see|also has|do not forget|besides|please|pls|style"
    r"|graders?|worksheet|poster|gripper|made (?:this|it) up"
    r"|(?:\d|two|three|four|five|six|each|every|per|as|in|all|the) (?:pictures?|images?|panels?|frames?)"
    r"|(?:we|i)['’]d be (?:\w+ ){0,2}grateful|just turned (?:\d+|two|three|four|five|six|seven)"
    r"|(?:first|last) (?:picture|image)|(?:picture|image|panel|frame) each|years? old)\b"
    r"|^nothing (?:more|else)\b"
    r"|^(?:title|topic|simple|it is for|sorry|love|kisses|thanks?|how to)\b(?!.*,)"
    r"|^(?:for|if|in|with|on|like|as)\b(?:\W+[\w’']+){0,2}\W*$",
    re.IGNORECASE,
)
"""Words about all images, about their use or to the planner, instead of an event."""


@dataclass(frozen=True)
class OwnSentences:
    """The sentences of a story, as the user wrote them."""

    sentences: tuple[str, ...]

    def as_list(self, read: Sequence[str]) -> str:
        """Return the sentences, as the planner reads them, in the list form that it has learned."""
        return "\n".join(f"{place}. {each.rstrip(' .!?…')}" for place, each in enumerate(read, start=1))


def own_sentences(text: str) -> OwnSentences | None:
    """Return the sentences of a story in the user's own words; `None` for any other request."""
    found = _listed(text) or _told_in_lower_case(text) or _told(text)
    if found is None or not 2 <= len(found) <= MOST_SENTENCES or any(len(each) > LONGEST for each in found):
        return None
    if any(_TWO_EVENTS.search(each) or _NO_EVENT.search(each) for each in found):
        return None
    return OwnSentences(tuple(found))


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text: a line break ends one, the full stop of "Mr." does not."""
    return [sentence for line in text.splitlines() for sentence in _split_line(line)]


def _split_line(line: str) -> list[str]:
    sentences, start = [], 0
    for end in _END.finditer(line):
        rest = line[end.end() :].lstrip()
        starts_anew = line[start:].lstrip()[:1].isupper() and end[0] == "." and _LOWER_CASE_START.match(rest)
        goes_on = rest[:1].islower() and not starts_anew
        if _ABBREVIATION.search(line[start : end.end()]) or goes_on:
            continue  # "Mr. Fox", or a quote that goes on: “Stop!” said the cat
        sentences.append(line[start : end.end()].strip())
        start = end.end()
    return [each for each in (*sentences, line[start:].strip()) if each]


def _listed(text: str) -> list[str] | None:
    """Return the items of a numbered or bulleted list, one per line or inline."""
    lines = [line for line in text.splitlines() if line.strip()]
    marked = [bool(_MARK.match(line)) for line in lines]
    if sum(marked) >= 2:
        first = marked.index(True)
        if not all(marked[first:]) or not all(map(_is_heading, lines[:first])):
            return None
        items = [_MARK.sub("", line).strip() for line in lines[first:]]
        return None if any(map(_TO_THE_PAINTER.match, items)) else items
    marks = list(_INLINE_MARK.finditer(text))
    if len(marks) < 2 or [int(mark[1]) for mark in marks] != [*range(1, len(marks) + 1)]:
        return None
    if text[: marks[0].start()].strip() and not _is_heading(text[: marks[0].start()].strip()):
        return None
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    items = [text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)]
    return None if any(map(_TO_THE_PAINTER.match, items)) else items


def _told(text: str) -> list[str] | None:
    """Return the statements of a story, without a title and instructions before and after it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and (_is_title(lines[0]) or _is_heading(lines[0])):
        lines = lines[1:]
    sentences = split_sentences("\n".join(lines))
    head = re.match(r"^([^.!?\n]{0,80}):\s+(?=\S)", sentences[0]) if sentences else None
    if head and _is_heading(head[0].strip()):  # "Please illustrate my story: A cat …"
        sentences[0] = sentences[0][head.end() :]
    elif sentences and _is_instruction(sentences[0]):
        sentences = sentences[1:]
    if sentences and _is_instruction(sentences[-1]):
        sentences = sentences[:-1]
    if _are_lines(lines, sentences):
        return sentences
    is_story = all(not _is_command(each) and not each.rstrip("\"'”’)").endswith("?") for each in sentences)
    return sentences if is_story and all(map(_is_statement, sentences)) else None


def _told_in_lower_case(text: str) -> list[str] | None:
    """Return the statements of a story without capital letters: "mia has a dog. he is sad. he runs away"."""
    if _NO_LOWER_CASE_STORY.search(text):
        return None
    sentences = [
        each.strip() for line in text.splitlines() for each in _LOWER_CASE_END.split(line) if each.strip()
    ]
    if sentences and _is_instruction(sentences[-1]):
        sentences = sentences[:-1]
    is_story = (
        len(sentences) >= 3
        and all(3 <= len(each.split()) <= 14 and not _is_command(each) for each in sentences)
        and all(each.endswith(".") for each in sentences[:-1])
    )
    return sentences if is_story and _mostly_tell(sentences) else None


def _mostly_tell(sentences: Sequence[str]) -> bool:
    return sum(_TELLS.search(each) is not None for each in sentences) * 3 >= len(sentences) * 2


def _are_lines(lines: Sequence[str], sentences: Sequence[str]) -> bool:
    """Return whether the sentences are lines without full stops, most of which say what somebody does."""
    return (
        len(lines) >= 3
        and list(sentences) == list(lines)
        and all(len(each.split()) >= 3 and not _is_command(each) and each[-1] not in "?,:" for each in lines)
        and _mostly_tell(sentences)
    )


def _is_command(sentence: str) -> bool:
    return _COMMAND.match(sentence) is not None


def _is_instruction(sentence: str) -> bool:
    """Return whether a sentence asks for images of a story without being a part of it."""
    words = len(sentence.split())
    if words <= 4 and _BRIEFLY.search(sentence):
        return True
    return _is_command(sentence) and words <= 14 and _ABOUT_STORY.search(sentence) is not None


def _is_heading(line: str) -> bool:
    """Return whether a line introduces what follows: "My story:" or "# The lost kite"."""
    return line.endswith(":") or line.startswith("#") or _is_instruction(line)


def _is_title(line: str) -> bool:
    """Return whether a line is a title: short, without an end, before lines that have one."""
    return len(line.split()) <= 8 and line[-1] not in '.!?…"”,;' and line[0].isupper()


def _is_statement(sentence: str) -> bool:
    """Return whether a sentence is complete: it ends as one and has a subject and a verb."""
    return sentence[-1] in ".!…\"”'’" and len(sentence.split()) >= 2
