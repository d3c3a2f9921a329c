"""`data export`: writes a selection as files for trainers, with a manifest and a dataset card."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from interleave import ConfigurationError, InputError
from interleave.plugin import PromptPack, agents, load_pack
from interleave.train.data.export.images import ImageForm
from interleave.train.data.export.joined import JoinedFile, read_items, refuse_pickle
from interleave.train.data.export.rows import TRAIN, Kind, Lengths, checked_tokenizer
from interleave.train.data.export.worker import (
    HELD_OUT,
    ExportJob,
    FileKey,
    JoinTask,
    RunsTask,
    Task,
    TaskResult,
    export_task,
    held_out,
    target_files,
)
from interleave.train.data.formats import FORMATS, RowFile, format_named, open_rows
from interleave.train.data.formats.run_files import RowLengths
from interleave.train.data.manifest import Manifest, file_digest, read_manifest, write_manifest
from interleave.train.data.outputs import atomic_folder
from interleave.train.data.parallel_map import Progress, chunks, map_in_order
from interleave.train.data.select.selection import MANIFEST_NAME as SELECTION_MANIFEST
from interleave.train.data.select.selection import Selected, read_collection_paths, read_selection
from interleave.train.data.trajectories import Trajectory, read_trajectory, run_names
from interleave.train.pages import rendered

MANIFEST_NAME = "export.manifest.json"
SHOWN_PROBLEMS = 5
RUNS_PER_TASK = {ImageForm.REFERENCED: 100, ImageForm.EMBEDDED: 4}
"""Few when rows embed their images: several results are in memory at the same time."""
DOCUMENTS_PER_TASK = 20
CARD_NAME = "README.md"


@dataclass(frozen=True)
class ExportOptions:
    """The options of `data export`."""

    formats: tuple[str, ...] = ("trl",)
    prompts: str | None = None
    """Prompt pack of the rows; None: that of the collection."""
    images: ImageForm = ImageForm.EMBEDDED
    validation: float = 0.02
    held_out: tuple[Path, ...] = ()
    fail_on_leak: bool = False
    joined: tuple[JoinedFile, ...] = ()
    collections: tuple[Path, ...] = ()
    """Current paths of the collections, if they were moved."""
    tokenizer: Path | None = None
    max_tokens: int | None = None
    annotation: bool = True
    """Whether to add rows that ask for the texts of a document's images."""
    skip_bad: bool = False
    workers: int = 1


def export(
    selection: Path | None,
    out: Path,
    options: ExportOptions = ExportOptions(),
    *,
    replace: bool = False,
    progress: Progress = lambda done, total: None,
) -> Manifest:
    """Write the rows of a selection, or of joined files alone, in every requested format."""
    if selection is None and not options.joined:
        raise ConfigurationError("give a selection of 'data select', or files to write as rows with --join")
    for name in options.formats:
        format_named(name)
    for each in options.joined:
        refuse_pickle(each.path)
    read = read_collection_paths(selection, options.collections) if selection else {}
    folders = {name: Path(os.path.abspath(path)) for name, path in read.items()}
    pack, any_pack = _prompt_pack(folders, options.prompts)
    with atomic_folder(out, MANIFEST_NAME, replace=replace) as staging:
        job = ExportJob(
            formats=options.formats,
            pack=pack,
            any_pack=any_pack,
            images=options.images,
            schemas=_schemas(options),
            staging=staging,
            destination=Path(os.path.abspath(out)),
            validation=options.validation,
            held_out=held_out(options.held_out),
            tokenizer=checked_tokenizer(options.tokenizer),
            max_tokens=options.max_tokens,
            annotation=options.annotation,
        )
        runs = {name: run_names(path) for name, path in folders.items()}
        tasks = chain(_run_tasks(selection, folders, runs, options), _join_tasks(options.joined))
        total = sum(map(len, runs.values()))
        with closing(_Output(staging)) as output:
            for result in map_in_order(partial(export_task, job), tasks, _workers(total, options)):
                output.add(result)
                progress(min(output.items, total), total)
        _refuse_problems(output, options)
        return _finish(staging, job, output, selection, options)


def _schemas(options: ExportOptions) -> dict[tuple[str, Kind], Any]:
    return {
        (name, kind): schema(kind, options.images)
        for name in options.formats
        if (schema := FORMATS[name].schema) is not None
        for kind in FORMATS[name].kinds
    }


def _prompt_pack(folders: dict[str, Path], wanted: str | None) -> tuple[PromptPack, bool]:
    """Return the prompt pack of the rows, and whether runs made with another pack are used."""
    if wanted is not None or not folders:
        return load_pack(wanted or agents.DEFAULT_PACK), True
    first = _first_trajectory(folders)
    used = first.record.config.prompts
    pack = load_pack(used.name)
    if pack.digest != used.digest:
        raise ConfigurationError(
            f"the prompt pack {used.name!r} has changed since {first.folder} was made with it: "
            f"use its current version with --prompts {used.name}, or name another pack"
        )
    return pack, False


def _first_trajectory(folders: dict[str, Path]) -> Trajectory:
    for path in folders.values():
        for name in run_names(path):
            trajectory = read_trajectory(path, name)
            if isinstance(trajectory, Trajectory):
                return trajectory
    raise InputError("no run of the collections has ended, so there is nothing to export")


def _run_tasks(
    selection: Path | None, folders: dict[str, Path], runs: dict[str, list[str]], options: ExportOptions
) -> Iterator[Task]:
    """Yield all runs of all collections with their selected attempts; both are in the same order."""
    if selection is None:
        return
    selected = _by_run(read_selection(selection))
    next_selected = next(selected, None)
    for collection, folder in folders.items():
        for names in chunks(runs[collection], RUNS_PER_TASK[options.images]):
            task = []
            for name in names:
                chosen: tuple[Selected, ...] = ()
                if next_selected is not None and next_selected[0] == (collection, name):
                    chosen = tuple(each for each in next_selected[1] if each.copies)
                    next_selected = next(selected, None)
                task.append((name, chosen))
            yield RunsTask(collection, folder, tuple(task))
    if next_selected is not None:
        collection, name = next_selected[0]
        raise InputError(
            f"the run {name} of {collection!r} is in the selection but no longer exists: select again"
        )


def _by_run(lines: Iterator[Selected]) -> Iterator[tuple[tuple[str, str], list[Selected]]]:
    for key, group in groupby(lines, key=lambda line: (line.collection, line.run)):
        yield key, list(group)


def _join_tasks(joined: Sequence[JoinedFile]) -> Iterator[Task]:
    for each in sorted(joined, key=lambda each: (each.form, str(each.path))):
        for items in chunks(read_items(each.path), DOCUMENTS_PER_TASK):
            yield JoinTask(each, tuple(items))


def _workers(runs: int, options: ExportOptions) -> int:
    """Return the number of processes: several only for larger exports, as each takes a second to start."""
    return options.workers if runs > 20 * RUNS_PER_TASK[options.images] or options.joined else 1


@dataclass
class _Output:
    """The open files, and the totals of all results."""

    folder: Path
    files: dict[FileKey, RowFile] = field(default_factory=dict)
    rows: Counter[FileKey] = field(default_factory=Counter)
    lengths: dict[Kind, Lengths] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    escaped: int = 0
    items: int = 0
    digests: dict[str, Any] = field(default_factory=lambda: defaultdict(hashlib.sha256))

    def add(self, result: TaskResult) -> None:
        for key, chunk in result.chunks.items():
            for target in target_files(key):
                if target not in self.files:
                    self.files[target] = open_rows(self.path(target), FORMATS[target[0]])
                self.files[target].write(chunk)
                self.rows[target] += result.rows[key]
        for kind, lengths in result.lengths.items():
            self.lengths.setdefault(kind, Lengths()).extend(lengths)
        self.skipped.update(result.skipped)
        self.models.update(result.models)
        self.problems += result.problems
        self.escaped += result.escaped
        self.items += result.items
        if result.collection:
            self.digests[result.collection].update(result.digest_lines)

    def path(self, key: FileKey) -> Path:
        name, split, kind = key
        folder = self.folder / name if split == TRAIN else self.folder / name / split
        return folder / f"{kind}{FORMATS[name].suffix}"

    def close(self) -> None:
        with ExitStack() as all_files:  # closes the others when one fails
            for file in self.files.values():
                all_files.callback(file.close)


def _refuse_problems(output: _Output, options: ExportOptions) -> None:
    """Raise for rows that failed, unless they may be skipped, for leaks, and for an empty output."""
    problems = output.problems
    if problems and not options.skip_bad:
        more = f" … and {len(problems) - SHOWN_PROBLEMS} more" if len(problems) > SHOWN_PROBLEMS else ""
        raise InputError(
            f"{len(problems)} rows cannot be made, nothing was written: "
            f"{'; '.join(problems[:SHOWN_PROBLEMS])}{more} (skip them with --skip-bad)"
        )
    if options.fail_on_leak and output.skipped[HELD_OUT]:
        raise InputError(
            f"{output.skipped[HELD_OUT]} runs answer held-out requests, nothing was written: "
            "collect without them, or omit --fail-on-leak to skip their rows"
        )
    if not output.files:
        raise InputError("the selection gives no rows: nothing was written")


def _finish(
    staging: Path, job: ExportJob, output: _Output, selection: Path | None, options: ExportOptions
) -> Manifest:
    lengths = RowLengths(
        {kind: each.longest for kind, each in output.lengths.items()}, counted=options.tokenizer is not None
    )
    for name in options.formats:
        files = {
            kind if split == TRAIN else f"{kind}_{split}": output.path((format_name, split, kind))
            for format_name, split, kind in sorted(output.files)
            if format_name == name
        }
        if (finish := FORMATS[name].finish) is not None:
            finish(staging / name, files)
        if files and (write_run_files := FORMATS[name].run_files) is not None:
            write_run_files(staging / name, files, lengths)
    manifest = _manifest(job, output, selection, options)
    write_manifest(staging / MANIFEST_NAME, manifest)
    write_card(staging, manifest, job, output.lengths, output.models)
    return manifest


def _manifest(job: ExportJob, output: _Output, selection: Path | None, options: ExportOptions) -> Manifest:
    rows = {f"{name}/{split}/{kind}": count for (name, split, kind), count in sorted(output.rows.items())}
    tokens = {
        f"{kind} tokens, {what}": number
        for kind, lengths in sorted(output.lengths.items())
        for what, number in lengths.summary().items()
    }
    estimate = "an estimate: 4 bytes of text or 32 × 32 pixels each"
    how = "counted by the tokenizer" if options.tokenizer else estimate
    notes = [f"tokens are {how}, without those of a chat template"]
    if output.escaped:
        notes.append(f"{output.escaped} rows had marks or control tokens in their texts, which were broken")
    notes += _changes(output, selection) if selection else []
    notes += [f"{number} × {why}" for why, number in sorted(output.skipped.items()) if number]
    notes += [f"left out: {problem}" for problem in output.problems[:100]]
    return Manifest(
        stage="export",
        options={
            "formats": list(options.formats),
            "prompts": {"name": job.pack.name, "digest": job.pack.digest},
            "pictures": options.images.value,
            "validation": options.validation,
            "joined": [f"{each.form}:{each.path.name}" for each in options.joined],
            "tokenizer": options.tokenizer.name if options.tokenizer else None,
            "max_tokens": options.max_tokens,
            "annotation": options.annotation,
        },
        inputs={
            **({"selection": file_digest(selection / SELECTION_MANIFEST)} if selection else {}),
            **{each.path.name: file_digest(each.path) for each in options.joined},
            **{path.name: file_digest(path) for path in options.held_out},
        },
        counts={**rows, **tokens, "problems": len(output.problems)},
        notes=tuple(notes),
    )


def _changes(output: _Output, selection: Path) -> list[str]:
    """Return notes on collections that have changed since the selection."""
    before = read_manifest(selection / SELECTION_MANIFEST).inputs
    return [
        f"the collection {name!r} has changed since it was selected from: new runs teach the planner only"
        for name, digest in sorted(output.digests.items())
        if before.get(name) != digest.hexdigest()
    ]


def write_card(
    folder: Path, manifest: Manifest, job: ExportJob, lengths: Mapping[Kind, Lengths], models: Counter[str]
) -> None:
    """Write the dataset card: the rows and their files, how to load them and how they were made."""
    rows = {name: number for name, number in manifest.counts.items() if name.count("/") == 2}
    text = rendered(
        "dataset_card.md.j2",
        manifest=manifest,
        job=job,
        rows=rows,
        kinds=sorted({name.split("/")[2] for name in rows}),
        path=row_path,
        trainers={name: FORMATS[name].trainer for name in job.formats},
        embedded=job.images is ImageForm.EMBEDDED,
        models=[(*maker.split(" ", 1), number) for maker, number in sorted(models.items())],
        lengths={kind: (each.summary(), each.longest_row) for kind, each in sorted(lengths.items())},
    )
    (folder / CARD_NAME).write_text(text, "utf-8")


def row_path(name: str) -> str:
    """Return the file of the rows that the manifest counts under a name, relative to the export."""
    form, split, kind = name.split("/")
    inner = "" if split == "train" else f"{split}/"
    return f"{form}/{inner}{kind}{FORMATS[form].suffix}"
