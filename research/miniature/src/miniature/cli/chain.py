"""Runs a chain of commands in processes: each starts when its dependencies are done, and none runs twice.

Every stage is a command that a user could run alone. Its output is in `logs/NAME.log`, its duration in
`stages.json`. Running the chain again on the same folder resumes it.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from interleave import ConfigurationError, RunError

RECORD = "stages.json"
POLL_SECONDS = 0.2
EXIT_SHORT = (1, 2)
"""Exit codes of a command some of whose items failed; if all failed, the next stage fails."""
LOG_LINES_SHOWN = 6
"""Log lines of a failed stage in the error message."""


@dataclass(frozen=True)
class Stage:
    """One command of the chain."""

    name: str
    command: tuple[str, ...]
    after: tuple[str, ...] = ()
    may_end_short: bool = False
    """Whether it counts as done if some of its items failed."""
    after_failures: bool = False
    """Whether it starts even if earlier stages have failed, with the available results."""

    @property
    def command_line(self) -> str:
        return f"interleave {shlex.join(self.command)}"


def run_chain(
    stages: Sequence[Stage],
    out: Path,
    *,
    concurrency: int = 1,
    keep_going: bool = False,
    say: Callable[[str], None] = lambda text: None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, float]:
    """Run the stages that are not done; return the seconds of each.

    Raises when a stage fails: immediately, or with `keep_going` after all stages that do not depend on it.
    """
    _check_order(stages)
    logs = out / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    record = _Record(out / RECORD)
    record.refuse_other_commands(stages)
    waiting = _Queue([stage for stage in stages if stage.name not in record.done])
    running: dict[str, _Process] = {}
    failures: list[RunError] = []
    before = signal.signal(signal.SIGTERM, _interrupt)  # else the stages would outlive the chain
    try:
        while waiting.stages or running:
            for stage in waiting.take_ready(record.done, concurrency - len(running)):
                say(f"{stage.name}: {stage.command_line}")
                running[stage.name] = _Process(stage, logs / f"{stage.name}.log", environment)
            time.sleep(POLL_SECONDS)
            for name, each in [(name, each) for name, each in running.items() if each.ended]:
                del running[name]
                if failure := each.failure:
                    if not keep_going:
                        raise failure
                    failures.append(failure)
                    without = waiting.skip_dependants(name)
                    say(f"{name}: failed; skipped: {', '.join(without) or 'nothing else'}")
                else:
                    record.add(each.stage, each.seconds)
                    say(f"{name}: done in {each.seconds:.0f} s")
    finally:
        signal.signal(signal.SIGTERM, before)
        for each in running.values():
            each.stop()
    if failures:
        raise failures[0]
    return record.done


class _Queue:
    """The stages that have not started, in order."""

    def __init__(self, stages: list[Stage]) -> None:
        self.stages = stages
        self._skipped: set[str] = set()

    def take_ready(self, done: Collection[str], limit: int) -> list[Stage]:
        """Remove and return up to `limit` stages whose dependencies are done."""
        ready = [each for each in self.stages if self._may_begin(each, set(done))][: max(0, limit)]
        self.stages = [each for each in self.stages if each not in ready]
        return ready

    def _may_begin(self, stage: Stage, done: set[str]) -> bool:
        return set(stage.after) <= (done | self._skipped if stage.after_failures else done)

    def skip_dependants(self, failed: str) -> list[str]:
        """Remove the stages that depend on a failed one; return their names."""
        self._skipped.add(failed)
        without = []
        for stage in list(self.stages):  # dependants come after their dependencies
            if not stage.after_failures and not self._skipped.isdisjoint(stage.after):
                self.stages.remove(stage)
                self._skipped.add(stage.name)
                without.append(stage.name)
        return without


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


class _Process:
    """A running stage in a separate process."""

    def __init__(self, stage: Stage, log: Path, environment: Mapping[str, str] | None) -> None:
        self.stage = stage
        self.log = log
        self.began = time.monotonic()
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "interleave", *stage.command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
            )

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def failure(self) -> RunError | None:
        """Error of a failed stage; `None` if it succeeded."""
        if self.process.returncode in ((0, *EXIT_SHORT) if self.stage.may_end_short else (0,)):
            return None
        last = self.log.read_text("utf-8", "replace").strip().splitlines()[-LOG_LINES_SHOWN:]
        return RunError(
            f"the stage {self.stage.name!r} ended with exit code {self.process.returncode}: "
            f"{' / '.join(line.strip() for line in last)} (full log: {self.log}). "
            "Fix it, then run the same command again: finished stages are not repeated"
        )

    def stop(self) -> None:
        """Terminate and wait, as trainings first save their state."""
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()


class _Record:
    """The finished stages: their commands and durations."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stages: dict[str, dict[str, object]] = {}
        if path.exists():
            self._stages = json.loads(path.read_bytes())

    @property
    def done(self) -> dict[str, float]:
        return {name: float(str(each["seconds"])) for name, each in self._stages.items()}

    def add(self, stage: Stage, seconds: float) -> None:
        from interleave.plugin import write_atomic

        self._stages[stage.name] = {"command": stage.command_line, "seconds": round(seconds, 1)}
        write_atomic(self.path, json.dumps(self._stages, indent=1).encode())

    def refuse_other_commands(self, stages: Sequence[Stage]) -> None:
        for stage in stages:
            before = self._stages.get(stage.name)
            if before is not None and _current(str(before["command"])) != _current(stage.command_line):
                raise ConfigurationError(
                    f"{self.path} has the stage {stage.name!r} done with other settings "
                    f"({before['command']}): choose another --out"
                )


def _current(command_line: str) -> str:
    """Return a recorded command in the current spelling."""
    from interleave.plugin import cli

    return shlex.join(["interleave", *cli.rewrite(shlex.split(command_line)[1:])[0]])


def _check_order(stages: Sequence[Stage]) -> None:
    names: set[str] = set()
    for stage in stages:
        if missing := set(stage.after) - names:
            raise AssertionError(f"the stage {stage.name!r} comes before {min(missing)!r}")
        names.add(stage.name)
