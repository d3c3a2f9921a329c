"""Words of a run in another language, by a language model: a file of texts for a person to check."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from functools import partial
from pathlib import Path

from interleave import InputError, Message, Reply, ReplyError, Sampling, Text, load_vlm, read_record
from interleave.books.texts import originals, texts_file
from interleave.plugin import RetriedVlm, ask, load_pack, runs, write_atomic

AT_ONCE = 30
PROMPT = """\
Translate these texts of an illustrated book into the language with the tag {language!r}, for the same
readers. Keep names the same in all texts, keep line breaks, add nothing. Reply with a JSON list of {count}
strings, in order.

{texts}"""
_LIST = re.compile(r"\[.*\]", re.DOTALL)


def translate(folder: Path, language: str, out: Path | None = None, planner: str | None = None) -> Path:
    """Write the file of texts of a run, translated by a model: the given one, or the run's planner."""
    record = read_record(folder)
    spec = planner or (record.config.planner.spec if record.config.planner else "")
    if not spec:
        raise InputError("this run has no planner: name a model with --planner")
    document = runs.as_shown(record)
    words = originals(document)
    vlm, pack = RetriedVlm("the translator", load_vlm(spec, "planner")), load_pack(record.config.prompts.name)

    async def all_texts() -> list[str]:
        translated: list[str] = []
        for start in range(0, len(words), AT_ONCE):
            given = list(words.values())[start : start + AT_ONCE]
            messages = [Message("user", (Text(_prompt(language, given)),))]
            read = partial(_read, wanted=len(given))
            translated += await ask(vlm, messages, read, sampling=Sampling(), pack=pack)
        return translated

    filled = dict(zip(words, asyncio.run(all_texts()), strict=True))
    path = out or folder / f"texts.{language}.toml"
    write_atomic(path, texts_file(document, language, filled).encode())
    return path


def _prompt(language: str, texts: list[str]) -> str:
    shown = json.dumps(texts, ensure_ascii=False, indent=1)
    return PROMPT.format(language=language, count=len(texts), texts=shown)


def _read(reply: Reply, wanted: int) -> list[str]:
    match, texts = _LIST.search(reply.text), None
    with suppress(ValueError):  # reported below
        texts = json.loads(match.group()) if match else None
    listed = texts if isinstance(texts, list) else []
    strings = [each for each in listed if isinstance(each, str)]
    if not len(strings) == len(listed) == wanted:
        raise ReplyError(f"not a JSON list of {wanted} strings", reply=reply.text)
    return strings
