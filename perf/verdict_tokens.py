"""Counts the decode steps of recorded verdicts: with n-gram drafts, and stopped once decided.

    python perf/verdict_tokens.py RUNS [--results perf/results/verdict-tokens.json]

RUNS is a folder with run folders of a critic that is a language model. A draft is the text that followed the
last tokens at an earlier occurrence, in the question or in the reply. A step keeps the prefix of the draft
that matches the reply, and one token more. An acceptance is decided at `true`, since nothing after it is
used. A refusal is decided at its end.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from random_models import PROMPTS

from interleave.local.tiny.vlms import tiny_tokenizer

LONGEST_MATCH = 3
ACCEPTED = '"previous_step_success": true'


@dataclass(frozen=True)
class Recorded:
    question: str
    reply: str

    @property
    def accepted(self) -> bool:
        return ACCEPTED in self.reply


def recorded_in(folder: Path) -> set[Recorded]:
    """Return every distinct verdict, with its plan and prompt."""
    return {
        found
        for journal in sorted(folder.rglob("journal.jsonl"))
        for found in _verdicts([json.loads(line) for line in journal.read_text("utf-8").splitlines()])
    }


def _verdicts(lines: Sequence[dict[str, Any]]) -> Iterator[Recorded]:
    plan = next((line["plan"] for line in lines if line["event"] == "planned"), None)
    planned = {step["number"]: step["prompt"] for step in plan["steps"]} if plan else {}
    drawn: dict[tuple[int, int], str] = {}
    for line in lines:
        if line["event"] == "drawn":
            drawn[line["step"], line["attempt"]] = line["prompt"]
        if line["event"] == "replied" and line["role"] == "critic" and line["tokens"]:
            prompt = drawn.get((line["step"], line["attempt"]), "")
            yield Recorded(f"{planned.get(line['step']) or ''}\n{prompt}\n", line["text"])


def steps_with_drafts(question: Sequence[int], reply: Sequence[int], length: int) -> int:
    """Return the decode steps of a reply with drafts of `length` tokens; without drafts, one per token."""
    known, done, steps = list(question), 0, 0
    while done < len(reply):
        draft = _draft(known, length)
        kept = 0
        while kept < len(draft) and done + kept < len(reply) and draft[kept] == reply[done + kept]:
            kept += 1
        written = reply[done : done + kept + 1]
        known += written
        done += len(written)
        steps += 1
    return steps


def _draft(known: Sequence[int], length: int) -> Sequence[int]:
    """Return the tokens after the latest earlier occurrence of the longest suffix."""
    for size in range(LONGEST_MATCH, 0, -1):
        last = list(known[-size:])
        for place in range(len(known) - size - 1, -1, -1):
            if list(known[place : place + size]) == last:
                return known[place + size : place + size + length]
    return []


def counted(found: Sequence[Recorded], drafts: Sequence[int]) -> dict[str, Any]:
    texts = [path.read_text("utf-8") for path in sorted(PROMPTS.glob("*.md"))]
    tokenizer = tiny_tokenizer((), texts=texts, merges=4000, context=262_144)

    def ids(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False))

    replies = [ids(each.reply) for each in found]
    pack = ids((PROMPTS / "critic.md").read_text("utf-8"))
    questions = [pack + ids(each.question) for each in found]
    decided = [
        len(ids(each.reply.partition(ACCEPTED)[0] + ACCEPTED)) if each.accepted else len(reply)
        for each, reply in zip(found, replies, strict=True)
    ]
    row: dict[str, Any] = {
        "tokens": mean(map(len, replies)),
        "tokens_until_decided": mean(decided),
    }
    for length in drafts:
        pairs = zip(questions, replies, strict=True)
        steps = sum(steps_with_drafts(question, reply, length) for question, reply in pairs)
        row[f"tokens_per_step_with_drafts_of_{length}"] = sum(map(len, replies)) / steps
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, metavar="RUNS")
    parser.add_argument("--results", type=Path, metavar="FILE")
    options = parser.parse_args()
    found = sorted(recorded_in(options.runs), key=lambda each: (each.question, each.reply))
    groups = {
        "all": found,
        "accepted": [each for each in found if each.accepted],
        "refused": [each for each in found if not each.accepted],
    }
    rows = [
        {"verdicts": name, "count": len(group), **counted(group, (3, 7))}
        for name, group in groups.items()
        if group
    ]
    for row in rows:
        print(json.dumps(row))
    if options.results:
        options.results.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
