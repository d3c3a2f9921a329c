"""What a person can decide about a run: release its plan, redraw a step, choose another attempt, undo.

Each of these checks the decision and adds one line to the journal; nothing is drawn and no model is loaded.
A decision that is refused leaves the folder as it was. Continuing the run then does what follows, and pays
only for what the journal does not have yet. All of them return the record of the run with the decision in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from interleave.backends.registry import note_for, refuse_undrawable, refuse_unloadable
from interleave.config.run_config import RoleConfig
from interleave.errors import FolderInUse, InputError, RunError, first_problem
from interleave.pipeline import derived_seed
from interleave.redaction import secret_in
from interleave.runs.folder import ImageStore, open_journal
from interleave.runs.journal import (
    AttemptChosen,
    DecisionLine,
    Entry,
    GeneratorChanged,
    Journal,
    PlanReleased,
    RedrawDecided,
    Undone,
    is_being_written,
    read_journal,
)
from interleave.runs.journal_files import Lease
from interleave.runs.plan_file import refuse_edited
from interleave.runs.record import RunRecord, StepRecord, fold
from interleave.runs.resolve import unfit_agents
from interleave.runs.steering import Steering, steering_after
from interleave.text import count
from interleave.types import Plan


@dataclass(frozen=True)
class DecidedRun:
    """A run about which a person decides: its lines and what they come to."""

    folder: Path
    entries: list[Entry]
    record: RunRecord
    steering: Steering

    @classmethod
    def of(cls, folder: Path, entries: list[Entry]) -> DecidedRun:
        return cls(folder, entries, fold(entries, where=folder), steering_after(entries))


MadeDecision = PlanReleased | RedrawDecided | AttemptChosen | GeneratorChanged | Undone
Decide = Callable[[DecidedRun], MadeDecision]
"""Checks a decision against a run and returns its line."""


@dataclass(frozen=True)
class CheckedDecision:
    """A decision that fits its run, before it is put on disk."""

    line: MadeDecision | None
    """None where it was decided before and is under way."""
    run: DecidedRun
    """The run with the decision."""
    after: int
    """How many lines the journal had when it was checked."""

    def append_to(self, journal: Journal, entries: list[Entry]) -> None:
        """Add it to the journal that has these lines now; refused where others have come meanwhile."""
        if len(entries) != self.after:
            raise FolderInUse(f"{self.run.folder} has changed meanwhile: look at it, then decide again")
        if self.line is not None:
            journal.append(self.line)


def check_decision(folder: str | Path, decide: Decide) -> CheckedDecision:
    """Check a decision about a run; nothing is written."""
    folder = Path(folder)
    entries = read_journal(folder)
    if is_being_written(folder):
        raise still_written(folder)
    run = DecidedRun.of(folder, entries)
    line = decide(run)
    if is_under_way(run, line):
        return CheckedDecision(None, run, len(entries))
    return CheckedDecision(line, DecidedRun.of(folder, [*entries, line]), len(entries))


def release_plan(folder: str | Path, plan: Plan | None = None, *, by: str = "") -> RunRecord:
    """Let a held run draw its plan, or the plan given here instead.

    A plan can be given until the first image is drawn.
    """
    return _decided(Path(folder), lambda run: release_line(run, plan, by=by))


def redraw_step(
    folder: str | Path,
    step: int,
    *,
    prompt: str | None = None,
    seed: int | None = None,
    generator: str | None = None,
    only_step: bool = False,
    by: str = "",
) -> RunRecord:
    """Draw a step again, and the later steps whose images follow from it unless `only_step` is set.

    Without a seed it is drawn with one that was not used for it before. The run's own seed keeps everything
    as it was but for the prompt or the generator.
    """
    return _decided(
        Path(folder),
        lambda run: redraw_line(
            run, step, prompt=prompt, seed=seed, generator=generator, only_step=only_step, by=by
        ),
    )


def choose_attempt(
    folder: str | Path, step: int, attempt: int, *, only_step: bool = False, by: str = ""
) -> RunRecord:
    """Show another attempt of a step; later steps that follow from it are drawn again unless `only_step`."""
    return _decided(Path(folder), lambda run: choice_line(run, step, attempt, only_step=only_step, by=by))


def change_generator(folder: str | Path, generator: str, *, by: str = "") -> RunRecord:
    """Have all steps that are not finished yet drawn by another generator."""
    return _decided(Path(folder), lambda run: change_line(run, generator, by=by))


def undo_decision(folder: str | Path, *, by: str = "") -> RunRecord:
    """Undo the last decision about steps that still holds; undone again, the one before it."""
    return _decided(Path(folder), lambda run: undo_line(run, by=by))


def carry_over(folder: Path, line: DecisionLine, *, after: int, lease: Lease | None = None) -> None:
    """Put a decision that was checked when the journal had `after` lines on disk; done once.

    For those who keep a checked decision elsewhere until its run is continued: where the journal has grown
    already, the decision is in it.
    """
    with _open_for_decision(folder, lease) as (journal, entries):
        if len(entries) == after:
            journal.append(line)
            journal.sync()


def release_line(run: DecidedRun, plan: Plan | None, *, by: str = "") -> PlanReleased:
    """The checked decision to draw a plan: the run's own, or the one given here."""
    _refuse_late_release(run)
    chosen = plan or run.record.plan
    if chosen is None:
        raise RunError(f"{run.folder} has no plan yet: continue it with 'interleave resume {run.folder}'")
    if plan is None:
        if not run.steering.holds_plan:
            raise RunError(f"the plan of {run.folder} is not held, so there is nothing to approve")
        refuse_edited(run.folder, run.record)
    _refuse_plan(run, chosen)
    return PlanReleased(plan=chosen, by=by)


def choice_line(
    run: DecidedRun, step: int, attempt: int, *, only_step: bool = False, by: str = ""
) -> AttemptChosen:
    """The checked decision to show another attempt of a step."""
    record = drawn_step(run, step)
    found = next((each for each in record.attempts if each.number == attempt), None)
    if found is None:
        have = ", ".join(str(each.number) for each in record.attempts) or "none yet"
        raise InputError(f"step {step} has no attempt {attempt}: its attempts are {have}")
    if found.verdict is None:
        raise InputError(
            f"attempt {attempt} of step {step} has not been judged yet: continue the run first, with "
            f"'interleave resume {run.folder}'"
        )
    if record.finished and record.shown == attempt:
        raise InputError(f"attempt {attempt} of step {step} is the one that is shown already")
    if problem := ImageStore(run.folder).problem_with(found.image):
        raise problem
    keep = _kept(run, step) if only_step else {}
    return AttemptChosen(step=step, attempt=attempt, keep=keep, by=by)


def change_line(run: DecidedRun, generator: str, *, by: str = "") -> GeneratorChanged:
    """The checked decision to draw all that is left by another generator."""
    _refuse_undecidable(run)
    refuse_unloadable(generator, "generator")
    other = _other_generator(run, generator)
    steering, last = run.steering, run.steering.decisions[-1] if run.steering.decisions else None
    under_way = isinstance(last, GeneratorChanged) and run.record.status != "done"
    if under_way and isinstance(last, GeneratorChanged) and last.generator.identity == other.identity:
        return last
    left = sorted(steering.left_to_draw())
    if not left:
        raise RunError(
            f"no step of {run.folder} is left to draw: to draw steps again name the first one, "
            f"with --from-step N --generator {generator}"
        )
    now = {(steering.generator_of(step) or run.record.config.generator).identity for step in left}
    if now == {other.identity}:
        raise InputError(f"what is left of {run.folder} is drawn by {generator!r} already")
    _refuse_prompts(run, [steering.revised(steering.planned(step)).prompt or "" for step in left], other)
    done = tuple(sorted(step for step in steering.drawable() if step > left[0] and step not in left))
    return GeneratorChanged(step=left[0], done=done, generator=other, by=by)


def _other_generator(run: DecidedRun, spec: str) -> RoleConfig:
    """The generator of a spec; refused where the run's critic knows other images only."""
    other, config = RoleConfig(spec=spec, note=note_for(spec, role="generator")), run.record.config
    asked = {role: each for role, each in config.asked.items() if role != "generator"}
    unfit = [role for role in unfit_agents({**asked, "generator": other}) if role != "planner"]
    if unfit and not unfit_agents({**asked, "generator": config.generator}):
        raise InputError(
            f"the critic {config.critic.shown!r} of this run was not made for the images of {spec!r}, so "
            "its verdicts would mean nothing: start a new run with a critic that knows them"
        )
    return other


def undo_line(run: DecidedRun, *, by: str = "") -> Undone:
    """The checked decision to undo the last one that still holds."""
    if not run.steering.decisions:
        raise InputError(
            f"nothing is left to undo in {run.folder}: no redraw, no choice and no other generator holds"
        )
    return Undone(by=by)


def redraw_line(
    run: DecidedRun,
    step: int,
    *,
    prompt: str | None,
    seed: int | None,
    generator: str | None,
    only_step: bool = False,
    by: str = "",
) -> RedrawDecided:
    """The checked decision to redraw a step; used for a run and for a branch of it."""
    drawn_step(run, step, wants_prompt=prompt is not None)
    other = None
    if generator is not None:
        other = RoleConfig(spec=generator, note=note_for(generator, role="generator"))
        changed = any(isinstance(each, GeneratorChanged) for each in run.steering.decisions)
        if other.identity == run.record.config.generator.identity and not changed:
            other = None
    steering = run.steering
    if prompt is not None or other is not None:
        drawn_by = other or steering.generator_of(step) or run.record.config.generator
        planned = steering.revised(steering.planned(step)).prompt or ""
        _refuse_prompts(run, [planned if prompt is None else prompt], drawn_by)
    if generator is not None:
        refuse_unloadable(generator, "generator")
    try:
        return RedrawDecided(
            step=step,
            prompt=prompt,
            seed=_unused_seed(run, step) if seed is None else seed,
            generator=other,
            keep=_kept(run, step) if only_step else {},
            by=by,
        )
    except ValidationError as error:
        raise InputError(f"step {step} cannot be redrawn like that: {first_problem(error)}") from None


def drawn_step(run: DecidedRun, number: int, *, wants_prompt: bool = False) -> StepRecord:
    """The record of a step about which something can be decided; raises with the reason where nothing can."""
    steps = {step.plan.number: step for step in run.record.steps}
    _refuse_undecidable(run)
    if number not in steps:
        raise InputError(f"there is no step {number}: the plan has steps {min(steps)} to {max(steps)}")
    if steps[number].plan.prompt is None:
        more = ", so it takes no prompt" if wants_prompt else ""
        raise InputError(f"step {number} is text only and has no image{more}")
    return steps[number]


def _refuse_undecidable(run: DecidedRun) -> None:
    """Refuse decisions about the steps of a plan that is not there yet, or not approved."""
    if not run.record.steps:
        raise RunError(f"{run.folder} has no plan yet: continue it with 'interleave resume {run.folder}'")
    if run.steering.holds_plan:
        raise RunError(
            f"the plan of {run.folder} waits for approval: release it first, with --approve or --plan FILE"
        )


def _decided(folder: Path, decide: Decide) -> RunRecord:
    """Check a decision, and put it on disk."""
    decision = check_decision(folder, decide)
    if decision.line is None:
        return decision.run.record
    with _open_for_decision(folder) as (journal, entries):
        decision.append_to(journal, entries)
        journal.sync()
        return fold(entries, where=folder, position=journal.position)


@contextmanager
def _open_for_decision(folder: Path, lease: Lease | None = None) -> Iterator[tuple[Journal, list[Entry]]]:
    read_journal(folder)  # says what is wrong with a folder that is none of a run, before anything is opened
    try:
        journal = open_journal(folder, lease=lease)
    except FolderInUse:
        raise still_written(folder) from None
    try:
        entries = read_journal(folder)
        journal.listener = entries.append
        yield journal, entries
    finally:
        journal.close()


def still_written(folder: Path) -> FolderInUse:
    """The error for a decision about a run that another process works on."""
    return FolderInUse(f"{folder} is still being written: wait until that run has ended, or stop it")


def is_under_way(run: DecidedRun, line: DecisionLine) -> bool:
    """Whether this was decided last and is not carried out yet: a command that was stopped is repeated."""
    last = run.steering.decisions[-1] if run.steering.decisions else None
    if run.record.status == "done" or last is None or isinstance(line, Undone):
        return False
    besides = {"time", "by", "keep"}
    return line.model_dump(exclude=besides) == last.model_dump(exclude=besides)


def _kept(run: DecidedRun, step: int) -> dict[int, int]:
    """The attempts that the later steps show now, of those steps that would be drawn again."""
    chosen = run.steering.chosen
    shown = {each.plan.number: chosen.get(each.plan.number, each.shown) for each in run.record.steps}
    followers = sorted(run.steering.followers_of(step))
    return {number: attempt for number in followers if (attempt := shown[number]) is not None}


def _unused_seed(run: DecidedRun, step: int) -> int:
    """A seed that this step was not drawn with under what holds now; the same for the same command again."""
    last = run.steering.decisions[-1] if run.steering.decisions else None
    if isinstance(last, RedrawDecided) and last.step == step and run.record.status != "done":
        return last.seed
    before = sum(isinstance(each, RedrawDecided) and each.step == step for each in run.steering.decisions)
    return derived_seed(run.record.config.seed, step, f"redraw {before + 1}")


def _refuse_late_release(run: DecidedRun) -> None:
    if any(step.attempts for step in run.record.steps):
        raise RunError(
            f"{run.folder} has images of its plan already: redraw single steps instead (--from-step N), "
            "or draw another plan in a new run (generate --plan FILE)"
        )
    if run.record.status == "done":
        raise RunError(
            f"{run.folder} is finished: start a new run with the other plan (generate --plan FILE)"
        )


def _refuse_plan(run: DecidedRun, plan: Plan) -> None:
    config = run.record.config
    if len(plan.steps) > config.max_steps:
        raise InputError(
            f"the plan has {count(len(plan.steps), 'step')}, and this run allows {config.max_steps}: "
            "shorten it"
        )
    _refuse_prompts(run, [step.prompt for step in plan.steps if step.prompt is not None], config.generator)
    if variable := secret_in(plan.model_dump_json()):
        raise InputError(f"the plan contains the key in {variable}: take it out")


def _refuse_prompts(run: DecidedRun, prompts: list[str], generator: RoleConfig) -> None:
    """Refuse prompts that are known not to work, before they are on disk."""
    if any(not prompt.strip() for prompt in prompts):
        raise InputError("the prompt is blank: say what to draw")
    if variable := next(filter(None, map(secret_in, prompts)), None):
        raise InputError(f"the prompt contains the key in {variable}: take it out")
    if not generator.is_object:
        refuse_undrawable(prompts, generator.parsed)
