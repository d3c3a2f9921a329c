"""Checkpoints that are verified before they are resumed from, and the trainer mixin that writes them.

A checkpoint is a folder `checkpoint-N` as the trainer writes it. Once all its files are on disk it is sealed:
`whole.json`, written last, records the size and digest of each file. A checkpoint without a seal is
incomplete (the process crashed) and is skipped. One that does not match its seal is refused by name; an older
one is used only on request. Old checkpoints are removed only after the new one is sealed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from transformers import Trainer

from interleave import ConfigurationError, StorageError
from interleave.plugin import Value, files, write_atomic
from interleave.train.monitor import TrainingMonitor

SEAL = "whole.json"
_FOLDER = re.compile(r"checkpoint-(\d+)\Z")
_DISK_ERRORS = (
    "No space left",
    "File too large",
    "Disk quota",
    "failed writing file",
    "PytorchStreamWriter",
    "unexpected pos",
)
COUNTERS = "counters.json"
COUNTED = {"_total_train_tokens"}
"""Attributes that TRL accumulates but does not save."""
SUMS = "since_last_line"
"""Key of the sums accumulated since the last log line."""


class SealedFile(Value):
    size: int
    sha256: str


class Seal(Value):
    """The files of a complete checkpoint."""

    step: int
    processes: int
    """World size of the training: another one would change the order of the data."""
    files: dict[str, SealedFile]


def seal(folder: Path, *, step: int, processes: int) -> None:
    """Mark a checkpoint complete: sync every file to disk and record its size and digest."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    with ThreadPoolExecutor(4) as pool:
        sealed = list(pool.map(_sealed, paths))
    listed = {str(path.relative_to(folder)): each for path, each in zip(paths, sealed, strict=True)}
    for inner in {path.parent for path in paths}:
        files.sync_folder(inner)
    whole = Seal(step=step, processes=processes, files=listed)
    write_atomic(folder / SEAL, whole.model_dump_json(indent=1).encode())


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, sealed or not, oldest first."""
    if not folder.is_dir():
        return []
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := _FOLDER.match(path.name))]
    return [path for _, path in sorted(found) if path.is_dir()]


def incomplete(folder: Path) -> list[Path]:
    """Return checkpoints without a seal, left incomplete by a crash."""
    return [path for path in list_checkpoints(folder) if not (path / SEAL).is_file()]


def latest(folder: Path, *, fall_back: bool = False) -> Path | None:
    """Return the last sealed checkpoint, verified; with `fall_back`, an older one if it is broken."""
    for path in reversed([each for each in list_checkpoints(folder) if (each / SEAL).is_file()]):
        try:
            verify(path)
        except ConfigurationError as error:
            if fall_back:
                continue
            raise ConfigurationError(f"{error}. Resume from an older checkpoint with --fall-back") from None
        return path
    return None


def verify(folder: Path) -> Seal:
    """Return the seal of a checkpoint; raises `ConfigurationError` unless every file matches it."""
    whole = read_seal(folder)
    for name, expected in whole.files.items():
        path = folder / name
        if not path.is_file():
            raise ConfigurationError(f"the checkpoint is broken: {path} is missing")
        size = path.stat().st_size
        if size != expected.size:
            raise ConfigurationError(
                f"the checkpoint is broken: {path} has {size:,} bytes, not {expected.size:,}"
            )
        if _digest(path) != expected.sha256:
            raise ConfigurationError(f"the checkpoint is broken: {path} is not the file that was saved")
    return whole


def read_seal(folder: Path) -> Seal:
    """Return the stored seal without verifying the files."""
    path = folder / SEAL
    try:
        return Seal.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror}): incomplete checkpoint") from None
    except ValidationError:
        raise ConfigurationError(f"{path} is not the seal of a checkpoint") from None


def prune(folder: Path, keep: int) -> None:
    """Remove all but the last `keep` sealed checkpoints, and incomplete ones."""
    whole = [path for path in list_checkpoints(folder) if (path / SEAL).is_file()]
    for path in [*whole[:-keep], *incomplete(folder)]:
        (path / SEAL).unlink(missing_ok=True)  # first, so that a half-removed folder does not count as sealed
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def reporting_disk_errors(folder: Path) -> Iterator[None]:
    """Convert disk errors while writing a checkpoint to `StorageError`, and remove the incomplete folder."""
    try:
        yield
    except Exception as error:
        if not _is_disk_error(error):
            raise
        shutil.rmtree(folder, ignore_errors=True)
        reason = getattr(error, "strerror", None) or str(error).strip().splitlines()[0][:160]
        raise StorageError(
            f"cannot write the checkpoint {folder} ({reason}). The previous one is complete: free disk "
            "space, then run the same command again"
        ) from error


def _is_disk_error(error: Exception) -> bool:
    """Return whether the disk failed; safetensors and torch raise their own error types for it."""
    if isinstance(error, OSError | StorageError):
        return True
    return any(words in str(error) for words in _DISK_ERRORS)


def _sealed(path: Path) -> SealedFile:
    digest = _digest(path)
    handle = os.open(path, os.O_RDONLY)
    try:
        files.sync_file(handle)
    finally:
        os.close(handle)
    return SealedFile(size=path.stat().st_size, sha256=digest)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_other_model(checkpoint: Path, model: Path) -> None:
    """Reject a checkpoint whose config.json is of another model; an adapter has no config.json."""
    mine, theirs = checkpoint / "config.json", model / "config.json"
    if not mine.is_file():
        return
    one, other = _shapes(mine), _shapes(theirs)
    if one != other:
        differing = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
        raise ConfigurationError(
            f"{checkpoint} is not a checkpoint of {model}: they differ in {differing[0]!r}"
        )


def _shapes(path: Path) -> dict[str, Any]:
    """Return the settings that determine the shapes of a model's tensors."""
    config = json.loads(path.read_text("utf-8"))
    sizes = re.compile(r"size|layers|heads|depth|dim|vocab|model_type|architectures")
    flat = {
        f"{part}.{key}" if part else key: value
        for part, values in (
            ("", config),
            *((p, config.get(p) or {}) for p in ("text_config", "vision_config")),
        )
        for key, value in values.items()
    }
    return {
        key: value for key, value in flat.items() if sizes.search(key) and isinstance(value, int | str | list)
    }


class CheckpointMixin(Trainer):  # type: ignore[misc]
    """Makes a `Trainer` seal its checkpoints, keep the last few, and resume its logging sums."""

    keep = 3
    monitor: TrainingMonitor
    _sums: dict[str, Any] | None = None
    """Sums from the resumed checkpoint, until they are restored."""

    def get_batch_samples(self, *arguments: Any, **options: Any) -> Any:
        self._restore_sums()
        started = time.perf_counter()
        batches = super().get_batch_samples(*arguments, **options)
        self._metrics["train"]["time/data"].append(time.perf_counter() - started)
        return batches

    def create_model_card(self, *arguments: Any, **options: Any) -> None:
        """Write no model card: it would contain local paths."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
        if (folder / SEAL).is_file():
            return  # already saved at this step
        with reporting_disk_errors(folder):
            super()._save_checkpoint(model, trial)
            counters = self._counters()
            self.accelerator.wait_for_everyone()
            if self.accelerator.is_main_process:
                write_atomic(folder / COUNTERS, json.dumps(counters).encode())
                seal(folder, step=self.state.global_step, processes=self.accelerator.num_processes)
        if self.accelerator.is_main_process:
            prune(folder.parent, self.keep)

    def _counters(self) -> dict[str, Any]:
        """Return the counters and the sums since the last log line; every process must call it."""
        counted = {name: getattr(self, name) for name in COUNTED if hasattr(self, name)}
        sums = {
            "logged": self._globalstep_last_logged,
            "loss": float(self.accelerator.gather(self._tr_loss).mean()),
            "figures": dict(self._metrics["train"]),
            "skipped": self.monitor.skipped,
        }
        return {**counted, SUMS: sums}

    def _restore_sums(self) -> None:
        """Restore the sums, so that the next log line equals that of an uninterrupted run.

        The trainer resets its sums after a checkpoint is loaded, so they are restored at the first batch.
        """
        if self._sums is None:
            return
        sums, self._sums = self._sums, None
        self._globalstep_last_logged = sums["logged"]
        self._tr_loss.fill_(sums["loss"])
        self._metrics["train"].update(sums["figures"])
        self.monitor.skipped = sums["skipped"]

    def _load_optimizer_and_scheduler(self, checkpoint: Any) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            counters = json.loads((Path(checkpoint) / COUNTERS).read_text("utf-8"))
            self._sums = counters.get(SUMS)
            for name in COUNTED & counters.keys():
                setattr(self, name, counters[name])


def refuse_other_processes(checkpoint: Path, processes: int) -> None:
    """Reject another world size on resume: rows would come in another order."""
    trained_with = read_seal(checkpoint).processes
    if trained_with != processes:
        raise ConfigurationError(
            f"{checkpoint} was trained by {trained_with} processes, not {processes}: start the same number, "
            "or start a new training from it with --model"
        )
