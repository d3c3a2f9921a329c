"""A chain of commands: each begins when those before it are done, several at once, and none is done twice.

Every stage is a command of this program that a user could give alone. What it printed is in `logs/NAME.log`,
how long it took in `stages.json`; the same chain on the same folder goes on where it stopped.
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

from interleave.errors import ConfigurationError, RunError

RECORD = "stages.json"
LOOK_EVERY_SECONDS = 0.2
SHORT = 1
TOLD_LINES = 6
"""How much of a failed stage's log is shown."""


@dataclass(frozen=True)
class Stage:
    """One command, by what it is called here."""

    name: str
    command: tuple[str, ...]
    after: tuple[str, ...] = ()
    may_end_short: bool = False
    """Whether it is done too when a few of its many items could not be (exit code 1)."""
    even_so: bool = False
    """Whether it begins too when stages before it have failed, and works with what there is."""

    @property
    def as_typed(self) -> str:
        return f"interleave {shlex.join(self.command)}"


def run_chain(
    stages: Sequence[Stage],
    out: Path,
    *,
    at_once: int = 1,
    keep_going: bool = False,
    say: Callable[[str], None] = lambda text: None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, float]:
    """Run what is not done yet; returns the seconds of every stage. Raises when one fails: at once, or with
    `keep_going` after everything that does not need it."""
    _refuse_loose_ends(stages)
    logs = out / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    record = _Record(out / RECORD)
    record.refuse_other_commands(stages)
    waiting = _Waiting([stage for stage in stages if stage.name not in record.done])
    running: dict[str, _Running] = {}
    failures: list[RunError] = []
    before = signal.signal(signal.SIGTERM, _interrupt)  # else the stages would go on without their chain
    try:
        while waiting.stages or running:
            for stage in waiting.take_ready(record.done, at_once - len(running)):
                say(f"{stage.name}: {stage.as_typed}")
                running[stage.name] = _Running(stage, logs / f"{stage.name}.log", environment)
            time.sleep(LOOK_EVERY_SECONDS)
            for name, each in [(name, each) for name, each in running.items() if each.ended]:
                del running[name]
                if failure := each.failure:
                    if not keep_going:
                        raise failure
                    failures.append(failure)
                    without = waiting.give_up(name)
                    say(f"{name}: failed, and so not done: {', '.join(without) or 'nothing else'}")
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


class _Waiting:
    """The stages that have not begun, in their order."""

    def __init__(self, stages: list[Stage]) -> None:
        self.stages = stages
        self._given_up: set[str] = set()

    def take_ready(self, done: Collection[str], room: int) -> list[Stage]:
        """As many as there is room for, of those whose time has come."""
        ready = [each for each in self.stages if self._may_begin(each, set(done))][: max(0, room)]
        self.stages = [each for each in self.stages if each not in ready]
        return ready

    def _may_begin(self, stage: Stage, done: set[str]) -> bool:
        return set(stage.after) <= (done | self._given_up if stage.even_so else done)

    def give_up(self, failed: str) -> list[str]:
        """Leave out what needs a stage that has failed; returns the names."""
        self._given_up.add(failed)
        without = []
        for stage in list(self.stages):  # dependants come after what they need
            if not stage.even_so and not self._given_up.isdisjoint(stage.after):
                self.stages.remove(stage)
                self._given_up.add(stage.name)
                without.append(stage.name)
        return without


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


class _Running:
    """A stage under way, in a process of its own."""

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
        """What to tell when it has not ended well."""
        if self.process.returncode in ((0, SHORT) if self.stage.may_end_short else (0,)):
            return None
        last = self.log.read_text("utf-8", "replace").strip().splitlines()[-TOLD_LINES:]
        return RunError(
            f"the stage {self.stage.name!r} ended with exit code {self.process.returncode}: "
            f"{' / '.join(line.strip() for line in last)} (the whole is in {self.log}). "
            "Mend it, then give the same command again: what is done stays done"
        )

    def stop(self) -> None:
        """Ask for an orderly end, and wait for it: trainings save their state first."""
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()


class _Record:
    """Which stages are done, by which command, in how many seconds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stages: dict[str, dict[str, object]] = {}
        if path.exists():
            self._stages = json.loads(path.read_bytes())

    @property
    def done(self) -> dict[str, float]:
        return {name: float(str(each["seconds"])) for name, each in self._stages.items()}

    def add(self, stage: Stage, seconds: float) -> None:
        from interleave.files import write_atomic

        self._stages[stage.name] = {"command": stage.as_typed, "seconds": round(seconds, 1)}
        write_atomic(self.path, json.dumps(self._stages, indent=1).encode())

    def refuse_other_commands(self, stages: Sequence[Stage]) -> None:
        for stage in stages:
            before = self._stages.get(stage.name)
            if before is not None and before["command"] != stage.as_typed:
                raise ConfigurationError(
                    f"{self.path} has the stage {stage.name!r} done with other settings "
                    f"({before['command']}): choose another --out"
                )


def _refuse_loose_ends(stages: Sequence[Stage]) -> None:
    names: set[str] = set()
    for stage in stages:
        if missing := set(stage.after) - names:
            raise AssertionError(f"the stage {stage.name!r} comes before {min(missing)!r}")
        names.add(stage.name)
