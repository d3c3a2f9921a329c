"""Asks a vision-language model for more words and requests, once per sub-category.

Each reply is journalled before it is used, so a killed command continues without asking again. Replies are
checked: a word must fit its bank, a request must be a sentence. Unsuitable entries are counted and left out.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from interleave import Message, Reply, ReplyError, RunError, Sampling, Slot, Text, VisionLanguageModel
from interleave.plugin import PromptPack, agents, ask, journal, one_line, runs, text
from interleave.train.data.prompts.near_duplicates import normalized
from interleave.train.data.prompts.taxonomy import Key, SubCategory, Taxonomy, unfit_phrase

WORDS_ASKED = 12
REQUESTS_ASKED = 8
SHOWN_WORDS = 8
SHOWN_TEMPLATES = 5
MOST_IN_FLIGHT = 32
MOST_WORDS = 16
FEWEST_REQUEST_WORDS, MOST_REQUEST_WORDS = 4, 80
MOST_IMAGES = 12
FEW_BEGINNINGS = 4
"""If a bank's entries have at most this many distinct first words, new entries must begin with one."""

QUESTION = """\
We are building a corpus of requests to a program that answers with a sequence of pictures and short texts.
The requests are about "{subcategory}" ({domain}). They are written with these sentences:
{templates}
The gaps are filled from these banks, of which you see a part:
{banks}

Give {words} new entries for each bank. Each must fit into every sentence, in the same grammatical form as
the entries shown, and be different from them. Then write {requests} whole new requests on the same subject,
each in one or two sentences of its own that do not follow the patterns above.
Answer with one JSON object and nothing else:
{{"words": {{{keys}}}, "requests": ["…", …]}}
"""


class ExpansionReply(journal.Line):
    """The reply for one sub-category, or why it could not be parsed."""

    asked: str
    """The digest of the question."""
    text: str = ""
    failure: str = ""


@dataclass
class Expansion:
    """Words and requests of the model by sub-category, and the rejected ones."""

    words: dict[Key, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    requests: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Words and requests that did not fit, with the reason."""

    @property
    def word_count(self) -> int:
        return sum(len(words) for banks in self.words.values() for words in banks.values())

    @property
    def request_count(self) -> int:
        return sum(map(len, self.requests.values()))

    def apply_to(self, taxonomy: Taxonomy) -> Taxonomy:
        return Taxonomy(
            tuple(each.with_words(self.words.get(each.key, {})) for each in taxonomy.subcategories)
        )


def expand(
    taxonomy: Taxonomy,
    vlm: VisionLanguageModel,
    journal: Path,
    *,
    pack: PromptPack,
    progress: Callable[[int], None] = lambda asked: None,
) -> Expansion:
    """Ask for every sub-category without a reply in the journal, and read all replies."""
    answers = asyncio.run(_ask_all(taxonomy, vlm, journal, pack, progress))
    expansion = Expansion()
    for each in taxonomy.subcategories:
        _add_reply(each, answers[fingerprint(each)], expansion)
    return expansion


def fingerprint(subcategory: SubCategory) -> str:
    return hashlib.sha256(question(subcategory).encode()).hexdigest()[:32]


def question(subcategory: SubCategory) -> str:
    """Return the question for a sub-category."""
    banks = [
        f"- {slot}: {'; '.join(subcategory.banks[slot][:SHOWN_WORDS])}" for slot in _open_banks(subcategory)
    ]
    return QUESTION.format(
        subcategory=subcategory.name,
        domain=subcategory.domain,
        templates="\n".join(f"- {text}" for text in subcategory.templates[-SHOWN_TEMPLATES:]),
        banks="\n".join(banks),
        words=WORDS_ASKED,
        requests=REQUESTS_ASKED,
        keys=", ".join(f'"{slot}": ["…", …]' for slot in _open_banks(subcategory)),
    )


def _open_banks(subcategory: SubCategory) -> tuple[str, ...]:
    """Return the banks to extend: the sub-category's own with more than one entry."""
    return tuple(slot for slot in subcategory.own if len(subcategory.banks[slot]) > 1)


async def _ask_all(
    taxonomy: Taxonomy,
    vlm: VisionLanguageModel,
    path: Path,
    pack: PromptPack,
    progress: Callable[[int], None],
) -> dict[str, ExpansionReply]:
    answers = {answer.asked: answer for answer in read_replies(path)}
    journal = runs.open_journal(path.parent, path.name)
    gate = asyncio.Semaphore(min(vlm.capabilities.concurrency or MOST_IN_FLIGHT, MOST_IN_FLIGHT))

    async def one(number: int, subcategory: SubCategory) -> None:
        if (asked := fingerprint(subcategory)) not in answers:
            async with gate:
                answer = await _answer(number, subcategory, vlm, pack)
            journal.append(answer)
            journal.sync()
            answers[asked] = answer
        progress(len(answers))

    try:
        results = await asyncio.gather(
            *(one(number, each) for number, each in enumerate(taxonomy.subcategories, start=1)),
            return_exceptions=True,  # one failure does not stop calls already paid for
        )
    finally:
        journal.close()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return answers


async def _answer(
    number: int, subcategory: SubCategory, vlm: VisionLanguageModel, pack: PromptPack
) -> ExpansionReply:
    asked = fingerprint(subcategory)
    messages = (Message("user", (Text(question(subcategory)),)),)
    try:
        value = await ask(vlm, messages, read_reply, sampling=Sampling(slot=Slot(call=number)), pack=pack)
    except ReplyError as error:
        return ExpansionReply(asked=asked, failure=one_line(str(error), 300))
    return ExpansionReply(asked=asked, text=json.dumps(value, ensure_ascii=False))


def read_replies(path: Path) -> list[ExpansionReply]:
    """Return the replies of a journal; an incomplete last line is ignored."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    answers = []
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            answers.append(ExpansionReply.model_validate_json(line))
        except ValidationError:
            raise RunError(f"{path}:{number} is damaged: remove that line to ask the model again") from None
    return answers


def read_reply(reply: Reply) -> dict[str, Any]:
    """Return the words and requests of a reply; raises `ReplyError` if it has none."""
    return agents.parse_reply(reply, ("words", "requests"), _words_and_requests)


def _words_and_requests(value: Any, thinking: str) -> dict[str, Any]:
    answer = agents.require_object(value, "the answer")
    return {"words": _banks(answer.get("words", {})), "requests": _texts(answer.get("requests", []))}


def _banks(value: Any) -> dict[str, list[str]]:
    if not isinstance(value, dict):
        raise ValueError('"words" must be an object with a list for each bank')
    return {str(slot): _texts(words) for slot, words in value.items()}


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError("words and requests must be lists of texts")
    return value


def _add_reply(subcategory: SubCategory, answer: ExpansionReply, expansion: Expansion) -> None:
    where = f"{subcategory.domain} / {subcategory.name}"
    if answer.failure:
        expansion.unreadable.append(f"{where}: {answer.failure}")
        return
    reply = json.loads(answer.text)
    known = {slot: subcategory.banks[slot] for slot in _open_banks(subcategory)}
    words: dict[str, tuple[str, ...]] = {}
    for slot, bank in known.items():
        problem_of = partial(unfit_word, bank=bank)
        words[slot] = _accept_fitting(reply["words"].get(slot, []), problem_of, where, expansion)
    expansion.refused += [
        f"{where}: no bank {slot!r}" for slot in sorted(reply["words"].keys() - known.keys())
    ]
    expansion.words[subcategory.key] = words
    expansion.requests[subcategory.key] = _accept_fitting(reply["requests"], unfit_request, where, expansion)


def _accept_fitting(
    given: Iterable[str], problem_of: Callable[[str], str | None], where: str, expansion: Expansion
) -> tuple[str, ...]:
    fitting: dict[str, str] = {}
    for entry in given:
        entry = entry.strip()
        if problem := problem_of(entry) or ("is a duplicate" if normalized(entry) in fitting else None):
            expansion.refused.append(f"{where}: {one_line(entry, 80)!r} {problem}")
        else:
            fitting[normalized(entry)] = entry
    return tuple(fitting.values())


def unfit_word(word: str, bank: tuple[str, ...]) -> str | None:
    """Return why a word does not fit a bank, or None."""
    if problem := _unfit_text(word, 1, MOST_WORDS) or unfit_phrase(word):
        return problem
    if normalized(word) in {normalized(known) for known in bank}:
        return "is already in the bank"
    beginnings = {known.split()[0] for known in bank}
    if len(beginnings) <= FEW_BEGINNINGS and word.split()[0] not in beginnings:
        return f"does not begin like the others ({', '.join(sorted(beginnings))})"
    if word[:1].isupper() and not any(known[:1].isupper() for known in bank):
        return "begins with a capital, unlike the others"
    return None


def unfit_request(request: str) -> str | None:
    """Return why a text cannot be a request, or None."""
    if problem := _unfit_text(request, FEWEST_REQUEST_WORDS, MOST_REQUEST_WORDS):
        return problem
    if request[-1] not in '.?!”"':
        return "is not a complete sentence"
    if "{" in request or "}" in request:
        return "has a brace"
    if (agents.named_step_count(request) or 0) > MOST_IMAGES:
        return f"asks for more than {MOST_IMAGES} images"
    return None


def _unfit_text(line: str, fewest: int, most: int) -> str | None:
    if problem := text.unusable(line):
        return f"cannot be used: {problem}"
    if "\n" in line or not line:
        return "is not one line"
    words = len(line.split())
    if not fewest <= words <= most:
        return f"has {words} words, but {fewest} to {most} are allowed"
    return None
