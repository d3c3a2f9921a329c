"""The critic's verdicts on labelled attempts: read from the labels, otherwise asked of the critic.

Verdicts are appended to a file in the output folder and synced before they count. A killed command resumes,
and an attempt is never judged twice by the same critic with the same prompts.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from interleave import ConfigurationError, Critic, CriticInput, InputError, Outcome, StorageError
from interleave.bench.labels import CriticVerdict, Kind, Label, Subject
from interleave.plugin import (
    LoadedAgent,
    PromptPack,
    RetriedVlm,
    Value,
    agents,
    backends,
    config,
    files,
    make_folder,
    parse_spec,
)
from interleave.train.data.trajectories import Trajectory, read_trajectory

DEFAULT_CONCURRENCY = 16


class VerdictLine(Value):
    """A verdict on one attempt. Unreadable verdicts are stored too, so that none is paid for twice."""

    run: str
    step: int
    attempt: int
    outcome: Outcome
    confidence: float | None = None
    quick: float | None = None

    @property
    def subject(self) -> Subject:
        return Subject(run=self.run, step=self.step, attempt=self.attempt)


def stored_verdicts(labels: Iterable[Label]) -> dict[Subject, CriticVerdict]:
    """Return the verdicts stored in the labels."""
    return {
        label.subject: label.critic
        for label in labels
        if label.kind is Kind.ACCEPT and label.critic is not None
    }


def readable(lines: Iterable[VerdictLine]) -> dict[Subject, CriticVerdict]:
    """Return the verdicts of readable lines."""
    return {
        line.subject: CriticVerdict(
            accepted=line.outcome is Outcome.ACCEPTED, confidence=line.confidence, quick=line.quick
        )
        for line in lines
        if line.outcome is not Outcome.UNREADABLE
    }


@dataclass(frozen=True)
class RunFolders:
    """Folders searched for labelled runs: those given, and the folder of the labels."""

    folders: tuple[Path, ...]

    def critic_input(self, subject: Subject) -> CriticInput:
        """Return the critic's input for an attempt, with its images loaded."""
        trajectory = self._trajectory(subject.run)
        for step, attempt in trajectory.attempts():
            if (step.plan.number, attempt.number) == (subject.step, subject.attempt):
                seen = trajectory.critic_input(step, attempt)
                seen.before.load()
                seen.after.load()
                return seen
        raise InputError(f"run {subject.run!r} has no attempt {subject.attempt} of step {subject.step}")

    def has(self, run: str) -> bool:
        """Return whether one of the folders holds a run."""
        return any(
            (folder / run).is_dir() or (folder.name == run and folder.is_dir()) for folder in self.folders
        )

    def _trajectory(self, run: str) -> Trajectory:
        if run not in self._read:
            self._read[run] = self._find(run)
        return self._read[run]

    def _find(self, run: str) -> Trajectory:
        for folder in self.folders:
            # a label names a run by its path, or only by the name of its folder
            for base, name in ((folder, run), (folder.parent, folder.name if folder.name == run else "")):
                if name and (base / name).is_dir():
                    found = read_trajectory(base, name)
                    if isinstance(found, Trajectory):
                        return found
                    raise InputError(f"run {base / name} cannot be judged: it is {found}")
        searched = ", ".join(map(str, self.folders))
        raise InputError(f"labelled run {run!r} not found in {searched}: name its folder with --run-folder")

    @cached_property
    def _read(self) -> dict[str, Trajectory]:
        return {}


class VerdictFile:
    """The verdicts of one critic with one prompt pack."""

    def __init__(self, folder: Path, spec: str, pack: PromptPack) -> None:
        named = f"{config.without_tuning(parse_spec(spec))}/{pack.digest}"
        self.path = folder / f"verdicts-{hashlib.sha256(named.encode()).hexdigest()[:12]}.jsonl"
        make_folder(folder)
        data = self.path.read_bytes() if self.path.exists() else b""
        self._start = b"" if not data or data.endswith(b"\n") else b"\n"
        self.lines = {line.subject: line for line in self._read(data)}

    @staticmethod
    def _read(data: bytes) -> Iterable[VerdictLine]:
        for line in data.splitlines():
            try:
                yield VerdictLine.model_validate_json(line)
            except ValidationError:  # cut off by a crash
                continue

    def has(self, subject: Subject, *, quick: bool = False) -> bool:
        """Return whether an attempt is judged; with `quick`, also before reasoning."""
        line = self.lines.get(subject)
        return line is not None and (line.quick is not None or not quick)

    def add(self, line: VerdictLine) -> None:
        """Append a verdict and sync it to disk."""
        try:
            with open(self.path, "ab") as file:
                file.write(self._start + line.model_dump_json().encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError.at(self.path, error) from error
        self._start = b""
        if not self.lines:
            files.sync_folder(self.path.parent)
        self.lines[line.subject] = line


def load_critic(spec: str, pack: PromptPack) -> LoadedAgent[Critic]:
    """Load the critic without strictness and with retries: calibration needs its own verdict."""
    loaded = agents.critic_from(backends.load_agent(spec, "critic"), pack)
    return loaded if loaded.vlm is None else loaded.wrapped(lambda vlm: RetriedVlm("the critic", vlm))


async def judge_attempts(
    subjects: Sequence[Subject],
    folders: RunFolders,
    file: VerdictFile,
    critic: LoadedAgent[Critic],
    *,
    quick: bool = False,
    concurrency: int = DEFAULT_CONCURRENCY,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Judge attempts that have no stored verdict, concurrently; with `quick`, also before reasoning."""
    left = [subject for subject in dict.fromkeys(subjects) if not file.has(subject, quick=quick)]
    slots = asyncio.Semaphore(min(concurrency, critic.concurrency or concurrency))
    done = 0

    async def one(subject: Subject) -> None:
        nonlocal done
        async with slots:
            seen = await asyncio.to_thread(folders.critic_input, subject)
            verdict = await critic.agent.judge(seen)
            probability = await _quick_probability(critic.agent, seen) if quick else None
            file.add(
                VerdictLine(
                    run=subject.run,
                    step=subject.step or 0,
                    attempt=subject.attempt or 0,
                    outcome=verdict.outcome,
                    confidence=verdict.confidence,
                    quick=probability,
                )
            )
            done += 1
            report(done, len(left))

    await _all_or_none([one(subject) for subject in left])


async def _quick_probability(critic: Critic, seen: CriticInput) -> float:
    """Return the probability that an image is right, before the critic has reasoned."""
    if isinstance(critic, agents.VlmCritic) and critic.judges_quickly:
        return await critic.quick_probability(seen)
    raise ConfigurationError(
        "--quick needs a critic that continues a reply and gives token probabilities: local models do"
    )


async def _all_or_none(work: Sequence[Awaitable[None]]) -> None:
    """Wait for all tasks. The first error cancels the others."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
