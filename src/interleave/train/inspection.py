"""Checks training data row by row before any model is loaded.

Finds everything that could stop a training hours later, with the file, number and id of every bad row: an
unreadable image, an extra placeholder, an answer that does not parse.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from interleave import ConfigurationError, InputError, ReplyError
from interleave.local.checkpoints import find_settings
from interleave.local.qwen3_vl.uint8_pixels import use_uint8_processor
from interleave.plugin import agents, count
from interleave.train.collator import SftCollator, too_long
from interleave.train.models import load_sized_processor, model_source
from interleave.train.output_folder import ROWS
from interleave.train.recipes import Task, TrainingJob
from interleave.train.rewards.samples import Sample
from interleave.train.rows import RowFiles, as_image, find_rows, read_rows
from interleave.train.shared_memory_images import share_images

MOST_NAMED = 5
"""Maximum number of bad rows listed in a message."""
MANY_IMAGES = 2_000
"""Number of images from which several processes check them."""


@dataclass(frozen=True)
class TrainingRows:
    """Checked rows of a training."""

    files: RowFiles
    train: Any
    validation: Any
    inspection: Inspection | None
    skipped: tuple[int, ...] = ()
    """Indices of skipped rows."""

    @property
    def digest(self) -> str:
        """Fingerprint of the data: the files and the skipped rows."""
        if not self.skipped:
            return self.files.digest
        return hashlib.sha256(f"{self.files.digest} without {self.skipped}".encode()).hexdigest()


def open_rows(job: TrainingJob, say: Callable[[str], None]) -> TrainingRows:
    """Find the rows and check every one before a model is loaded."""
    files, held_out = find_rows(job.data, job.task)
    training = job.recipe.training
    share_images(training.picture_cache_mb)
    train = read_rows(files, job.task, cache=job.out / ROWS)
    validation = None
    if held_out is not None and training.validate_every:
        validation = read_rows(held_out, job.task, limit=training.validation_rows)
    if job.trust_data and job.skip_bad:
        raise ConfigurationError("--skip-bad cannot be combined with --trust-data, which checks no row")
    if job.trust_data:
        return TrainingRows(files, train, validation, None)
    say(f"checking {count(len(train), 'row')}…")
    inspection = inspect_rows(
        train, job.task, folder=files.folder, validation=validation, workers=training.workers
    )
    bad = {**inspection.bad, **_too_long(job, train, inspection.bad)}
    bad_validation = inspection.bad_validation
    if held_out is not None and validation is not None:
        bad_validation = {**bad_validation, **_too_long(job, validation, bad_validation)}
        validation = _usable(validation, held_out, bad_validation, job, say)
    train = _usable(train, files, bad, job, say)
    if inspection.duplicates:
        say(f"{count(inspection.duplicates, 'row')} with the same question and images as an earlier row")
    if inspection.leaked and validation is not None:
        message = f"{inspection.leaked:,} of {len(validation):,} validation rows are also training rows"
        if job.fail_on_leak:
            raise ConfigurationError(f"{message}: export again with another split, or remove --fail-on-leak")
        say(f"{message}: their score does not measure generalization")
    return TrainingRows(files, train, validation, inspection, tuple(sorted(bad)))


def _too_long(job: TrainingJob, rows: Any, bad: Mapping[int, str]) -> dict[int, str]:
    """Find rows for supervised fine-tuning with more tokens than the recipe allows."""
    recipe = job.recipe
    if recipe.task != "sft" or recipe.training.max_length is None:
        return {}
    source = model_source(recipe.model)
    processor = load_sized_processor(find_settings(source), source, recipe.model)
    use_uint8_processor(processor)
    collator = SftCollator(processor)
    return too_long(rows, bad, collator, recipe.training)


def _usable(
    rows: Any, files: RowFiles, bad: Mapping[int, str], job: TrainingJob, say: Callable[[str], None]
) -> Any:
    """Drop the bad rows if the user allows that, else raise an error that names them."""
    if not bad:
        return rows
    if not job.skip_bad or len(bad) == len(rows):
        raise bad_rows(rows, files, bad)
    first = min(bad)
    say(f"{count(len(bad), 'row')} skipped (the first: {files.place(first)}, {bad[first]})")
    return rows.select([index for index in range(len(rows)) if index not in bad])


@dataclass(frozen=True)
class Inspection:
    """Findings of the check before training."""

    rows: int
    images: int
    duplicates: int
    """Rows with the same question as an earlier row: same text, same images."""
    leaked: int = 0
    """Validation rows whose question is also in the training rows."""
    bad: Mapping[int, str] = field(default_factory=dict)
    """Problem of each unusable row, by index."""
    bad_validation: Mapping[int, str] = field(default_factory=dict)


def inspect_rows(
    rows: Any, task: Task, *, folder: Path, validation: Any = None, workers: int = 0
) -> Inspection:
    """Check every row."""
    seen, images, bad = _inspect(rows, task, folder, workers)
    questions = Counter(seen)
    leaked, bad_validation = 0, dict[int, str]()
    if validation is not None:
        held_out, _, bad_validation = _inspect(validation, task, folder / "validation", workers)
        leaked = sum(question in questions for question in held_out)
    return Inspection(len(seen), images, len(seen) - len(questions), leaked, bad, bad_validation)


def _inspect(rows: Any, task: Task, folder: Path, workers: int) -> tuple[list[bytes], int, dict[int, str]]:
    raw = rows.with_format(None)
    questions: list[bytes] = []
    bad: dict[int, str] = {}
    images = 0
    many = len(raw) * 2 >= MANY_IMAGES and workers > 1
    with ProcessPoolExecutor(workers) if many else nullcontext() as pool:
        for index, (question, has, problem) in enumerate(_checked(raw, task, folder, pool)):
            if problem:
                bad[index] = problem
                continue
            questions.append(question)
            images += has
    return questions, images, bad


def bad_rows(rows: Any, files: RowFiles, bad: Mapping[int, str]) -> InputError:
    """Build the error for bad rows: their count, and file, number and id of the first few."""
    named = [
        f"{files.place(index)} ({rows.with_format(None)[index].get('id')!r}): {bad[index]}"
        for index in sorted(bad)[:MOST_NAMED]
    ]
    more = f"; and {len(bad) - len(named):,} more" if len(bad) > len(named) else ""
    return InputError(
        f"{len(bad):,} of {count(len(rows), 'row')} cannot be used: {'; '.join(named)}{more}. "
        "Fix the export, or skip such rows with --skip-bad"
    )


def _checked(
    rows: Any, task: Task, folder: Path, pool: Executor | None
) -> Iterator[tuple[bytes, int, str | None]]:
    check = partial(check_row, task=task, folder=folder)
    yield from pool.map(check, rows, chunksize=64) if pool else map(check, rows)


def check_row(row: Mapping[str, Any], *, task: Task, folder: Path) -> tuple[bytes, int, str | None]:
    """Return the digest of a row's question, its number of images, and its problem or None."""
    question = hashlib.sha256()
    try:
        stored = row["images"] or []
        for each in [*stored, *(row.get("sources") or [])]:
            question.update(as_image(each, folder).tobytes())
        places = [part for message in row["prompt"] for part in message["content"] if part["type"] == "image"]
        if len(places) != len(stored):
            raise InputError(f"it has {len(stored)} images for {len(places)} placeholders in its prompt")
        for message in row["prompt"]:
            for part in message["content"]:
                question.update(str(part.get("text")).encode("utf-8", "replace"))
        if not all(isinstance(message["role"], str) for message in (*row["prompt"], *_answer(row))):
            raise InputError("a message has no role")
        if task == "grpo":
            Sample.of_row({**row, "sources": ()})
        else:
            _refuse_unreadable(row["completion"], task)
    except (KeyError, TypeError, AttributeError) as error:
        return b"", 0, f"a value is null or missing ({type(error).__name__}: {error})"
    except InputError as error:
        return b"", 0, str(error).removeprefix(f"row {row.get('id')!r} cannot be used: ")
    return question.digest(), len(stored), None


def _answer(row: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return row.get("completion") or ()


def _refuse_unreadable(completion: Sequence[Mapping[str, Any]], task: Task) -> None:
    """Reject an answer that the pipeline could not parse."""
    text = "".join(part.get("text") or "" for message in completion for part in message["content"])
    readers = {"planner": (agents.parse_plan,), "critic": (agents.parse_verdict,)}.get(
        task, (agents.parse_plan, agents.parse_verdict)
    )
    problem = ""
    for read in readers:
        try:
            read(text)
            return
        except ReplyError as error:
            problem = error.problem
    raise InputError(f"its answer cannot be parsed ({problem})")
