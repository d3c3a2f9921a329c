"""The output folder of a training.

    training.json    all settings that determine the training, and whether it is done
    checkpoints/     the last few, sealed
    log.jsonl        every logged step        tensorboard/   the same
    samples.html     answers of the model, with their images
    model/           the result: a model folder, or a LoRA adapter

The same command on the same folder resumes the training. On a finished one it prints the result again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleave import ConfigurationError, FolderInUse, RunError, __version__
from interleave.plugin import locks, write_atomic
from interleave.train import checkpoints
from interleave.train.recipes import Recipe

RECORD = "training.json"
ROWS = "rows"
"""Subfolder for very large data files, unpacked before training."""
FREE = {
    "training": {"save_every", "keep", "log_every", "workers", "picture_cache_mb", "report_to", "push_to"},
    "reward": {
        "concurrency",
        "deadline",
        "patience",
        "most_failures",
        "most_failures_of_group",
        "unhealthy_steps",
        "health_window",
    },
}
"""Settings that may differ on resume: they do not change the result unless something fails."""


@dataclass(frozen=True)
class OutputFolder:
    """A folder that a training writes to."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def record(self) -> Path:
        return self.folder / RECORD

    @property
    def done(self) -> bool:
        return bool(self._read().get("done"))

    @property
    def has_steps(self) -> bool:
        """Whether a step was ever saved; if not, nothing is lost by starting over."""
        return self.done or any(
            (path / checkpoints.SEAL).exists() for path in checkpoints.list_checkpoints(self.checkpoints)
        )

    def check(self, task: str, recipe: Recipe, rows: str) -> bool:
        """Return whether the folder holds this training; rejects another one. Writes nothing."""
        if not self.record.exists():
            if self.folder.is_dir() and any(path.name != ROWS for path in self.folder.iterdir()):
                raise RunError(f"{self.folder} is not empty and contains no training: choose another --out")
            return False
        differing = _first_difference(self._read().get("identity", {}), identity_of(task, recipe, rows))
        if differing and self.has_steps:
            raise RunError(
                f"{self.folder} contains a training with another {differing}: use the same value, or "
                "choose another --out"
            )
        return differing is None

    @contextmanager
    def open(self, task: str, recipe: Recipe, rows: str) -> Iterator[None]:
        """Lock the folder for this training; it may replace one without a saved step."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder):
            if not self.check(task, recipe, rows):
                identity = identity_of(task, recipe, rows)
                self._write({"identity": identity, "recipe": recipe.model_dump(mode="json"), "done": False})
            yield

    def resume_from(self, *, fall_back: bool) -> Path | None:
        """Return the checkpoint to resume from, if any."""
        return checkpoints.latest(self.checkpoints, fall_back=fall_back)

    def finish(self, *, steps: int, note: str) -> None:
        """Record that the training is done, and the spec of its result."""
        self._write({**self._read(), "done": True, "steps": steps, "software": __version__, "use": note})

    @property
    def use(self) -> str:
        return str(self._read().get("use", ""))

    def _read(self) -> dict[str, Any]:
        try:
            value = json.loads(self.record.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise RunError(f"{self.record} cannot be read ({error}): choose another --out") from None
        if not isinstance(value, dict):
            raise RunError(f"{self.record} is not the record of a training: choose another --out")
        return value

    def _write(self, value: dict[str, Any]) -> None:
        write_atomic(self.record, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())


def identity_of(task: str, recipe: Recipe, rows: str) -> dict[str, Any]:
    """Return all settings that determine a training; they must be equal on resume."""
    values = recipe.model_dump(mode="json", exclude={"description": True, **FREE})
    return {"task": task, "rows": rows, **values}


_held: set[int] = set()
"""Handles of the folders locked by this process."""


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on a folder; the system releases it when the process ends."""
    locks.require_locks()
    handle = os.open(folder, os.O_RDONLY)
    _held.add(handle)
    try:
        locks.lock(handle)
    except BlockingIOError:
        _release(handle)
        raise FolderInUse(f"another training is running in {folder}: wait, or choose another --out") from None
    except OSError:
        pass  # some network file systems have no locks
    try:
        yield
    finally:
        _release(handle)


def _release(handle: int) -> None:
    if handle in _held:  # a forked child has already closed it
        _held.remove(handle)
        os.close(handle)


def _release_all() -> None:
    for handle in list(_held):
        _release(handle)


# Data-loader processes outlive a killed training by seconds and would keep its folder locked.
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_release_all)


def _first_difference(before: dict[str, Any], now: dict[str, Any], place: str = "") -> str | None:
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            if inner := _first_difference(old, new, f"{place}{key}."):
                return inner
        elif old != new:
            return f"{place}{key} ({old!r:.80}, not {new!r:.80})"
    return None


def how_to_use(folder: Path, base: str, *, adapter: bool) -> str:
    """Return the spec that loads the result."""
    path = folder.absolute()
    spec = f"transformers:{base}?adapter={path}" if adapter else f"transformers:{path}"
    if "@" in spec:
        raise ConfigurationError(f"{path} contains '@', which a spec cannot: move the folder")
    return spec
