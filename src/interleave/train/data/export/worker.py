"""The work of one export process: converts runs or joined documents to encoded rows, counts and problems.

The request determines the split, so that no request is in both training and validation. All trajectories of
one request, from any generator and collection, and all their rows go to the same split. Requests that differ
only in spacing and case count as one.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from interleave import ConfigurationError, InterleaveError, Request, Text
from interleave.plugin import PromptPack, batches, images
from interleave.train.data.export.critic_rows import attempts_of, critic_rows
from interleave.train.data.export.images import ImageForm, ImageWriter
from interleave.train.data.export.joined import JoinedFile, Numbered, read_documents
from interleave.train.data.export.planner_rows import planner_rows
from interleave.train.data.export.rows import (
    AGENT_SFT,
    TRAIN,
    VALIDATION,
    Kind,
    Lengths,
    TrainingRow,
    length_of,
    needs_escaping,
)
from interleave.train.data.formats import FORMATS, RowChunk, encode_rows
from interleave.train.data.select.selection import Selected
from interleave.train.data.trajectories import Trajectory, digest_line, read_trajectory

FileKey = tuple[str, str, Kind]
"""One file of the export: format, split, kind."""
HELD_OUT = "held out"


def split_of(fingerprint: str, share: float) -> str:
    """Return the split of a request; about `share` of all requests go to validation."""
    number = int.from_bytes(hashlib.sha256(fingerprint.encode()).digest()[:8], "big")
    return VALIDATION if number < share * 2**64 else TRAIN


def request_fingerprint(trajectory: Trajectory) -> str:
    """Return the fingerprint of a trajectory's request: its texts and image file names, which are hashes."""
    return text_fingerprint(
        (part.text or "") if part.image is None else part.image for part in trajectory.record.request
    )


def held_out(files: Iterable[Path]) -> frozenset[str]:
    """Return the fingerprints of requests that must not be trained on."""
    return frozenset(
        content_fingerprint(item.load()) for path in files for item in batches.read_requests(path)[0]
    )


def content_fingerprint(request: Request) -> str:
    """Return the fingerprint of a request's texts and pixels: the same in a file and in a run folder."""
    return text_fingerprint(
        part.text if isinstance(part, Text) else images.pixel_digest(part.image) for part in request.parts
    )


def text_fingerprint(parts: Iterable[str]) -> str:
    """Return the fingerprint of texts, ignoring spacing and case."""
    return "\0".join(" ".join(part.casefold().split()) for part in parts)


@dataclass(frozen=True)
class ExportJob:
    """The settings of an export, sent to every worker."""

    formats: tuple[str, ...]
    pack: PromptPack
    any_pack: bool
    """Whether to use runs made with another prompt pack."""
    images: ImageForm
    schemas: Mapping[tuple[str, Kind], Any]
    """Schemas by format and kind; made once, because the library is slow to import."""
    staging: Path
    destination: Path
    validation: float
    held_out: frozenset[str] = frozenset()
    tokenizer: str | None = None
    max_tokens: int | None = None
    annotation: bool = True


@dataclass(frozen=True)
class RunsTask:
    """Some runs of a collection, each with its selected attempts."""

    collection: str
    folder: Path
    runs: tuple[tuple[str, tuple[Selected, ...]], ...]


@dataclass(frozen=True)
class JoinTask:
    """Some documents of a joined file."""

    joined: JoinedFile
    items: tuple[Numbered, ...]


Task = RunsTask | JoinTask


@dataclass
class TaskResult:
    """The encoded rows of a task, with counts and problems."""

    chunks: dict[FileKey, RowChunk] = field(default_factory=dict)
    rows: Counter[FileKey] = field(default_factory=Counter)
    lengths: dict[Kind, Lengths] = field(default_factory=lambda: defaultdict(Lengths))
    skipped: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    escaped: int = 0
    """Rows whose texts had image marks or control tokens."""
    collection: str = ""
    digest_lines: bytes = b""
    """The runs' part of the digest of their collection."""
    items: int = 0
    """Runs or documents done."""


def export_task(job: ExportJob, task: Task) -> TaskResult:
    """Build the rows of a task in every requested format."""
    worker = _Worker(job)
    return worker.join(task) if isinstance(task, JoinTask) else worker.export(task)


class _Worker:
    def __init__(self, job: ExportJob) -> None:
        self.job = job
        self.result = TaskResult()
        self.encoded: dict[FileKey, list[dict[str, Any]]] = defaultdict(list)
        self.image_writers = {
            name: ImageWriter(job.images, job.staging / name, job.destination / name) for name in job.formats
        }

    def export(self, task: RunsTask) -> TaskResult:
        self.result.collection = task.collection
        for name, selected in task.runs:
            self.result.items += 1
            trajectory = read_trajectory(task.folder, name)
            digest = trajectory.digest if isinstance(trajectory, Trajectory) else ""
            self.result.digest_lines += digest_line(name, digest)
            if not isinstance(trajectory, Trajectory):
                self.result.skipped[f"run {trajectory}"] += 1
                continue
            self._refuse_other_pack(trajectory)
            prefix = f"{task.collection}/{name}"
            try:
                if self._is_held_out(trajectory):
                    self.result.skipped[HELD_OUT] += 1
                    continue
            except InterleaveError as error:
                self._add_problem(prefix, error, task.folder)
                continue
            self._add_run(prefix, trajectory, selected, task.folder)
        return self._encoded_result()

    def join(self, task: JoinTask) -> TaskResult:
        documents = read_documents(
            task.joined, task.items, self.job.pack, self.result.skipped, self.result.problems
        )
        for document in documents:
            split = split_of(text_fingerprint([document.text]), self.job.validation)
            for row in document.rows:
                self._add_row(split, row)
        self.result.items = len(task.items)
        return self._encoded_result()

    def _add_run(
        self, prefix: str, trajectory: Trajectory, selected: tuple[Selected, ...], collection: Path
    ) -> None:
        config = trajectory.record.config
        for role in ("planner", "critic", "generator"):
            self.result.models[f"{role} {getattr(config, role).identity}"] += 1
        split = split_of(request_fingerprint(trajectory), self.job.validation)
        for rows in self._rows(prefix, trajectory, selected):
            try:
                for row in rows:
                    self._add_row(split, row)
            except InterleaveError as error:
                self._add_problem(prefix, error, collection)

    def _add_problem(self, prefix: str, error: InterleaveError, collection: Path) -> None:
        """Add a problem, without local paths, because the manifest lists it."""
        self.result.problems.append(f"{prefix}: {str(error).replace(f'{collection}/', '')}")

    def _rows(
        self, prefix: str, trajectory: Trajectory, selected: tuple[Selected, ...]
    ) -> Iterator[Iterator[TrainingRow]]:
        """Yield the planner's rows, then those of each attempt; a failure affects only one of them."""
        yield planner_rows(
            prefix, trajectory, self.job.pack, self.result.skipped, annotation=self.job.annotation
        )
        attempts = attempts_of(trajectory)
        for each in selected:
            yield critic_rows(prefix, trajectory, each, attempts, self.job.pack)

    def _add_row(self, split: str, row: TrainingRow) -> None:
        """Count a row's tokens and encode it for every format that supports its kind."""
        if split != row.split:
            row = replace(row, split=split)
        length = length_of(row, self.job.tokenizer)
        if self.job.max_tokens is not None and length > self.job.max_tokens:
            self.result.skipped[f"{row.kind}: longer than {self.job.max_tokens} tokens"] += 1
            return
        encoded = {
            (name, split, row.kind): FORMATS[name].encode(row, self.image_writers[name])
            for name in self.job.formats
            if row.kind in FORMATS[name].kinds
        }
        for key, columns in encoded.items():  # only after all formats succeeded: an image may be missing
            self.encoded[key].append(columns)
        self.result.lengths[row.kind].add(length, row.id)
        self.result.escaped += _needs_escaping(row)

    def _is_held_out(self, trajectory: Trajectory) -> bool:
        return bool(self.job.held_out) and content_fingerprint(trajectory.request) in self.job.held_out

    def _refuse_other_pack(self, trajectory: Trajectory) -> None:
        used = trajectory.record.config.prompts
        if not self.job.any_pack and used.digest != self.job.pack.digest:
            raise ConfigurationError(
                f"{trajectory.folder} was made with another prompt pack ({used.name!r}, {used.digest}) "
                f"than the rest ({self.job.pack.name!r}): choose the pack of the rows with --prompts"
            )

    def _encoded_result(self) -> TaskResult:
        for key, rows in self.encoded.items():
            name, _, kind = key
            self.result.chunks[key] = encode_rows(rows, FORMATS[name], self.job.schemas.get((name, kind)))
            self.result.rows[key] += len(rows)
        return self.result


def target_files(key: FileKey) -> Iterator[FileKey]:
    """Yield the files that rows are written to: their own, and that of the agent with both roles."""
    name, split, kind = key
    yield key
    if kind in ("planner_sft", "critic_sft") and AGENT_SFT in FORMATS[name].kinds:
        yield name, split, AGENT_SFT


def _needs_escaping(row: TrainingRow) -> bool:
    texts = (part.text for message in row.prompt for part in message.parts if isinstance(part, Text))
    return needs_escaping(row.completion or "") or any(needs_escaping(text) for text in texts)
