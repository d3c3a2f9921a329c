"""Test vectors: what Python computes, for the TypeScript port to be held to.

    python browser/vectors.py --out browser/vectors --runs 20      # `make site-vectors`

They follow the weights and words of the installed package, so they are made when needed, not committed.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from interleave import (
    Asked,
    GeneratorCapabilities,
    ImageRequest,
    InputError,
    Plan,
    PlanStep,
    ReplyError,
    Request,
    Text,
    Verdict,
)
from interleave.agents.critic import CriticInput, VlmCritic, critic_input
from interleave.agents.planner import GivenPlan, VlmPlanner, named_steps, plan_for
from interleave.agents.prompts import load_pack
from interleave.agents.replies import contradiction_in, parse_plan, parse_verdict
from interleave.backends.registry import load_generator, load_vlm
from interleave.config.run_config import Rules
from interleave.events import Drawn, Judged, Planned, StepFinished
from interleave.local.completions import CompletionRequest
from interleave.pipeline import interleave
from interleave_mini import WEIGHTS
from interleave_mini.bench.wider_scenes import wider_operations, wider_scene
from interleave_mini.language.descriptions import describe
from interleave_mini.language.effects import shown_by
from interleave_mini.language.prompts import edit_prompt, scene_prompt
from interleave_mini.language.vocabulary import language
from interleave_mini.plan_audit import PlanAudit
from interleave_mini.plan_check import missing_from
from interleave_mini.plan_mending import mended
from interleave_mini.requests import EXAMPLES, accept_request
from interleave_mini.runtime.bpe import BytePairEncoding
from interleave_mini.runtime.noise import normal_noise
from interleave_mini.runtime.sampling import TokenChooser
from interleave_mini.world.operations import apply_all
from interleave_mini.world.scene import Scene

ROOT = Path(__file__).resolve().parent
RECORD = ROOT.parent / "tests" / "mini" / "answers.jsonl.gz"
SCENES, EDITS, EXACT = 600, 3, 0.2
"""Random scenes, the changes to each at most, and how many of these are worded exactly."""

TEXTS = (
    "Draw a cat and a house, then make it night.",
    "don't-stop, ’tis 12,345 naïve café — 日本語 🙂\n\tend <|im_end|> </think><answer>",
    "  two  spaces\u00a0and\u2003more ",
)
REQUESTS = (
    "Draw a dragon and a unicorn on the beach.",
    "Draw a caat and a hosue, then make it nigth.",
    "I'm a baker. Draw a cake for my friend Mia.",
    "Zeichne mir einen Frosch und ein Haus bitte",
    "Нарисуй кота и дом",
    "Make it white.",
    "Draw an ice cream and some ice, and CPR.",
    "Show the xqzzt of a drowsy cat, slowly.",
    "Teh dog named Rexx eats the aple.",
    "Explain in four pictures how a frog grows up",
    "A 3-step guide: how to bake a cake",
    "Show me twelve more pictures of a cat, if possible",
    "one image of the whole, and then a step-by-step guide in 4 steps",
    "a room with four pictures",
    "Draw 3 to 5 steps",
    "Tell it with exactly five pictures, maybe.",
    "Tell a story in twenty-one pictures",
    "Lucia the rabbit has a carrot",
    "Ravi's kite breaks",
    "Look, it is Mr. Potts with a dog",
    "Swapp the cat and the dog",
    "A balon and a raabit are very soggy",
)
STORIES = (
    "A cat sleeps on the beach. A dog comes. The dog wakes the cat.",
    "My story:\n1. A red car stands in the city\n2. Night falls",
    "Please illustrate this: Mia has a dog. It is wet. Mr. Fox laughs at it.",
    "Mila finds a kite. Then Mila's dog comes.",
    "mia has a red ball. she is happy. the ball pops\nshe is sad now",
    "Draw a cat. Then draw a dog.",
)
"""The user's own sentences, and commands that are none."""
QUESTIONS = (
    "Draw a cat under a house on the moon, then the cat eats the house.",
    "A cat and a dog, a red ball, a blue house, two trees and nine apples on the beach.",
    "Draw a cat without a cat.",
    "How a frog grows up, in nine pictures",
    "Draw a cat and a dog. The cat gives the ball to the dog. The dog sleeps.",
    "The cat chases the dog, then the dog chases the cat, then the house sleeps.",
    "Draw a dragon and a unicorn on the beach.",
    "Draw a caat, then make it nigth.",
    "Draw a red car on a bridge, then paint the bridge blue.",
    "A bear with a hat sits on a chair in the snow. The hat falls down. The bear is sad.",
)
"""Requests of which only the plan is wanted; many of these plans do not fit."""
MENDED = {
    "a taken cell": (
        "A park with a red cat on the left.",
        "Add a blue dog on the left.",
        "Move the red cat to the middle.",
    ),
    "a second thing to hold": (
        "A park with a red balloon held by a blue boy on the left.",
        "Give a green kite to the blue boy.",
    ),
    "something for one who is carried": (
        "A garden with a blue boy under a green tree in the middle.",
        "Give a red apple to the blue boy.",
    ),
    "a carrier that is to be carried": (
        "A road with a blue boy on a red bicycle on the left and a blue truck on the right.",
        "Put the red bicycle in the blue truck.",
    ),
    "from on to under": (
        "A bedroom with an orange cat on a brown chair in the middle.",
        "Put the orange cat under the brown chair.",
    ),
    "a closed box": (
        "A room with a brown box on the left and a red ball on the right.",
        "Put the red ball in the brown box.",
    ),
    "one of several": (
        "A park with three red balls in the top row and a red girl at the bottom.",
        "Give the red ball to the red girl.",
    ),
    "another state": (
        "A farm with a brown wet dog in the middle.",
        "The brown dog turns into a brown happy dog.",
    ),
    "a thing that is not there": (
        "A room with a green man in the middle.",
        "Give the black hat to the green man.",
    ),
    "a gripper that is not there": (
        "A workbench with a red block on the left and two blue blocks in the bottom row.",
        "Pick up the red block with the gripper.",
    ),
    "a sentence that changes nothing": (
        "A road with a blue truck on the left.",
        "Move the blue truck to the right. Turn the blue truck into a blue truck.",
        "Turn the blue truck into a blue truck.",
    ),
    "a full image": (
        "A farm with three red apples in the top row, three cats in the middle row and three eggs "
        "in the bottom row.",
        "Add a cat on the left.",
    ),
    "what cannot happen": (
        "A meadow with a grey rock in the middle.",
        "Add a red cat in the middle.",
        "Put a grey mouse under the grey rock.",
    ),
}
"""Prompts of plans whose steps conflict."""
CHECKED = (
    ("A bus drove on the road. It got dirty.", "Turn the yellow bus into a yellow dirty bus."),
    ("A bus stood on the road. It drove.", "Turn the yellow bus into a yellow dirty bus."),
    ("A bus stood on the road. It drove.", "Move the yellow bus to the right."),
    ("A bus drove on the road. It broke.", "Turn the yellow bus into a yellow dirty bus."),
    ("A bus beside a closed door", "Add a brown door in the middle."),
    ("A bus opens the door", "Add a brown door in the middle."),
    ("A bus closes the door", "Add a brown door in the middle."),
    *((f"A bus, {words} bus", "Add a brown door in the middle.") for words in sorted(language().otherwise)),
)
"""Requests that a plan with this second step leaves something of out, or does not; the first draws a bus."""
REPLIES = (
    '<think>A walk: 2.</think><answer>{"execution_plan": ['
    '{"step_number": 1, "step_name": "A", "instruction": null, "prompt": "Draw a cat.", '
    '"auxiliary_text": "Step 1: A cat."}, '
    '{"step_number": 3, "step_name": "B", "instruction": "x", "prompt": "None", '
    '"auxiliary_text": "2. The end"}]}</answer>',
    '<think>so</think><answer>{"execution_plan": []}</answer>',
    "<think>so</think><answer>nothing</answer>",
    "<think>The cat is missing.</think>"
    '<answer>{"previous_step_success": false, "refine_prompt": " Add a cat. "}</answer>',
    "<think>There is a blue cat instead of a blue cat.</think>"
    '<answer>{"previous_step_success": false, "refine_prompt": "Add a cat."}</answer>',
    '<think>All is well.</think><answer>{"previous_step_success": true, "refine_prompt": ""}</answer>',
)
REJECTED = {"outcome": "rejected", "refined_prompt": "Draw it again."}
VERDICTS: list[list[dict[str, Any]]] = [
    [{"outcome": "accepted"}, {"outcome": "accepted", "confidence": 0.9}],
    [REJECTED, {"outcome": "accepted"}, {"outcome": "unreadable"}, REJECTED, {"outcome": "rejected"}],
    [
        *({**REJECTED, "confidence": each} for each in (0.1, 0.4, 0.3)),
        {"outcome": "rejected"},
        {"outcome": "unreadable"},
        {"outcome": "accepted", "confidence": 0.2},
    ],
]
"""Verdicts of the attempts at two steps, three attempts at most for each."""
REASONINGS = (
    "It shows a blue cat instead of the blue cat.",
    "There is a small blue ball instead of a blue ball.",
    "A dog instead of a dog on the left.",
    "It is red, not red, but big.",
    "Now there is a hat rather than a hat, so add it.",
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--out", type=Path, default=ROOT / "vectors")
    arguments.add_argument("--runs", type=int, default=20, help="requests to answer")
    arguments.add_argument("--max-attempts", type=int, default=5)
    given = arguments.parse_args()
    write(given.out, requests(given.runs), given.max_attempts)
    print(given.out)


def write(out: Path, asked: list[str], max_attempts: int) -> None:
    """Write `vectors.json`, and the images of the runs as bytes of red, green, blue."""
    shutil.rmtree(out / "images", ignore_errors=True)
    (out / "images").mkdir(parents=True)
    runs = asyncio.run(answered(out, asked, max_attempts))
    vectors = {
        **values(),
        "answers": [each for each in recorded() if each.get("text") is None or each["text"].strip()],
        "scenes": [*scenes()],
        "mended": [mending(prompts) | {"what": what} for what, prompts in MENDED.items()],
        "mendedAtRandom": [*mendings()],
        "missing": [missing(*each) for each in CHECKED],
        "plannings": asyncio.run(plannings()),
        "loops": [asyncio.run(loop(verdicts)) for verdicts in VERDICTS],
        "audits": asyncio.run(audits(runs)),
        "judgements": asyncio.run(judgements(out / "images", runs)),
        "runs": runs,
        "maxAttempts": max_attempts,
    }
    (out / "vectors.json").write_text(json.dumps(vectors, ensure_ascii=False, indent=1), "utf-8")


def requests(count: int) -> list[str]:
    """Return requests of many topics: the shown examples, then wordings that the planner has learned."""
    others = [each.text for each in language().examples]
    stride = max(1, len(others) // max(1, count - len(EXAMPLES)))
    return [*EXAMPLES, *others[::stride]][:count]


def values() -> dict[str, Any]:
    """Return what single functions compute."""
    asked = [*REQUESTS, *(each.text for each in language().examples)]
    return {
        "tokens": {
            name: [{"text": text, "ids": encoding.encode(text)} for text in (*TEXTS, *asked[:40])]
            for name, encoding in (
                (name, BytePairEncoding(WEIGHTS / name / "tokenizer.json"))
                for name in ("planner", "critic", "generator/tokenizer")
            )
        },
        "noise": [
            {"seed": seed, "count": count, "values": normal_noise((count,), seed).tolist()}
            for seed, count in ((0, 64), (2147483647, 100), (12345, 17))
        ],
        "draws": [*draws()],
        "steps": [{"text": text, "wanted": named_steps(Request.of(text))} for text in asked],
        "readings": [reading(text, nearest) for nearest in (False, True) for text in (*asked, *STORIES)],
        "plans": [outcome(parse_plan, reply) for reply in REPLIES],
        "verdicts": [outcome(parse_verdict, reply) for reply in REPLIES],
        "contradictions": [{"text": text, "phrase": contradiction_in(text)} for text in REASONINGS],
    }


def draws() -> Iterator[dict[str, Any]]:
    """Yield tokens drawn from logits, by which a bad reply is asked again."""
    logits = np.random.default_rng(0).normal(size=(1, 50)).astype(np.float32)
    for seed in (1, 2, 3):
        message = CompletionRequest((), 10, temperature=0.7, seed=seed)
        chooser = TokenChooser([message])
        tokens = [int(chooser.choose(logits, [0])[0][0]) for _ in range(8)]
        yield {"seed": seed, "temperature": 0.7, "logits": logits[0].tolist(), "tokens": tokens}


def reading(text: str, nearest: bool) -> dict[str, Any]:
    """Return a request as its planner reads it, or why it is refused."""
    told = {"asked": text, "nearest": nearest}
    try:
        request = accept_request(Request.of(text), {"nearest": "true"} if nearest else {})
    except InputError as error:
        return told | {"refused": str(error)}
    read = request.reading
    captions, notes = (read.captions, read.notes) if read else ((), ())
    return told | {"text": request.as_read.text, "captions": list(captions), "notes": list(notes)}


def recorded() -> list[dict[str, Any]]:
    """Return the answers of the package to requests and plans, as its own tests have recorded them."""
    with gzip.open(RECORD, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def scenes() -> Iterator[dict[str, Any]]:
    """Yield prompts in many wordings, each with the scene that they ask for, and what they show."""
    rng = Random(0)
    for _ in range(SCENES):
        scene = wider_scene(rng)
        prompts = [scene_prompt(scene, rng=rng)]
        for _ in range(EDITS):
            if operations := wider_operations(scene, rng):
                prompts.append(edit_prompt(operations, scene, exact=rng.random() < EXACT, rng=rng))
                scene = apply_all(operations, scene)
        shown = sorted(shown_by(prompts))
        yield {"prompts": prompts, "scene": as_dict(scene), "shown": shown, "described": describe(scene)}


def mendings() -> Iterator[dict[str, Any]]:
    """Yield plans whose steps are in another order than they were written for, some of them twice."""
    rng = Random(1)
    for _ in range(SCENES):
        scene = wider_scene(rng)
        drawn, edits = scene_prompt(scene, rng=rng), list[str]()
        for _ in range(EDITS):
            if operations := wider_operations(scene, rng):
                edits.append(edit_prompt(operations, scene, rng=rng))
                scene = apply_all(operations, scene)
        yield mending((drawn, *rng.choices(edits, k=len(edits))))


def mending(prompts: Sequence[str]) -> dict[str, Any]:
    steps = mended(plan_of(prompts)).steps
    return {
        "prompts": prompts,
        "steps": [{"prompt": each.prompt, "instruction": each.instruction} for each in steps],
    }


def missing(text: str, prompt: str) -> dict[str, Any]:
    """Return what a plan leaves out of a request."""
    prompts = ("A road with a yellow bus on the left.", prompt)
    request = accept_request(Request.of(text), {}).as_read
    return {"asked": text, "prompts": prompts, "missing": missing_from(plan_of(prompts), request)}


def plan_of(prompts: Sequence[str]) -> Plan:
    steps = (PlanStep(number=place, prompt=prompt) for place, prompt in enumerate(prompts, start=1))
    return Plan(steps=tuple(steps))


def as_dict(scene: Scene) -> dict[str, Any]:
    return {
        "background": scene.background,
        "cells": [thing and asdict(thing) for thing in scene.cells],
        "gripper": scene.gripper and asdict(scene.gripper),
    }


def outcome(parse: Any, reply: str) -> dict[str, Any]:
    try:
        return {"reply": reply, "value": parse(reply).model_dump(mode="json")}
    except ReplyError as error:
        return {"reply": reply, "problem": error.problem}


class Scripted:
    """A planner, a generator and a critic that say what they are told to, one verdict for each attempt."""

    capabilities = GeneratorCapabilities()

    def __init__(self, verdicts: list[dict[str, Any]]) -> None:
        self.verdicts = iter(verdicts)
        self.seen: list[dict[str, Any]] = []
        self.drawn: list[Image.Image] = []

    async def generate(self, request: ImageRequest) -> Image.Image:
        self.drawn.append(Image.new("RGB", (2, 2), (len(self.drawn), 0, 0)))
        return self.drawn[-1]

    async def judge(self, seen: CriticInput) -> Verdict:
        before = seen.before.getpixel((0, 0))[0]
        self.seen.append({"planned": seen.planned_prompt, "prompt": seen.prompt, "before": before})
        return Verdict.model_validate(next(self.verdicts))


async def loop(verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    """Run the loop on a plan of three steps, the second of text only, with these verdicts."""
    plan = Plan(
        steps=(
            PlanStep(number=1, prompt="Draw a cat.", caption="A cat."),
            PlanStep(number=2, prompt=None, caption="It waits."),
            PlanStep(number=3, prompt="Add a dog.", caption="A dog."),
        )
    )
    models = Scripted(verdicts)
    rules = Rules(max_attempts=3, seed=7)
    request = Request((Text("anything"),))
    events = [
        as_json(event)
        async for event in interleave(
            request, planner=GivenPlan(plan), generator=models, critic=models, rules=rules
        )
    ]
    return {
        "plan": plan.model_dump(mode="json"),
        "verdicts": [Verdict.model_validate(each).model_dump(mode="json") for each in verdicts],
        "seen": models.seen,
        "events": events,
        "maxAttempts": rules.max_attempts,
        "seed": rules.seed,
    }


async def judgements(images: Path, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return verdicts about first images as if another run's prompt had been planned, so most are refused."""
    critic = VlmCritic(load_vlm("mini?batch=1", role="critic"), load_pack("mini"))
    seconds = [event for run in runs for event in run["events"][1:2]]  # after the plan
    firsts = [event for event in seconds if event["type"] == "drawn"]
    found = []
    for drawn, other in pairwise(firsts[:5]):
        image = Image.frombytes("RGB", tuple(drawn["size"]), (images / drawn["image"]).read_bytes())
        seen = critic_input(other["prompt"], other["prompt"], (), image)
        verdict = (await critic.judge(seen)).model_dump(mode="json")
        found.append({"image": drawn["image"], "size": drawn["size"], "prompt": other["prompt"]} | verdict)
    return found


async def plannings() -> list[dict[str, Any]]:
    """Return the plans of requests, or what is asked back."""
    planner = planner_of()
    found = []
    for text in (*STORIES, *QUESTIONS):
        request = accept_request(Request.of(text), {"nearest": "true"})
        try:
            plan, question = await plan_for(planner, request), None
        except Asked as asked:
            plan, question = asked.plan, asked.question.model_dump(mode="json")
        found.append({"asked": text, "plan": plan.model_dump(mode="json"), "question": question})
    return found


async def audits(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the critic has against plans: those of the runs, and those of the runs after them."""
    critic = load_vlm("mini?batch=1", role="critic")
    audit = PlanAudit(lambda: critic)
    planned = [(run["request"], run["events"][0]["plan"]) for run in runs if len(run["events"]) > 1]
    found = []
    for (text, own), (_, other) in pairwise(planned):
        for plan in (own, other):
            objection = await audit.objection(Request.of(text), Plan.model_validate(plan))
            found.append({"asked": text, "plan": plan, "objection": objection})
    return found


def planner_of() -> VlmPlanner:
    """Return the planner of `interleave generate`, one call of a model at a time."""
    model = load_vlm("mini?batch=1", role="planner")
    return VlmPlanner(model, load_pack("mini"), check=model.plan_check)  # type: ignore[attr-defined]


async def answered(out: Path, asked: list[str], max_attempts: int) -> list[dict[str, Any]]:
    """Answer requests as `interleave generate` does, one call of a model at a time."""
    planner = planner_of()
    critic = VlmCritic(load_vlm("mini?batch=1", role="critic"), load_pack("mini"))
    generator = load_generator("mini")
    rules = Rules(max_attempts=max_attempts)
    runs = []
    for text in asked:
        events: list[dict[str, Any]] = []
        request = accept_request(Request.of(text), {})
        try:
            async for event in interleave(
                request, planner=planner, generator=generator, critic=critic, rules=rules
            ):
                events.append(as_json(event) | kept(event, out / "images"))
        except Asked as asked:
            events.append({"type": "asked", "question": asked.question.model_dump(mode="json")})
        runs.append({"request": text, "events": events})
    return runs


def kept(event: object, images: Path) -> dict[str, Any]:
    """Write the image of an event, if it has one, and return its name."""
    if not isinstance(event, Drawn):
        return {}
    name = f"{len([*images.iterdir()]):04}.rgb"
    (images / name).write_bytes(event.image.tobytes())
    return {"image": name}


def as_json(event: object) -> dict[str, Any]:
    if isinstance(event, Planned):
        return {"type": "planned", "plan": event.plan.model_dump(mode="json")}
    if isinstance(event, Drawn):
        slot = {"step": event.slot.step, "attempt": event.slot.attempt}
        return {
            "type": "drawn",
            "slot": slot,
            "prompt": event.prompt,
            "seed": event.seed,
            "size": list(event.image.size),
        }
    if isinstance(event, Judged):
        slot = {"step": event.slot.step, "attempt": event.slot.attempt}
        return {"type": "judged", "slot": slot, "verdict": event.verdict.model_dump(mode="json")}
    assert isinstance(event, StepFinished)
    shown = event.attempt.number if event.attempt else None
    return {"type": "finished", "step": event.step.number, "attempt": shown, "forced": event.forced}


if __name__ == "__main__":
    main()
