"""Decisions of a person about a run: release its plan, redraw a step, choose another attempt, undo.

Each function checks the decision, adds one line to the journal and returns the record of the run with the
decision in it. Nothing is drawn and no model is loaded. A refused decision leaves the folder unchanged.
Continuing the run carries the decision out and makes only the calls that the journal does not hold yet.
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
    DocumentEdited,
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
from interleave.types import Plan, PlanStep


@dataclass(frozen=True)
class DecidedRun:
    """A run to decide about: its journal lines, and the record and steering folded from them."""

    folder: Path
    entries: list[Entry]
    record: RunRecord
    steering: Steering

    @classmethod
    def of(cls, folder: Path, entries: list[Entry]) -> DecidedRun:
        return cls(folder, entries, fold(entries, where=folder), steering_after(entries))


MadeDecision = PlanReleased | RedrawDecided | AttemptChosen | GeneratorChanged | DocumentEdited | Undone
Decide = Callable[[DecidedRun], MadeDecision]
"""Function that checks a decision against a run and returns its journal line."""


@dataclass(frozen=True)
class CheckedDecision:
    """A decision that passed its checks and is not on disk yet."""

    line: MadeDecision | None
    """`None` if the same decision is in the journal and not carried out yet, or if it changes nothing."""
    run: DecidedRun
    """The run including the decision."""
    after: int
    """Number of journal lines when the decision was checked."""
    is_about_words: bool = False
    """Whether it changes the document layer alone, so that nothing is left to carry out."""

    def append_to(self, journal: Journal, entries: list[Entry]) -> None:
        """Append the decision to the journal; raise `FolderInUse` if `entries` has grown since the check."""
        if len(entries) != self.after:
            raise FolderInUse(f"{self.run.folder} has changed meanwhile: read it again, then decide")
        if self.line is not None:
            journal.append(self.line)


def check_decision(folder: str | Path, decide: Decide) -> CheckedDecision:
    """Check a decision about a run without writing anything."""
    folder = Path(folder)
    entries = read_journal(folder)
    if is_being_written(folder):
        raise still_written(folder)
    run = DecidedRun.of(folder, entries)
    line = decide(run)
    about_words = run.steering.is_about_words(line)
    if is_under_way(run, line):
        return CheckedDecision(None, run, len(entries), about_words)
    return CheckedDecision(line, DecidedRun.of(folder, [*entries, line]), len(entries), about_words)


def release_plan(folder: str | Path, plan: Plan | None = None, *, by: str = "") -> RunRecord:
    """Release a held run to draw its plan, or `plan` instead.

    A plan can be replaced until the first image is drawn.
    """
    return record_decision(Path(folder), lambda run: release_line(run, plan, by=by))


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
    """Redraw a step, and the later steps whose images follow from it unless `only_step` is set.

    Without `seed`, a seed not used for this step before is chosen. With the run's seed, only the changed
    prompt or generator makes a difference.
    """
    return record_decision(
        Path(folder),
        lambda run: redraw_line(
            run, step, prompt=prompt, seed=seed, generator=generator, only_step=only_step, by=by
        ),
    )


def choose_attempt(
    folder: str | Path, step: int, attempt: int, *, only_step: bool = False, by: str = ""
) -> RunRecord:
    """Show another attempt of a step; redraw later steps that follow from it unless `only_step`."""
    return record_decision(
        Path(folder), lambda run: choice_line(run, step, attempt, only_step=only_step, by=by)
    )


def change_generator(folder: str | Path, generator: str, *, by: str = "") -> RunRecord:
    """Draw all unfinished steps with another generator."""
    return record_decision(Path(folder), lambda run: change_line(run, generator, by=by))


def undo_decision(folder: str | Path, *, by: str = "") -> RunRecord:
    """Undo the last edit that is still in effect; repeated calls undo earlier ones."""
    return record_decision(Path(folder), lambda run: undo_line(run, by=by))


def carry_over(folder: Path, line: DecisionLine, *, after: int, lease: Lease | None = None) -> None:
    """Append to the journal a decision that was checked when the journal had `after` lines.

    This is for callers that store a checked decision elsewhere until its run is continued. Nothing is written
    if the lines since then hold the decision already.
    """
    with _open_for_decision(folder, lease) as (journal, entries):
        # lines since then may also be an edit of words, made in between
        if not any(type(entry) is type(line) and entry.time == line.time for entry in entries[after:]):
            journal.append(line)
            journal.sync()


def release_line(run: DecidedRun, plan: Plan | None, *, by: str = "") -> PlanReleased:
    """Check and return the decision to draw a plan: the run's own, or `plan`."""
    _refuse_late_release(run)
    chosen = plan or run.record.plan
    if chosen is None:
        raise RunError(f"{run.folder} has no plan yet: continue it with 'interleave resume {run.folder}'")
    if plan is None:
        if not run.steering.holds_plan:
            raise RunError(f"the plan of {run.folder} is not held: there is nothing to approve")
        refuse_edited(run.folder, run.record)
    _refuse_plan(run, chosen)
    return PlanReleased(plan=chosen, by=by)


def new_step_lines(
    run: DecidedRun, after: int, prompt: str, *, text: str, name: str, by: str
) -> tuple[int, list[MadeDecision]]:
    """Check a new step, shown after step `after`; return its neighbour and the lines that add it.

    It is the last step of the plan, so that all images stay, and its place is an edit of the document.
    """
    refuse_undecidable(run)
    plan, layer = run.steering.plan, run.steering.layer
    if plan is None or plan.chapter is not None:
        raise RunError(f"{run.folder} is written in chapters: a step cannot be added to its plan")
    order = layer.in_order(step.number for step in plan.steps)
    if after and after not in order:
        raise InputError(f"no step {after}: the plan has steps {min(order)} to {max(order)}")
    place = order.index(after) + 1 if after else 0
    source = [number for number in order[:place] if number in run.steering.drawable()][-1:]
    try:
        new = PlanStep(
            number=plan.steps[-1].number + 1,
            name=name.strip() or None,
            prompt=prompt.strip(),
            caption=text.strip() or None,
            sources=tuple(source),
        )
    except ValidationError as error:
        raise InputError(f"the new step cannot be drawn: {first_problem(error)}") from None
    longer = plan.model_copy(update={"steps": (*plan.steps, new)})
    _refuse_plan(run, longer)
    moved = (*order[:place], new.number, *order[place:])
    neighbour = source[0] if source else min(run.steering.drawable(), default=0)
    return neighbour, [PlanReleased(plan=longer, by=by), DocumentEdited(order=moved, by=by)]


def choice_line(
    run: DecidedRun, step: int, attempt: int, *, only_step: bool = False, by: str = ""
) -> AttemptChosen:
    """Check and return the decision to show another attempt of a step."""
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
        raise InputError(f"attempt {attempt} of step {step} is already shown")
    if problem := ImageStore(run.folder).problem_with(found.image):
        raise problem
    keep = _kept(run, step) if only_step else {}
    return AttemptChosen(step=step, attempt=attempt, keep=keep, by=by)


def change_line(run: DecidedRun, generator: str, *, by: str = "") -> GeneratorChanged:
    """Check and return the decision to draw the remaining steps with another generator."""
    refuse_undecidable(run)
    refuse_unloadable(generator, "generator")
    other = _other_generator(run, generator)
    steering, last = run.steering, run.steering.decisions[-1] if run.steering.decisions else None
    under_way = isinstance(last, GeneratorChanged) and run.record.status != "done"
    if under_way and isinstance(last, GeneratorChanged) and last.generator.identity == other.identity:
        return last
    left = sorted(steering.unfinished())
    if not left:
        raise RunError(
            f"all steps of {run.folder} are drawn: redraw the first step that is to "
            f"change, with generator={generator}"
        )
    now = {(steering.generator_of(step) or run.record.config.generator).identity for step in left}
    if now == {other.identity}:
        raise InputError(f"the remaining steps of {run.folder} already use {generator!r}")
    _refuse_prompts(run, [steering.revised(steering.planned(step)).prompt or "" for step in left], other)
    done = tuple(sorted(step for step in steering.drawable() if step > left[0] and step not in left))
    return GeneratorChanged(step=left[0], done=done, generator=other, by=by)


def _other_generator(run: DecidedRun, spec: str) -> RoleConfig:
    """Return the generator of a spec; refuse one whose images the run's critic was not made for."""
    other, config = RoleConfig(spec=spec, note=note_for(spec, role="generator")), run.record.config
    asked = {role: each for role, each in config.asked.items() if role != "generator"}
    unfit = [role for role in unfit_agents({**asked, "generator": other}) if role != "planner"]
    if unfit and not unfit_agents({**asked, "generator": config.generator}):
        raise InputError(
            f"the critic {config.critic.shown!r} of this run was not made for the images of {spec!r}, so "
            "its verdicts would be unreliable: start a new run with a critic for these images"
        )
    return other


def undo_line(run: DecidedRun, *, by: str = "") -> Undone:
    """Check and return the decision to undo the last one in effect."""
    if not run.steering.in_effect:
        raise InputError(f"nothing to undo in {run.folder}: no redraw, choice or other edit is in effect")
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
    """Check and return the decision to redraw a step, in a run or a branch of it."""
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
        raise InputError(f"step {step} cannot be redrawn: {first_problem(error)}") from None


def drawn_step(run: DecidedRun, number: int, *, wants_prompt: bool = False) -> StepRecord:
    """Return the record of a step that can be redrawn or chosen; raise with the reason if it cannot."""
    steps = {step.plan.number: step for step in run.record.steps}
    refuse_undecidable(run)
    if number not in steps:
        raise InputError(f"no step {number}: the plan has steps {min(steps)} to {max(steps)}")
    if steps[number].plan.prompt is None:
        more = ", so it takes no prompt" if wants_prompt else ""
        raise InputError(f"step {number} is text only and has no image{more}")
    return steps[number]


def refuse_undecidable(run: DecidedRun) -> None:
    """Refuse decisions about steps and words if there is no plan yet or it is not approved."""
    if not run.record.steps:
        raise RunError(f"{run.folder} has no plan yet: continue it with 'interleave resume {run.folder}'")
    if run.steering.holds_plan:
        raise RunError(f"the plan of {run.folder} waits for approval: approve it first, or give another plan")


def record_decision(folder: Path, decide: Decide) -> RunRecord:
    """Check a decision and append it to the journal."""
    return write_decision(check_decision(folder, decide))


def write_decision(
    decision: CheckedDecision, write_pages: Callable[[Path, RunRecord], object] | None = None
) -> RunRecord:
    """Append a decision to the journal; `write_pages` then writes the files that follow from it."""
    folder = decision.run.folder
    if decision.line is None:
        return decision.run.record
    with _open_for_decision(folder) as (journal, entries):
        decision.append_to(journal, entries)
        journal.sync()
        record = fold(entries, where=folder, position=journal.position)
        if write_pages is not None:
            write_pages(folder, record)
        return record


@contextmanager
def _open_for_decision(folder: Path, lease: Lease | None = None) -> Iterator[tuple[Journal, list[Entry]]]:
    read_journal(folder)  # raises for a folder without a run, before anything is opened
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
    """Return the error for a decision about a run that another process is writing."""
    return FolderInUse(f"{folder} is still being written: wait until that run has ended, or stop it")


def is_under_way(run: DecidedRun, line: DecisionLine) -> bool:
    """Return whether nothing is left to record: a repeated command, or an edit that changes no word."""
    last = run.steering.decisions[-1] if run.steering.decisions else None
    if isinstance(line, DocumentEdited):
        return line.is_empty
    if run.record.status == "done" or last is None or isinstance(line, Undone):
        return False
    ignored = {"time", "by", "keep"}
    return line.model_dump(exclude=ignored) == last.model_dump(exclude=ignored)


def _kept(run: DecidedRun, step: int) -> dict[int, int]:
    """Return the attempts now shown by the later steps that would be redrawn."""
    chosen = run.steering.chosen
    shown = {each.plan.number: chosen.get(each.plan.number, each.shown) for each in run.record.steps}
    followers = sorted(run.steering.followers_of(step))
    return {number: attempt for number in followers if (attempt := shown[number]) is not None}


def _unused_seed(run: DecidedRun, step: int) -> int:
    """Return a seed unused for this step under the decisions in effect; a repeated command gets the same."""
    last = run.steering.decisions[-1] if run.steering.decisions else None
    if isinstance(last, RedrawDecided) and last.step == step and run.record.status != "done":
        return last.seed
    before = sum(isinstance(each, RedrawDecided) and each.step == step for each in run.steering.decisions)
    return derived_seed(run.record.config.seed, step, f"redraw {before + 1}")


def _refuse_late_release(run: DecidedRun) -> None:
    if any(step.attempts for step in run.record.steps):
        raise RunError(
            f"{run.folder} already has images of its plan: redraw single steps, "
            "or draw another plan in a new run with plan="
        )
    if run.record.status == "done":
        raise RunError(f"{run.folder} is finished: draw the other plan in a new run with plan=")


def _refuse_plan(run: DecidedRun, plan: Plan) -> None:
    config = run.record.config
    if len(plan.steps) > config.max_steps:
        raise InputError(
            f"the plan has {count(len(plan.steps), 'step')}, and this run allows {config.max_steps}: "
            "shorten the plan"
        )
    for step in plan.steps:
        try:
            _refuse_prompts(run, [step.prompt] if step.prompt is not None else [], config.generator)
        except InputError as error:
            raise InputError(f"step {step.number}: {error}") from None
    if variable := secret_in(plan.model_dump_json()):
        raise InputError(f"the plan contains the key in {variable}: remove it")


def _refuse_prompts(run: DecidedRun, prompts: list[str], generator: RoleConfig) -> None:
    """Refuse prompts that the generator is known not to accept, before they are on disk."""
    if any(not prompt.strip() for prompt in prompts):
        raise InputError("the prompt is blank: describe what to draw")
    if variable := next(filter(None, map(secret_in, prompts)), None):
        raise InputError(f"the prompt contains the key in {variable}: remove it")
    if not generator.is_object:
        refuse_undrawable(prompts, generator.parsed)
