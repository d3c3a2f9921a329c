"""Plan files that a person edits and hands back."""

from __future__ import annotations

import json
from pathlib import Path

from fuzzing import REFUSED, attempt, replies, scratch, target
from interleave.cli.request_input import plan_as_json
from interleave.errors import InputError
from interleave.request_files import read_plan_file
from interleave.types import Plan, PlanStep, Request

PLAN = Plan(
    steps=(
        PlanStep(number=1, name="Eggs", instruction="Eggs lie in water.", prompt="eggs"),
        PlanStep(number=2, prompt="a tadpole", caption="It swims."),
        PlanStep(number=3, caption="The end."),
        PlanStep(number=4, prompt="both", sources=(1, 2)),
    ),
    reasoning="Two images.",
)
WORDS = (b'"steps"', b'"number"', b'"prompt": null', b'"sources": [1]', b'"request"', b'{"image": "x.png"}')


def seeds() -> list[bytes]:
    parts = [{"text": "How a frog grows"}, {"image": "cat.png"}]
    by_hand = {"request": parts, "steps": [{"number": 4, "prompt": "a"}, {"prompt": None, "caption": "b"}]}
    return [
        plan_as_json(PLAN, ["How a frog grows"]).encode(),
        plan_as_json(PLAN, []).encode(),
        json.dumps(by_hand).encode(),
        *replies.encoded(replies.PLANS),
    ]


@target(seeds, words=WORDS, examples=40)
def plan_file(data: bytes) -> bool:
    with scratch() as folder:
        path = folder / "plan.json"
        path.write_bytes(data)
        read = attempt(lambda: read_plan_file(path))
        if not isinstance(read, tuple):
            return False
        plan, request = read
        assert Plan.model_validate_json(plan.model_dump_json()) == plan
        texts = [part for part in request if isinstance(part, str)]
        if attempt(lambda: Request.of([*texts, "…"]), errors=InputError) is REFUSED:
            return False  # as the command line does, before anything is drawn
        again = folder / "again.json"
        again.write_text(plan_as_json(plan, request), "utf-8")
        plan_again, request_again = read_plan_file(again)
        has_images = any(isinstance(part, Path) for part in request)
        assert plan_again == (plan if has_images else from_one(plan))
        assert [str(part) for part in request_again] == [str(part) for part in request]
        return True


def from_one(plan: Plan) -> Plan:
    """The plan numbered from 1, as a file without images is read."""
    shift = plan.steps[0].number - 1
    steps = (
        step.model_copy(
            update={
                "number": step.number - shift,
                "sources": None if step.sources is None else tuple(source - shift for source in step.sources),
            }
        )
        for step in plan.steps
    )
    return plan.model_copy(update={"steps": tuple(steps)})
