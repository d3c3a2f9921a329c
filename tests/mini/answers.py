"""What the runtime answers to requests and plans, as `answers.jsonl.gz` has recorded it.

The record was made with the grammar itself: requests of its templates, of the voices and of the worked
examples, with typing mistakes and with words from outside the world; and plans, right and wrong, for them.
Where an answer is meant to change, `python tests/mini/answers.py` records the answers of today.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from interleave.errors import InputError
from interleave.types import Plan, PlanStep, Request
from interleave_mini.requests import PlanCheck, accept_request, check_prompt, suggest_requests

RECORD = Path(__file__).parent / "answers.jsonl.gz"
Case = dict[str, Any]


def answer(case: Case) -> str:
    """The answer to one case, as one text."""
    if "plan" in case:
        return _verdict(Request.of(case["text"]), _plan(case["plan"]))
    if "near" in case:
        return " | ".join(suggest_requests(case["near"], 5))
    try:
        if "prompt" in case:
            check_prompt(case["prompt"])
            return "drawn"
        request = accept_request(Request.of(case["text"]), {})
        notes = request.reading.notes if request.reading else ()
        return " | ".join([f"read: {request.as_read.text}", *notes])
    except InputError as error:
        return f"refused: {error}"


def _verdict(request: Request, plan: Plan) -> str:
    check = PlanCheck()
    problem = check.problem(request, plan)
    question = check.question(request, plan) if problem else None
    return f"{problem} | {question.text if question else 'drawn'}" if problem else "right"


def _plan(said: list[Any]) -> Plan:
    reasoning, *steps = said
    return Plan(
        reasoning=reasoning,
        steps=tuple(
            PlanStep(number=number, name=name, prompt=prompt, caption=caption)
            for number, (name, prompt, caption) in enumerate(steps, start=1)
        ),
    )


def recorded() -> list[Case]:
    with gzip.open(RECORD, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def record(cases: list[Case]) -> None:
    """Write the cases with the answers of today; the same cases give the same bytes."""
    lines = (json.dumps({**case, "answer": answer(case)}, ensure_ascii=False) + "\n" for case in cases)
    RECORD.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


if __name__ == "__main__":
    record(recorded())
