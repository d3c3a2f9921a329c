"""Collections for tests: run folders written directly, with images of a few pixels and scores as wanted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from PIL import Image

from interleave.agents.prompts import load_pack
from interleave.config.run_config import PackConfig, RoleConfig, RunConfig
from interleave.images import encode_png
from interleave.runs.folder import ImageStore
from interleave.runs.journal import RequestPart, Status
from interleave.runs.record import AttemptRecord, RunRecord, StepRecord
from interleave.types import Outcome, Plan, PlanStep, Verdict

ACCEPTED, REJECTED, UNREADABLE = Outcome.ACCEPTED, Outcome.REJECTED, Outcome.UNREADABLE
SIZE = (8, 6)


@dataclass(frozen=True)
class Try:
    """One attempt: the verdict on it and the marks for it; None for what is not there."""

    outcome: Outcome | None = ACCEPTED
    semantics: float | None = 8.0
    quality: float | None = 8.0
    failure: str | None = None
    refined: str | None = "better"


REFUSED = Try(REJECTED, 2.0, 8.0)


def write_run(
    collection: Path,
    name: str,
    steps: Sequence[Sequence[Try]],
    *,
    request: str | Sequence[str | Image.Image] = "How a flower grows",
    captions: bool = True,
    status: Status = "done",
    planned: bool = True,
    reasoning: str = "A flower.",
) -> Path:
    """A run with these attempts in each step; a step without attempts is text only."""
    folder = collection / name
    folder.mkdir(parents=True)
    store = ImageStore(folder)
    parts = [request] if isinstance(request, str) else request
    numbers = range(1, len(steps) + 1)
    plan = Plan(
        steps=tuple(_plan_step(number, bool(steps[number - 1]), captions) for number in numbers),
        reasoning=reasoning,
    )
    record = RunRecord(
        software="test",
        status=status,
        request=tuple(_part(part, store) for part in parts),
        config=_config(),
        plan=plan if planned else None,
        steps=tuple(_step(step, tries, store, name) for step, tries in zip(plan.steps, steps, strict=True)),
    )
    (folder / "run.json").write_text(record.model_dump_json(indent=1) + "\n", "utf-8")
    _add_scores(collection, name, steps)
    return folder


def make_image(text: str, size: tuple[int, int] = SIZE) -> Image.Image:
    """An image of its own for every text."""
    rng = Random(text)
    return Image.frombytes("RGB", size, rng.randbytes(size[0] * size[1] * 3))


def random_collection(folder: Path, rng: Random, runs: int) -> Path:
    """Any run folders whatever: scores missing, failed or equal, verdicts unreadable, steps of text only."""
    folder.mkdir(parents=True)
    names = [f"runs/{number % 3}/{number:03d}" for number in range(runs)]
    rng.shuffle(names)
    for name in names:
        steps = [
            [_random_try(rng) for _ in range(rng.choice((0, 1, 1, 2, 3, 5)))]
            for _ in range(rng.randint(1, 4))
        ]
        write_run(folder, name, steps, request=f"Request {rng.randint(0, 20)}", captions=rng.random() < 0.8)
    scores = folder / "scores" / "made.jsonl"
    if not scores.exists():
        scores.parent.mkdir(exist_ok=True)
        scores.touch()
    return folder


def _random_try(rng: Random) -> Try:
    outcome = rng.choice((ACCEPTED, ACCEPTED, REJECTED, REJECTED, REJECTED, UNREADABLE, None))
    if rng.random() < 0.1:
        return Try(outcome, None, None)
    if rng.random() < 0.1:
        return Try(outcome, failure="no answer")
    marks = [rng.choice((0.0, 5.0, 8.0, 10.0, round(rng.uniform(0, 10), 2))) for _ in range(2)]
    return Try(outcome, *marks, refined=rng.choice(("better", "better", None)))


def _plan_step(number: int, drawn: bool, captions: bool) -> PlanStep:
    return PlanStep(
        number=number,
        name=f"Part {number}",
        instruction=f"Do {number}.",
        prompt=f"Draw {number}." if drawn else None,
        caption=f"This is {number}." if captions else None,
    )


def _part(part: str | Image.Image, store: ImageStore) -> RequestPart:
    return RequestPart(text=part) if isinstance(part, str) else RequestPart(image=_put(part, store))


def _put(image: Image.Image, store: ImageStore) -> str:
    """As the store does it, but without waiting for the disk."""
    data = encode_png(image)
    name = f"{hashlib.sha256(data).hexdigest()}.png"
    store.folder.mkdir(exist_ok=True)
    store.path(name).write_bytes(data)
    return name


def _step(step: PlanStep, tries: Sequence[Try], store: ImageStore, name: str) -> StepRecord:
    attempts: list[AttemptRecord] = []
    prompt = step.prompt or ""
    for number, each in enumerate(tries, start=1):
        verdict = None if each.outcome is None else _verdict(each)
        image = _put(make_image(f"{name}/{step.number}/{number}"), store)
        attempts.append(
            AttemptRecord(number=number, prompt=prompt, seed=number, image=image, verdict=verdict)
        )
        prompt = (verdict.refined_prompt if verdict else None) or prompt
    accepted = bool(tries) and tries[-1].outcome is ACCEPTED
    return StepRecord(
        plan=step,
        attempts=tuple(attempts),
        shown=len(attempts) or None,
        accepted=accepted or not tries,
        forced=bool(tries) and not accepted,
        finished=True,
    )


def _verdict(each: Try) -> Verdict:
    assert each.outcome is not None
    refined = each.refined if each.outcome is REJECTED else None
    return Verdict(outcome=each.outcome, reasoning="Looked at it.", refined_prompt=refined)


def _config() -> RunConfig:
    pack = load_pack()
    prompts = PackConfig(name=pack.name, version=pack.description.version, digest=pack.digest)
    oracle = RoleConfig(spec="oracle")
    return RunConfig(planner=oracle, critic=oracle, generator=RoleConfig(spec="world"), prompts=prompts)


def _add_scores(collection: Path, name: str, steps: Sequence[Sequence[Try]]) -> None:
    path = collection / "scores" / "made.jsonl"
    path.parent.mkdir(exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        for step, tries in enumerate(steps, start=1):
            for attempt, each in enumerate(tries, start=1):
                place = {"run": name, "step": step, "attempt": attempt}
                if each.failure is not None:
                    file.write(json.dumps({**place, "failure": each.failure}) + "\n")
                elif each.semantics is not None:
                    marks = {"semantics": each.semantics, "quality": each.quality}
                    file.write(json.dumps({**place, **marks}) + "\n")
