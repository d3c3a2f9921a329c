"""Writes an imported run as a run folder, with the same journal, images and record as our own runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from interleave import InputError, PlanStep, Request, StorageError, __version__, read_image, read_record
from interleave.plugin import (
    ImageStore,
    RoleConfig,
    RunConfig,
    config,
    count,
    files,
    make_folder,
    render,
    runs,
    text,
)
from interleave.plugin import journal as lines
from interleave.train.data.import_runs.records import ImportedAttempt, ImportedRun

SPEC = "imported"
NOTE = "This run was imported from the reference system; nothing in it was made by this program."
STAGING = ".importing"


def write_run(run: ImportedRun, folder: Path, out: Path, pack: config.PackConfig) -> None:
    """Write a run folder atomically: under a temporary name, then renamed."""
    staging = out / STAGING / folder.name
    try:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        _write_files(run, staging, pack)
        make_folder(folder.parent)
        os.replace(staging, folder)
        files.sync_folder(folder.parent)
    except OSError as error:
        raise StorageError.at(folder, error) from error


def _write_files(run: ImportedRun, folder: Path, pack: config.PackConfig) -> None:
    store = ImageStore(folder)
    request = tuple(
        lines.RequestPart(text=part)
        if isinstance(part, str)
        else lines.RequestPart(image=store.put(read_image(part)))
        for part in run.request
    )
    drawn = dict.fromkeys(attempt.image for attempt in run.attempts)  # attempts may share an image
    images = {path: store.put(read_image(path)) for path in drawn}
    journal = runs.open_journal(folder)
    try:
        for line in _journal_lines(run, request, images, pack):
            journal.append(line)
        journal.sync()
    finally:
        journal.close()
    record = read_record(folder)
    runs.write_stored(folder, record)
    render.write_document(folder, record)


def _journal_lines(
    run: ImportedRun,
    request: tuple[lines.RequestPart, ...],
    images: dict[Path, str],
    pack: config.PackConfig,
) -> Iterator[lines.Line]:
    time = run.time
    role = RoleConfig(spec=SPEC, note=NOTE)
    most_attempts = max((len(list(group)) for _, group in _by_step(run)), default=1)
    config = RunConfig(
        planner=role, critic=role, generator=role, prompts=pack, max_attempts=max(most_attempts, 1)
    )
    yield lines.Started(time=time, request=request, config=config, software=__version__)
    yield lines.Called(time=time, role="planner", call=1)
    yield lines.Planned(time=time, plan=run.plan)
    drawn, judged, finished = 0, 0, 0
    attempts = {step: list(group) for step, group in _by_step(run)}
    for step in run.plan.steps:
        if step.prompt is not None and step.number not in attempts:
            break  # the record ends here
        if step.prompt is None:
            yield lines.StepFinished(time=time, step=step.number, attempt=None, accepted=True, forced=False)
            finished += 1
        for number, attempt in enumerate(attempts.get(step.number, ()), start=1):
            drawn += 1
            yield _called("generator", drawn, step.number, number, time)
            yield _drawn(attempt, drawn, number, images[attempt.image], time)
            if attempt.verdict is not None:
                judged += 1
                yield _called("critic", judged, step.number, number, time)
                yield lines.Judged(time=time, step=step.number, attempt=number, verdict=attempt.verdict)
        if step.number in attempts:
            yield _step_finished(step, attempts[step.number], time)
            finished += 1
    missing = len(run.plan.steps) - finished
    reason = f"the imported record ends {count(missing, 'step')} before its plan" if missing else ""
    yield lines.Ended(time=time, status="short" if missing else "done", reason=reason)


def _by_step(run: ImportedRun) -> Iterator[tuple[int, Iterator[ImportedAttempt]]]:
    return groupby(run.attempts, key=lambda attempt: attempt.step)


def _called(role: lines.Role, call: int, step: int, attempt: int, time: float) -> lines.Called:
    return lines.Called(time=time, role=role, call=call, step=step, attempt=attempt)


def _drawn(attempt: ImportedAttempt, call: int, number: int, image: str, time: float) -> lines.Drawn:
    return lines.Drawn(
        time=time,
        role="generator",
        call=call,
        step=attempt.step,
        attempt=number,
        fingerprint=SPEC,
        prompt=attempt.prompt,
        seed=attempt.seed,
        image=image,
        seconds=0.0,
    )


def _step_finished(step: PlanStep, attempts: list[ImportedAttempt], time: float) -> lines.StepFinished:
    accepted = [n for n, each in enumerate(attempts, start=1) if each.verdict and each.verdict.accepted]
    return lines.StepFinished(
        time=time,
        step=step.number,
        attempt=accepted[-1] if accepted else len(attempts),
        accepted=bool(accepted),
        forced=not accepted,
    )


def refuse_unusable(run: ImportedRun) -> None:
    """Raise `InputError` for texts and images that a run cannot store, before writing anything."""
    Request.of([part for part in run.request if isinstance(part, str)])
    texts = [run.plan.reasoning, *(attempt.verdict.reasoning for attempt in run.attempts if attempt.verdict)]
    if problem := next(filter(None, map(text.unusable, texts)), None):
        raise InputError(f"a reasoning cannot be stored: {problem}")
    given = [part for part in run.request if isinstance(part, Path)]
    for image in dict.fromkeys((*given, *(attempt.image for attempt in run.attempts))):
        try:
            read_image(image)
        except InputError as error:
            raise InputError(f"an image cannot be used: {error}") from None
