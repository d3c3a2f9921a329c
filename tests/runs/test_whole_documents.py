"""Rollbacks, audits, anchors and assets in runs: decided by the run itself, journalled, resumable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import interleave
from interleave.agents.auditor import Document, VlmAuditor
from interleave.agents.critic import CriticInput
from interleave.agents.prompts import load_pack
from interleave.agents.replies import parse_findings, parse_plan, render_findings, render_plan
from interleave.backends.protocols import (
    GeneratorCapabilities,
    ImageRequest,
    Message,
    Reply,
    Sampling,
    VlmCapabilities,
)
from interleave.errors import ReplyError, RunError
from interleave.runs.folder import comparable
from interleave.runs.journal import RedrawDecided, StepFinished, Undone, read_journal
from interleave.runs.record import read_record
from interleave.train.data.trajectories import Trajectory, read_trajectory
from interleave.types import Asset, Finding, GivenAsset, Outcome, Plan, PlanStep, Request, Verdict


@dataclass
class Painter:
    """Paints a colour that follows from the request, so that a run can be repeated."""

    capabilities: GeneratorCapabilities = field(default_factory=lambda: GeneratorCapabilities(max_sources=4))
    asked: list[ImageRequest] = field(default_factory=list)
    stops_after: int | None = None
    """The number of images after which it stops the run, as Ctrl-C would."""

    async def generate(self, request: ImageRequest) -> Image.Image:
        if len(self.asked) == self.stops_after:
            raise KeyboardInterrupt
        self.asked.append(request)
        return Image.new("RGB", (16, 16), (request.seed % 251, len(request.sources), request.seed % 7))


@dataclass
class Critic:
    """Refuses the images of a step until it was drawn so often; finds what it is told to."""

    refuses: dict[int, int] = field(default_factory=dict)
    finds: list[tuple[Finding, ...]] = field(default_factory=list)
    judged: list[int] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)

    async def judge(self, seen: CriticInput) -> Verdict:
        self.judged.append(seen.slot.step)
        step = seen.slot.step
        if seen.slot.attempt <= self.refuses.get(step, 0):
            return Verdict(outcome=Outcome.REJECTED, confidence=0.1 * seen.slot.attempt)
        return Verdict(outcome=Outcome.ACCEPTED, confidence=0.9)

    async def audit(self, document: Document) -> tuple[Finding, ...]:
        self.documents.append(document)
        return self.finds[document.round - 1] if document.round <= len(self.finds) else ()


def story(count: int, *, assets: tuple[Asset, ...] = ()) -> Plan:
    steps = (
        PlanStep(number=number, prompt=f"part {number}", scene=f"all of part {number}")
        for number in range(1, count + 1)
    )
    return Plan(steps=tuple(steps), assets=assets)


def run(
    folder: Path, critic: Critic, *, painter: Painter | None = None, steps: int = 4, **options: Any
) -> Painter:
    painter = painter or Painter()
    options.setdefault("plan", story(steps))
    interleave.generate("a story", out=folder, generator=painter, critic=critic, max_attempts=2, **options)
    return painter


def redraws(folder: Path) -> list[tuple[str | None, int]]:
    return [(line.cause, line.step) for line in read_journal(folder) if isinstance(line, RedrawDecided)]


# Rollbacks


def test_without_rollbacks_a_refused_step_is_forced(tmp_path: Path) -> None:
    run(tmp_path / "run", Critic({3: 9}))
    assert read_record(tmp_path / "run").forced_steps == (3,)
    assert redraws(tmp_path / "run") == []


def test_a_run_goes_back_and_comes_through(tmp_path: Path) -> None:
    painter = run(tmp_path / "run", Critic({3: 2}), drift_control="rollback=2")
    record = read_record(tmp_path / "run")
    assert record.forced_steps == ()
    assert redraws(tmp_path / "run") == [("rollback", 3)]
    assert [len(step.attempts) for step in record.steps] == [1, 1, 3, 1]
    assert len(painter.asked) == 6  # step 4 was not drawn over the refused image
    assert all(step.by_hand is None for step in record.steps)


def test_each_time_it_goes_further_back_and_no_further_than_allowed(tmp_path: Path) -> None:
    run(tmp_path / "run", Critic({3: 99}), drift_control="rollback=3")
    steps = [step for _, step in redraws(tmp_path / "run")]
    assert len(steps) == 3
    assert steps == sorted(steps, reverse=True)
    record = read_record(tmp_path / "run")
    assert record.forced_steps == (3,)
    assert record.status == "done"


def test_another_way_that_is_no_better_is_undone(tmp_path: Path) -> None:
    class Disappointed(Critic):
        async def judge(self, seen: CriticInput) -> Verdict:
            verdict = await super().judge(seen)
            return verdict.model_copy(update={"confidence": 1 / (1 + len(self.judged))})

    run(tmp_path / "run", Disappointed({2: 99}), steps=3, drift_control="rollback=1")
    entries = read_journal(tmp_path / "run")
    assert sum(isinstance(entry, Undone) for entry in entries) == 1
    step = read_record(tmp_path / "run").steps[1]
    assert step.forced
    assert step.shown in (1, 2)  # an image from before the rollback


def test_a_step_without_a_scene_whose_image_moved_too_far_counts_as_refused(tmp_path: Path) -> None:
    plain = Plan(steps=tuple(step.model_copy(update={"scene": None}) for step in story(4).steps))
    run(tmp_path / "run", Critic(), painter=Fading(3), plan=plain, drift_control="rollback=1,drift=2")
    drifts = [line.drift for line in read_journal(tmp_path / "run") if isinstance(line, StepFinished)]
    assert any(drift is not None and drift.outside > 2 for drift in drifts)
    assert redraws(tmp_path / "run") == [("rollback", 3)]


class Fading(Painter):
    """Adds a dot to the image before it; at some steps the rest gets lighter, too."""

    def __init__(self, *fades_at: int) -> None:
        super().__init__()
        self.fading = fades_at

    async def generate(self, request: ImageRequest) -> Image.Image:
        self.asked.append(request)
        if not request.sources:
            return Image.new("RGB", (32, 32), (40, 90, 140))
        image = request.sources[-1].copy()
        if request.slot.step in self.fading:
            image = image.point(lambda level: level + 8)
        image.paste((250, 0, request.seed % 200), (4 * request.slot.step, 8, 4 * request.slot.step + 4, 12))
        return image


def test_a_step_whose_image_moved_too_far_is_drawn_anew_from_its_scene_once(tmp_path: Path) -> None:
    painter = run(tmp_path / "run", Critic(), painter=Fading(3), drift_control="drift=2")
    assert redraws(tmp_path / "run") == [("drift", 3)]
    assert [asked.prompt for asked in painter.asked] == [
        "part 1",
        "part 2",
        "part 3",
        "all of part 3",
        "part 4",
    ]
    assert [len(asked.sources) for asked in painter.asked] == [0, 1, 1, 0, 1]
    record = read_record(tmp_path / "run")
    assert [step.anew for step in record.steps] == [False, False, True, False]
    assert [len(step.attempts) for step in record.steps] == [1, 1, 2, 1]  # step 4 was not drawn before
    assert all(step.by_hand is None for step in record.steps)
    assert "Redrew step 3 from its scene" in (tmp_path / "run" / "document.html").read_text("utf-8")
    trajectory = read_trajectory(tmp_path, "run")
    assert isinstance(trajectory, Trajectory)
    superseded, shown = record.steps[2].attempts
    assert trajectory.critic_input(record.steps[2], shown).planned_prompt == "all of part 3"
    assert trajectory.critic_input(record.steps[2], superseded).planned_prompt == "part 3"
    assert len(trajectory.sources_of(record.steps[2], superseded)) == 1


def test_an_image_drawn_anew_that_the_critic_refuses_is_taken_back(tmp_path: Path) -> None:
    class Attached(Critic):
        async def judge(self, seen: CriticInput) -> Verdict:
            refused = seen.planned_prompt.startswith("all of")
            outcome = Outcome.REJECTED if refused else Outcome.ACCEPTED
            return Verdict(outcome=outcome, confidence=0.1 if refused else 0.9)

    run(tmp_path / "run", Attached(), painter=Fading(3), drift_control="drift=2,rollback=2")
    assert redraws(tmp_path / "run") == [("drift", 3)]
    assert sum(isinstance(entry, Undone) for entry in read_journal(tmp_path / "run")) == 1
    step = read_record(tmp_path / "run").steps[2]
    assert (step.shown, step.anew, step.forced) == (1, False, False)
    assert len(step.attempts) == 3


@pytest.mark.parametrize("after", range(1, 7))
def test_stopped_at_any_image_a_run_with_rollbacks_ends_as_an_undisturbed_one(
    tmp_path: Path, after: int
) -> None:
    run(tmp_path / "whole", Critic({3: 3}), drift_control="rollback=3")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", Critic({3: 3}), painter=Painter(stops_after=after), drift_control="rollback=3")
    painter = run(tmp_path / "cut", Critic({3: 3}), drift_control="rollback=3")
    assert comparable(tmp_path / "cut") == comparable(tmp_path / "whole")
    images = sum(len(step.attempts) for step in read_record(tmp_path / "whole").steps)
    assert len(painter.asked) == images - after


@pytest.mark.parametrize("kept", range(4, 40, 3))
def test_a_journal_cut_anywhere_goes_on_to_the_same_end(tmp_path: Path, kept: int) -> None:
    """As a crash leaves it: the first lines are there, decisions of the run among them, the rest is not."""
    finds = [(Finding(step=2), Finding(step=3))]
    run(tmp_path / "run", Critic({3: 3}, finds), drift_control="rollback=3,audit=2")
    whole = comparable(tmp_path / "run")
    journal = tmp_path / "run" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    if kept >= len(lines):
        pytest.skip("the journal is shorter")
    journal.write_bytes(b"".join(lines[:kept]))
    (tmp_path / "run" / "run.json").unlink()
    run(tmp_path / "run", Critic({3: 3}, finds), drift_control="rollback=3,audit=2")
    assert comparable(tmp_path / "run") == whole


# Audits


@pytest.mark.parametrize("decisions_kept", [0, 1])
def test_a_run_stopped_between_an_audit_and_its_decisions_decides_then(
    tmp_path: Path, decisions_kept: int
) -> None:
    finds = [(Finding(step=2), Finding(step=3))]
    run(tmp_path / "run", Critic(finds=finds), drift_control="audit=1")
    whole = comparable(tmp_path / "run")
    journal = tmp_path / "run" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    audited = next(place for place, line in enumerate(lines) if b'"audited"' in line)
    journal.write_bytes(b"".join(lines[: audited + 1 + decisions_kept]))
    (tmp_path / "run" / "run.json").unlink()
    critic = Critic(finds=finds)
    run(tmp_path / "run", critic, drift_control="audit=1")
    assert redraws(tmp_path / "run") == [("audit", 2), ("audit", 3)]
    assert comparable(tmp_path / "run") == whole
    assert critic.documents == []  # the whole was looked at before


def test_only_the_steps_that_are_found_are_redone(tmp_path: Path) -> None:
    critic = Critic(finds=[(Finding(step=2, reasoning="the fox is blue", prompt="a red fox"),)])
    painter = run(tmp_path / "run", critic, drift_control="audit=3")
    record = read_record(tmp_path / "run")
    assert [len(step.attempts) for step in record.steps] == [1, 2, 1, 1]
    assert painter.asked[-1].prompt == "a red fox"
    assert [audit.findings for audit in record.audits] == [critic.finds[0], ()]
    assert len(critic.documents) == 2  # the second look found nothing, so there is no third
    assert [each.step.number for each in critic.documents[0].steps] == [1, 2, 3, 4]


def test_audits_are_bounded(tmp_path: Path) -> None:
    critic = Critic(finds=[(Finding(step=1),)] * 9)
    run(tmp_path / "run", critic, drift_control="audit=2")
    assert len(critic.documents) == 2
    assert redraws(tmp_path / "run") == [("audit", 1)] * 2


def test_a_forced_step_that_an_audit_keeps_stays_forced(tmp_path: Path) -> None:
    run(tmp_path / "run", Critic({3: 99}, [(Finding(step=2),)]), drift_control="audit=1")
    assert read_record(tmp_path / "run").forced_steps == (3,)


def test_a_critic_that_cannot_audit_judges_every_image_by_its_whole_scene(tmp_path: Path) -> None:
    class Plain:
        def __init__(self) -> None:
            self.seen: list[CriticInput] = []

        async def judge(self, seen: CriticInput) -> Verdict:
            self.seen.append(seen)
            wrong = seen.planned_prompt == "all of part 2" and len(self.seen) < 6
            return Verdict(outcome=Outcome.REJECTED if wrong else Outcome.ACCEPTED)

    critic = Plain()
    run(tmp_path / "run", critic, steps=3, drift_control="audit=2")  # type: ignore[arg-type]
    assert {"all of part 1", "all of part 2", "all of part 3"} <= {
        seen.planned_prompt for seen in critic.seen
    }
    assert redraws(tmp_path / "run") == [("audit", 2)]


class Reader:
    """A model that answers with what it is told to, and remembers what it was shown."""

    capabilities = VlmCapabilities()

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.asked: list[Sequence[Message]] = []

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        self.asked.append(messages)
        return Reply(self.replies.pop(0))


async def _audited(*replies: str) -> tuple[tuple[Finding, ...], Reader]:
    from interleave.agents.auditor import FinishedStep

    reader = Reader(*replies)
    steps = tuple(FinishedStep(step, Image.new("RGB", (8, 8)), "p") for step in story(3).steps)
    return await VlmAuditor(reader, load_pack()).audit(Document(steps, (Asset(name="fox"),))), reader


def test_a_model_sees_all_images_at_once_and_a_bad_step_is_asked_about_again() -> None:
    import asyncio

    found = Finding(step=2, reasoning="the fox is blue", assets=("fox",))
    bad = render_findings([Finding(step=9)])
    findings, reader = asyncio.run(_audited(bad, render_findings([found])))
    assert findings == (found,)
    images = [part for part in reader.asked[0][-1].parts if hasattr(part, "image")]
    assert len(images) == 3
    assert "no step 9" in reader.asked[1][-1].text


def test_an_audit_that_cannot_be_read_changes_nothing() -> None:
    import asyncio

    findings, reader = asyncio.run(_audited(*["what?"] * 9))
    assert findings == ()
    assert 1 < len(reader.asked) <= 4


@pytest.mark.parametrize("text", ['{"findings": 3}', '{"findings": [{"problem": "x"}]}', "all is well"])
def test_an_audit_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(ReplyError):
        parse_findings(text)


# Assets


def test_assets_are_stored_shown_and_resumed(tmp_path: Path) -> None:
    fox = GivenAsset("fox", Image.new("RGB", (20, 20), "red"))
    request = Request.of("a story")
    request = Request(request.parts, (fox,))
    plan = Plan(
        steps=(PlanStep(number=1, prompt="the fox wakes"), PlanStep(number=2, prompt="the sun rises")),
        assets=(Asset(name="fox", description="a little red fox"),),
    )
    painter = Painter()
    options: dict[str, Any] = {"generator": painter, "critic": Critic(), "plan": plan}
    interleave.generate(request, out=tmp_path / "run", **options)
    assert [len(asked.sources) for asked in painter.asked] == [1, 1]
    assert not painter.asked[0].changes_last
    assert painter.asked[0].prompt.endswith("fox: a little red fox.")
    record = read_record(tmp_path / "run")
    assert [asset.name for asset in record.assets] == ["fox"]
    drift = record.steps[0].drift
    assert drift is not None
    assert set(drift.identity) == {"fox"}
    assert "a little red fox" in (tmp_path / "run" / "document.html").read_text("utf-8")
    again = interleave.generate(request, out=tmp_path / "run", **options)
    assert again.status == "done"
    assert len(painter.asked) == 2
    blue = Request(request.parts, (GivenAsset("fox", Image.new("RGB", (20, 20), "blue")),))
    with pytest.raises(RunError, match="a different request"):
        interleave.generate(blue, out=tmp_path / "run", **options)


def test_plans_with_assets_and_scenes_are_written_and_read_back() -> None:
    plan = story(2, assets=(Asset(name="fox", kind="character", description="red", step=1),))
    plan = plan.model_copy(
        update={"steps": (plan.steps[0].model_copy(update={"assets": ("fox",)}), plan.steps[1])}
    )
    assert parse_plan(render_plan(plan)) == plan
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_plans_without_them_are_written_as_before() -> None:
    plan = Plan(steps=(PlanStep(number=1, prompt="a cat"),))
    assert set(plan.model_dump()) == {"steps", "reasoning"}
    assert set(plan.model_dump()["steps"][0]) == {
        "number",
        "name",
        "instruction",
        "prompt",
        "caption",
        "sources",
    }
    assert '"assets"' not in render_plan(plan)


def test_an_asset_of_a_step_without_an_image_is_refused() -> None:
    with pytest.raises(ValueError, match="no image"):
        Plan(steps=(PlanStep(number=1, caption="words"),), assets=(Asset(name="fox", step=1),))


# Anchors


def test_an_anchored_step_is_drawn_from_its_scene_and_judged_from_nothing(tmp_path: Path) -> None:
    seen: list[CriticInput] = []

    class Watching(Critic):
        async def judge(self, asked: CriticInput) -> Verdict:
            seen.append(asked)
            return await super().judge(asked)

    painter = run(tmp_path / "run", Watching(), steps=5, drift_control="anchor=2")
    assert [asked.prompt for asked in painter.asked] == [
        "part 1",
        "part 2",
        "all of part 3",
        "part 4",
        "all of part 5",
    ]
    assert [len(asked.sources) for asked in painter.asked] == [0, 1, 0, 1, 0]
    assert seen[2].before.getextrema() == ((255, 255),) * 3


def test_a_long_run_grows_linearly(tmp_path: Path) -> None:
    """Of 300 steps each adds as many bytes to the journal as the first ones do."""
    sizes = {}
    for count in (100, 300):
        run(tmp_path / str(count), Critic(), steps=count, max_steps=500)
        sizes[count] = (tmp_path / str(count) / "journal.jsonl").stat().st_size
    plans = {count: len(story(count).model_dump_json()) for count in sizes}
    own = {count: sizes[count] - 2 * plans[count] for count in sizes}
    assert own[300] == pytest.approx(3 * own[100], rel=0.05)
