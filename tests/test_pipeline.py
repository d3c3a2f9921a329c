"""The loop: plan, draw, judge, redraw."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from PIL import Image

from interleave.agents.critic import CriticInput
from interleave.agents.planner import GivenPlan
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.config.run_config import Rules, SourceRule
from interleave.errors import ConfigurationError
from interleave.events import Event, Planned, StepFinished
from interleave.pipeline import attempt_seed, interleave
from interleave.types import Outcome, Plan, PlanStep, Request, Slot, Verdict

ACCEPT = Verdict(outcome=Outcome.ACCEPTED)
REJECT = Verdict(outcome=Outcome.REJECTED, refined_prompt="a cat, whole body")
REJECT_WITHOUT_PROMPT = Verdict(outcome=Outcome.REJECTED)
UNREADABLE = Verdict(outcome=Outcome.UNREADABLE)


@dataclass
class Painter:
    """Paints a colour of its own for every request, and remembers what it was asked."""

    capabilities: GeneratorCapabilities = field(default_factory=lambda: GeneratorCapabilities(max_sources=2))
    asked: list[ImageRequest] = field(default_factory=list)

    async def generate(self, request: ImageRequest) -> Image.Image:
        self.asked.append(request)
        return Image.new("RGB", (8, 8), (len(self.asked), 0, 0))


@dataclass
class Judge:
    """Says what it is told to say, then accepts; remembers what it saw."""

    verdicts: list[Verdict]
    seen: list[CriticInput] = field(default_factory=list)

    async def judge(self, seen: CriticInput) -> Verdict:
        self.seen.append(seen)
        return self.verdicts.pop(0) if self.verdicts else ACCEPT


def plan(*prompts: str | None, first: int = 1) -> Plan:
    return Plan(
        steps=tuple(
            PlanStep(number=number, instruction=f"part {number}", prompt=prompt)
            for number, prompt in enumerate(prompts, start=first)
        )
    )


def run(
    made: Plan,
    verdicts: list[Verdict] | None = None,
    *,
    request: Request | None = None,
    painter: Painter | None = None,
    **rules: object,
) -> tuple[list[Event], Painter, Judge]:
    painter, judge = painter or Painter(), Judge(list(verdicts or []))

    async def collect() -> list[Event]:
        running = interleave(
            request or Request.of("a story"),
            planner=GivenPlan(made),
            generator=painter,
            critic=judge,
            rules=Rules(**rules),  # type: ignore[arg-type]
        )
        return [event async for event in running]

    return asyncio.run(collect()), painter, judge


def finished(events: list[Event]) -> list[StepFinished]:
    return [event for event in events if isinstance(event, StepFinished)]


def test_the_plan_comes_first_and_every_step_ends() -> None:
    events, _, _ = run(plan("a cat", "add a hat"))
    assert isinstance(events[0], Planned)
    assert [event.step.number for event in finished(events)] == [1, 2]


def test_an_accepted_image_is_drawn_once() -> None:
    _, painter, judge = run(plan("a cat"))
    assert len(painter.asked) == len(judge.seen) == 1


def test_a_rejected_image_is_redrawn_with_the_critics_prompt() -> None:
    _, painter, _ = run(plan("a cat"), [REJECT])
    assert [request.prompt for request in painter.asked] == ["a cat", "a cat, whole body"]


def test_every_retry_starts_from_the_same_source_never_from_the_failed_image() -> None:
    events, painter, _ = run(plan("a cat", "add a hat"), [ACCEPT, REJECT, REJECT])
    shown = finished(events)[0].attempt
    assert shown is not None
    assert [request.sources for request in painter.asked[1:]] == [(shown.image,)] * 3


def test_retries_have_different_seeds_and_reruns_the_same() -> None:
    _, first, _ = run(plan("a cat"), [REJECT, REJECT])
    _, second, _ = run(plan("a cat"), [REJECT, REJECT])
    seeds = [request.seed for request in first.asked]
    assert len(set(seeds)) == 3
    assert seeds == [request.seed for request in second.asked]


def test_another_run_seed_gives_other_seeds() -> None:
    assert attempt_seed(0, Slot(1, 1)) != attempt_seed(1, Slot(1, 1))
    assert all(0 <= attempt_seed(seed, Slot(1, 1)) < 2**31 for seed in range(1000))


def test_the_critic_of_a_first_image_sees_a_white_canvas_of_its_size() -> None:
    _, painter, judge = run(plan("a cat"))
    assert painter.asked[0].sources == ()
    assert judge.seen[0].before.size == judge.seen[0].after.size == (8, 8)
    assert judge.seen[0].before.getcolors() == [(64, (255, 255, 255))]


def test_the_critic_is_told_the_prompt_that_made_this_very_image() -> None:
    _, _, judge = run(plan("a cat"), [REJECT])
    assert [(seen.planned_prompt, seen.prompt) for seen in judge.seen] == [
        ("a cat", "a cat"),
        ("a cat", "a cat, whole body"),
    ]


def test_E04_a_critic_that_always_refuses_costs_exactly_the_attempts_allowed() -> None:
    events, painter, judge = run(plan("a cat"), [REJECT] * 9, max_attempts=3)
    assert len(painter.asked) == len(judge.seen) == 3  # the last attempt is judged too
    (step,) = finished(events)
    assert step.forced
    assert step.attempt is not None
    assert step.attempt.number == 3


def test_without_an_accepted_attempt_the_one_the_critic_believes_in_most_is_kept() -> None:
    doubts = [REJECT.model_copy(update={"confidence": belief}) for belief in (0.2, 0.4, 0.1)]
    events, _, _ = run(plan("a cat"), doubts, max_attempts=3)
    attempt = finished(events)[0].attempt
    assert attempt is not None
    assert attempt.number == 2


def test_a_forced_image_is_what_the_next_step_starts_from() -> None:
    doubts = [REJECT.model_copy(update={"confidence": belief}) for belief in (0.4, 0.2)]
    events, painter, _ = run(plan("a cat", "add a hat"), doubts, max_attempts=2)
    chosen = finished(events)[0].attempt
    assert chosen is not None
    assert painter.asked[-1].sources == (chosen.image,)


def test_E02_a_refusal_without_a_better_prompt_draws_the_planned_one_again_with_the_next_seed() -> None:
    _, painter, _ = run(plan("a cat"), [REJECT, REJECT_WITHOUT_PROMPT])
    assert [request.prompt for request in painter.asked] == ["a cat", "a cat, whole body", "a cat"]
    assert painter.asked[0].seed != painter.asked[2].seed


def test_E05_an_unreadable_verdict_is_no_refusal_the_same_prompt_is_drawn_again() -> None:
    events, painter, _ = run(plan("a cat"), [REJECT, UNREADABLE])
    assert [request.prompt for request in painter.asked] == [
        "a cat",
        "a cat, whole body",
        "a cat, whole body",
    ]
    assert not finished(events)[0].forced


def test_E03_refinements_that_flip_stop_at_the_limit() -> None:
    other = REJECT.model_copy(update={"refined_prompt": "a dog"})
    _, painter, _ = run(plan("a cat"), [REJECT, other] * 5, max_attempts=5)
    assert [request.prompt for request in painter.asked[1:]] == ["a cat, whole body", "a dog"] * 2


def test_a_step_of_text_only_never_reaches_a_generator() -> None:
    events, painter, judge = run(plan(None, "a cat", None))
    assert len(painter.asked) == len(judge.seen) == 1
    assert [event.attempt is None for event in finished(events)] == [True, False, True]


def test_a_continuation_starts_from_the_users_last_image_and_keeps_its_numbers() -> None:
    given = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    events, painter, judge = run(plan("go on", first=3), request=Request.of(["once", *given, "continue"]))
    assert painter.asked[0].sources == (given[1],)
    assert judge.seen[0].before is given[1]
    assert painter.asked[0].slot.step == finished(events)[0].step.number == 3


def test_history_gives_all_images_oldest_first_within_what_the_generator_takes() -> None:
    _, painter, _ = run(plan("a", "b", "c", "d"), sources=SourceRule.HISTORY)
    assert [len(request.sources) for request in painter.asked] == [0, 1, 2, 2]
    assert painter.asked[3].sources[-1].getpixel((0, 0)) == (3, 0, 0)


def test_named_sources_are_taken_in_their_order() -> None:
    steps = [*plan("a", "b").steps, PlanStep(number=3, prompt="c", sources=(2, 1))]
    _, painter, judge = run(Plan(steps=tuple(steps)))
    assert [image.getpixel((0, 0)) for image in painter.asked[2].sources] == [(2, 0, 0), (1, 0, 0)]
    assert judge.seen[2].before.getpixel((0, 0)) == (1, 0, 0)


def test_a_step_may_start_from_nothing_again() -> None:
    steps = [*plan("a").steps, PlanStep(number=2, prompt="b", sources=())]
    _, painter, _ = run(Plan(steps=tuple(steps)))
    assert painter.asked[1].sources == ()


@pytest.mark.parametrize(
    ("capabilities", "made"),
    [
        (GeneratorCapabilities(max_sources=0), plan("a", "b")),
        (GeneratorCapabilities(text_to_image=False), plan("a")),
        (
            GeneratorCapabilities(max_sources=1),
            Plan(steps=(*plan("a", "b").steps, PlanStep(number=3, prompt="c", sources=(1, 2)))),
        ),
    ],
    ids=["no edits", "only edits", "too many sources"],
)
def test_what_the_generator_cannot_do_is_refused_before_anything_is_drawn(
    capabilities: GeneratorCapabilities, made: Plan
) -> None:
    painter = Painter(capabilities)
    with pytest.raises(ConfigurationError):
        run(made, painter=painter)
    assert painter.asked == []


def test_a_generator_that_only_draws_from_text_can_draw_single_images() -> None:
    _, painter, _ = run(plan("a", None), painter=Painter(GeneratorCapabilities(max_sources=0)))
    assert len(painter.asked) == 1
