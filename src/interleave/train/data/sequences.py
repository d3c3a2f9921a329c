"""`data sequences`: writes each trajectory as one text with images, for models that generate both.

`<gthink>` contains the plan's reasoning. Each step has `<plan>` with its prompt, `<image>` with an image and,
if it has a caption, `<info>`. With reflection every attempt is included in order, each with `<critic>`, its
reasoning and the next prompt. Every tag is closed; line breaks are the reference's. Only trajectories whose
steps were all accepted are used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from interleave import InputError, InterleaveError, Outcome, RunError
from interleave.plugin import journal, runs
from interleave.train.data.manifest import Manifest, manifest_path, read_manifest, write_manifest
from interleave.train.data.outputs import atomic_file, refuse_folder
from interleave.train.data.parallel_map import Progress, chunks, map_in_order
from interleave.train.data.select.selection import collections_by_name
from interleave.train.data.trajectories import Trajectory, digest_line, read_trajectory, run_names

STAGE = "sequences"
IMAGE = "<image><img_token></image>"
"""Of a request. In answers a full stop and a line break follow, and texts stand on lines of their own."""
SHORT = "ended short"
NOT_ACCEPTED = "a step was not accepted"
NOTHING_DRAWN = "no images"
UNREADABLE = "an attempt has no readable verdict"
BATCH_RUNS = 200
SHOWN_PROBLEMS = 5
_TAGS = re.compile(r"<(?=/?(?:gthink|plan|image|img_token|info|critic|think)>)", re.IGNORECASE)


@dataclass(frozen=True)
class SequenceOptions:
    """The options of `data sequences`."""

    reflection: bool = False
    skip_bad: bool = False
    workers: int = 1


def make_sequences(
    collections: Sequence[Path],
    out: Path,
    options: SequenceOptions = SequenceOptions(),
    *,
    replace: bool = False,
    progress: Progress = lambda done, total: None,
) -> Manifest:
    """Write the sequences of all trajectories whose steps were accepted; returns the manifest."""
    _refuse_foreign_file(out)
    folders = {name: Path(os.path.abspath(path)) for name, path in collections_by_name(collections).items()}
    runs = [(path, name) for path in folders.values() for name in run_names(path)]
    work = partial(_make_batch, options.reflection, Path(os.path.abspath(out)).parent)
    workers = options.workers if len(runs) > 10 * BATCH_RUNS else 1  # a worker takes a second to start
    total, digest = _BatchResult(), hashlib.sha256()
    with atomic_file(out, replace=replace) as file:
        for result in map_in_order(work, chunks(runs, BATCH_RUNS), workers):
            for line in result.lines:
                file.write((b",\n" if file.tell() else b"[\n") + line)
            digest.update(result.digest)
            total.count(result)
            progress(total.runs, len(runs))
        file.write(b"\n]\n")
        _refuse_problems(total, options)
    manifest = Manifest(
        stage=STAGE,
        options={"file": out.name, "reflection": options.reflection},
        inputs={"+".join(folders): digest.hexdigest()},
        counts={"runs": len(runs), **dict(sorted(total.counts.items()))},
        notes=tuple(f"left out: {problem}" for problem in total.problems[:100]),
    )
    write_manifest(manifest_path(out), manifest)
    return manifest


def _refuse_foreign_file(out: Path) -> None:
    """Raise unless the manifest of an existing file says that this stage wrote it."""
    refuse_folder(out)
    manifest = manifest_path(out)
    if manifest.exists():
        made = read_manifest(manifest)
        if (made.stage, made.options.get("file")) != (STAGE, out.name):
            raise RunError(
                f"{manifest} belongs to another file than {out.name}: choose another name with --out"
            )
    elif out.exists():
        raise RunError(f"{out} was not made by 'data sequences': choose another name with --out")


def _refuse_problems(total: _BatchResult, options: SequenceOptions) -> None:
    """Raise for trajectories that failed, unless they may be skipped, and for an empty output."""
    problems, counts = total.problems, total.counts
    if problems and not options.skip_bad:
        more = f" … and {len(problems) - SHOWN_PROBLEMS} more" if len(problems) > SHOWN_PROBLEMS else ""
        raise InputError(
            f"{len(problems)} trajectories cannot be written as sequences, nothing was written: "
            f"{'; '.join(problems[:SHOWN_PROBLEMS])}{more} (skip them with --skip-bad)"
        )
    if not counts["sequences"]:
        left = ", ".join(f"{number:,} {why}" for why, number in sorted(counts.items()) if number)
        raise InputError(f"no trajectory makes a sequence ({left}): nothing was written")


@dataclass
class _BatchResult:
    """The sequences of some runs, with counts and problems."""

    lines: list[bytes] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    runs: int = 0
    digest: bytes = b""

    def count(self, other: _BatchResult) -> None:
        """Add the counts and problems of another batch, but not its lines."""
        self.counts.update(other.counts)
        self.problems += other.problems
        self.runs += other.runs


def _make_batch(reflection: bool, folder: Path, runs: list[tuple[Path, str]]) -> _BatchResult:
    result = _BatchResult(runs=len(runs))
    for collection, name in runs:
        trajectory = read_trajectory(collection, name)
        if not isinstance(trajectory, Trajectory):
            result.counts[f"left out: {trajectory}"] += 1
            continue
        result.digest += digest_line(name, trajectory.digest)
        if why := why_left_out(trajectory, reflection=reflection):
            result.counts[f"left out: {why}"] += 1
            continue
        try:
            item = sequence(trajectory, reflection=reflection, folder=folder)
        except InterleaveError as error:
            result.problems.append(f"{name}: {str(error).replace(f'{collection}/', '')}")
        else:
            result.lines.append(json.dumps(item, ensure_ascii=False).encode())
            result.counts.update({"sequences": 1, "pictures": len(item["images"])})
    return result


def why_left_out(trajectory: Trajectory, *, reflection: bool) -> str | None:
    """Return why a trajectory is left out, or None."""
    record = trajectory.record
    drawn = [step for step in record.steps if step.plan.prompt is not None]
    if record.status != "done":
        return SHORT
    if not drawn:
        return NOTHING_DRAWN
    if not all(step.accepted and step.attempt for step in drawn):
        return NOT_ACCEPTED
    if reflection and not all(_is_readable(attempt) for step in drawn for attempt in step.line):
        return UNREADABLE
    return None


def sequence(trajectory: Trajectory, *, reflection: bool, folder: Path) -> dict[str, Any]:
    """Convert a trajectory to one exchange; image paths are relative to the folder of the file."""
    record = trajectory.record
    names = [part.image for part in record.request if part.image]
    asked = "".join(_request_text(part) for part in record.request)
    total = [f"<gthink>\n{_escape_tags(record.plan.reasoning if record.plan else '')}\n</gthink>\n"]
    for step in record.steps:
        attempts = step.line if reflection else tuple(filter(None, [step.attempt]))
        total += _step_text(step, attempts, reflection=reflection)
        names += [attempt.image for attempt in attempts]
    return {
        "messages": [
            {"role": "user", "content": asked},
            {"role": "assistant", "content": "".join(total)},
        ],
        "images": [_path(trajectory, name, folder) for name in names],
    }


def _request_text(part: journal.RequestPart) -> str:
    return IMAGE if part.image else _escape_tags(part.text or "")


def _step_text(
    step: runs.StepRecord, attempts: Sequence[runs.AttemptRecord], *, reflection: bool
) -> Iterator[str]:
    if step.plan.prompt is not None:
        yield f"<plan>\n{_escape_tags(step.plan.prompt)}\n</plan>\n"
    for attempt in attempts:
        yield f"{IMAGE}.\n"
        if reflection and attempt.verdict is not None:
            refined = attempt.verdict.refined_prompt or ""
            answer = {"success": attempt.verdict.accepted, "refine_prompt": _escape_tags(refined)}
            thought = _escape_tags(attempt.verdict.reasoning)
            verdict = json.dumps(answer, ensure_ascii=False)
            yield f"<critic>\n<think>\n{thought}\n</think>\n{verdict}\n</critic>\n"
    text = step.plan.caption if step.plan.prompt is not None else step.plan.text
    if text:
        yield f"<info>\n{_escape_tags(text)}\n</info>\n"


def _is_readable(attempt: runs.AttemptRecord) -> bool:
    return attempt.verdict is not None and attempt.verdict.outcome is not Outcome.UNREADABLE


def _path(trajectory: Trajectory, name: str, folder: Path) -> str:
    """Return the path of an image after reading its header, so that a missing file fails before training."""
    image = trajectory.image(name)
    _ = image.size
    return os.path.relpath(image.path, folder)


def _escape_tags(text: str) -> str:
    """Break anything that looks like a tag with a zero-width space."""
    return _TAGS.sub("<\u200b", text)
