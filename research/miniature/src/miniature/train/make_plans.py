"""Has a planner plan worked requests that it has not learned, and sorts right plans from wrong ones.

    python -m miniature.train.make_plans PLANNER FILE... > plans.jsonl

Each line of the output has a request and the prompts of its plan, for `made_plans.jsonl.gz`. A plan with the
things, states and relations of the written one in every image is right, wherever they stand. It is wrong if
something is missing or added, or a step is impossible. Others may be right in another way and are left out.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from interleave import InputError
from interleave.local.processors import load_processor
from interleave.local.silence import quiet
from interleave.plugin import agents
from interleave_mini.language.prompts import parse_prompt
from interleave_mini.world.scene import Scene
from miniature.grammar.worked_examples import parse_worked_examples
from miniature.train.made_plans import MadePlan
from miniature.train.wrong_plans import ADDED, MISSING, something_else

_TOGETHER, _LONGEST = 96, 420


def judged(request: str, prompts: Sequence[str], written: Sequence[str]) -> MadePlan | None:
    """Compare a plan with the written one; `None` if it may be right in another way."""
    made, right = _scenes(prompts), _scenes(written)
    both = zip(made, right, strict=False)
    alike = min(len(made), len(right))
    place = next((at for at, (one, other) in enumerate(both) if _contents(one) != _contents(other)), alike)
    if place == len(right):
        return MadePlan(request, tuple(prompts), *((ADDED, written[-1]) if len(prompts) > place else ()))
    if place == len(prompts):
        return MadePlan(request, tuple(prompts), MISSING, written[place])
    is_impossible = len(made) < len(prompts)
    if is_impossible or _kinds(made[place]) != _kinds(right[place]):
        return MadePlan(request, tuple(prompts), something_else(place + 1), written[place])
    return None


def _scenes(prompts: Sequence[str]) -> list[Scene]:
    """Return the images up to the first impossible one."""
    scenes: list[Scene] = []
    for prompt in prompts:
        try:
            scenes.append(parse_prompt(prompt, scenes[-1] if scenes else None))
        except InputError:
            break
    return scenes


def _contents(scene: Scene) -> tuple[Counter[Any], Counter[Any]]:
    """Return all things, and what carries what, wherever they are."""
    loads = [
        (each.kind, each.load.relation, each.load.thing.kind) for each in scene.things.values() if each.load
    ]
    things = [(each.kind, each.colour, each.state) for each in scene.everything.values()]
    return Counter(things), Counter(loads)


def _kinds(scene: Scene) -> Counter[str]:
    return Counter(each.kind for each in scene.everything.values())


def planned(model: Path, requests: Sequence[str]) -> Iterator[list[str]]:
    """Yield the prompts of a model's plan for each request; an unreadable plan has none."""
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    device = "cuda" if torch.cuda.is_available() else "cpu"
    with quiet():
        planner = Qwen3VLForConditionalGeneration.from_pretrained(model, dtype=torch.float32).to(device)
        tokenizer = load_processor(model, "qwen3_vl").tokenizer
    tokenizer.padding_side = "left"
    for start in range(0, len(requests), _TOGETHER):
        asked = [
            [{"role": "user", "content": [{"type": "text", "text": part} for part in ("Plan: ", request)]}]
            for request in requests[start : start + _TOGETHER]
        ]
        texts = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
        batch = tokenizer(texts, add_special_tokens=False, padding=True, return_tensors="pt").to(device)
        with torch.no_grad():
            said = planner.generate(**batch, do_sample=False, max_new_tokens=_LONGEST)
        replies = said[:, batch.input_ids.shape[1] :]
        yield from map(_prompts, tokenizer.batch_decode(replies, skip_special_tokens=True))


def _prompts(reply: str) -> list[str]:
    try:
        return [step.prompt or "" for step in agents.parse_plan(reply).steps]
    except InputError:
        return []


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("planner", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    given = parser.parse_args()
    examples = [each for file in given.files for each in parse_worked_examples(file.read_text("utf-8"))]
    asked = [(each.requests[0], [prompt for prompt, _ in each.plan]) for each in examples]
    made = planned(given.planner, [request for request, _ in asked])
    for (request, written), prompts in zip(asked, made, strict=True):
        if prompts and (found := judged(request, prompts, written)):
            fault = {"fault": found.fault, "better": found.better} if found.fault else {}
            print(json.dumps({"request": request, "plan": found.prompts, **fault}))


if __name__ == "__main__":
    main()
