"""Rows to learn from: found, looked through before the first step, and decoded when they are needed.

Rows are parquet files with the pictures inside (or beside them, by path). Everything that could stop a
training hours later is found here, with file, number and id of every bad row: a picture that cannot be read,
a placeholder too many, an answer that is not in the agreed form.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from interleave.agents.replies import parse_plan, parse_verdict
from interleave.errors import ConfigurationError, InputError, ReplyError
from interleave.pictures import decode_picture, read_picture
from interleave.text import count
from interleave.training.columns import refuse_odd_columns
from interleave.training.rewards.samples import Sample
from interleave.training.shared_memory_images import shared_picture

if TYPE_CHECKING:
    from PIL.Image import Image

Task = Literal["planner", "critic", "agent", "grpo"]
FILES: Mapping[str, str] = {
    "planner": "planner_sft",
    "critic": "critic_sft",
    "agent": "agent_sft",
    "grpo": "critic_rl",
}
"""The stem of each task's file in an export."""
MOST_NAMED = 5
"""How many bad rows a message names one by one."""
IN_MEMORY_BYTES = 8_000_000_000
MANY_PICTURES = 2_000
"""From so many pictures on, several processes look through them."""


@dataclass(frozen=True)
class RowFiles:
    """The parquet files of one split."""

    paths: tuple[Path, ...]

    @property
    def folder(self) -> Path:
        return self.paths[0].parent

    @cached_property
    def digest(self) -> str:
        """What the files say, in short: a training goes on only with the same rows."""
        digest = hashlib.sha256()
        for path in self.paths:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    def place(self, index: int) -> str:
        """Where a row is: its file, and its number in it."""
        import pyarrow.parquet

        for path in self.paths:
            rows = pyarrow.parquet.read_metadata(path).num_rows
            if index < rows:
                return f"{path} row {index + 1}"
            index -= rows
        raise IndexError(index)


def find_rows(data: Path, task: Task) -> tuple[RowFiles, RowFiles | None]:
    """The rows for a task, and those for validation where there are any: in an export, or one file."""
    if data.is_file():
        return RowFiles((data,)), None
    if not data.is_dir():
        raise ConfigurationError(f"the data {str(data)!r} does not exist: name an export, or a parquet file")
    folder = data if _files(data, FILES[task]) else data / "trl"
    train = _files(folder, FILES[task])
    if train is None:
        raise _no_rows(data, task)
    return train, _files(folder / "validation", FILES[task])


def _no_rows(data: Path, task: Task) -> ConfigurationError:
    """What an export holds instead of the rows that are looked for, and where those would come from."""
    names = {path.stem: folder for folder in (data / "trl", data) for path in folder.glob("*.parquet")}
    if not names:
        return ConfigurationError(
            f"{data} holds no parquet file: make rows with `interleave data export … --format trl`"
        )
    why = (
        "the selection gave no part 'rl'. Make it again with a lower --ratio or --variance "
        "(`interleave data select`), and export again"
        if task == "grpo"
        else "the export gave no such rows. Export again from runs that have them"
    )
    folder = next(iter(names.values()))
    return ConfigurationError(f"{folder} holds {', '.join(sorted(names))} and no {FILES[task]}: {why}")


def _files(folder: Path, stem: str) -> RowFiles | None:
    one = folder / f"{stem}.parquet"
    found = [one] if one.is_file() else sorted(folder.glob(f"{stem}-*.parquet"))
    return RowFiles(tuple(found)) if found else None


def read_rows(files: RowFiles, task: Task, *, limit: int | None = None, cache: Path | None = None) -> Any:
    """The rows as a `datasets.Dataset` whose pictures are decoded when a row is taken."""
    import pyarrow
    import pyarrow.parquet
    from datasets import Dataset
    from datasets.fingerprint import generate_random_fingerprint

    try:
        if cache is not None and sum(path.stat().st_size for path in files.paths) > IN_MEMORY_BYTES:
            rows = Dataset.from_parquet([str(path) for path in files.paths], cache_dir=str(cache))
            table = rows.data.table
        else:
            tables = [pyarrow.parquet.read_table(path, memory_map=True) for path in files.paths]
            table = pyarrow.concat_tables(tables)
        table.validate(full=True)  # a text that is not UTF-8 would end the training that comes to it
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{files.paths[0]} cannot be read as parquet ({_first_line(error)})") from None
    refuse_odd_columns(table.schema, files.paths[0], task)
    if table.num_rows == 0:
        raise InputError(f"{files.paths[0]} has no rows")
    if limit is not None:
        table = table.slice(0, limit)
    # Pictures as bytes: `pictures.py` is the only door. Without a fingerprint, every one would be hashed.
    rows = Dataset(table.replace_schema_metadata(None), fingerprint=generate_random_fingerprint())
    rows.set_transform(partial(decode_rows, folder=files.folder))
    return rows


def decode_rows(columns: dict[str, list[Any]], *, folder: Path) -> dict[str, list[Any]]:
    """Columns of rows with their pictures decoded and their messages without empty fields."""
    decoded = dict(columns)
    for name in ("images", "sources"):
        if name in columns:
            decoded[name] = [[as_picture(each, folder) for each in row or ()] for row in columns[name]]
    for name in ("prompt", "completion"):
        if name in columns:
            decoded[name] = [[_lean(message) for message in row] for row in columns[name]]
    return decoded


def as_picture(stored: Mapping[str, Any] | None, folder: Path) -> Image:
    """A picture of a row, from its bytes or from the file it names."""
    if stored is None:
        raise InputError("a picture is null")
    data, path = stored.get("bytes"), stored.get("path")
    if data is not None:
        return shared_picture(data, partial(decode_picture, data, name=path or "a picture"))
    if path:
        file = folder / path
        return shared_picture(str(file).encode(), partial(read_picture, file))
    raise InputError("a picture has neither bytes nor a path")


def _lean(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message without the fields that Arrow filled with null."""
    parts = [{key: value for key, value in part.items() if value is not None} for part in message["content"]]
    return {"role": message["role"], "content": parts}


@dataclass(frozen=True)
class Inspection:
    """What was found in the rows before training."""

    rows: int
    pictures: int
    duplicates: int
    """Rows whose question is that of an earlier row: the same words, the same pictures."""
    leaked: int = 0
    """Validation rows whose question is also trained on."""
    bad: Mapping[int, str] = field(default_factory=dict)
    """What is wrong with rows that cannot be used, by their place."""
    bad_validation: Mapping[int, str] = field(default_factory=dict)


def inspect_rows(
    rows: Any, task: Task, *, folder: Path, validation: Any = None, workers: int = 0
) -> Inspection:
    """Look at every row."""
    seen, pictures, bad = _inspect(rows, task, folder, workers)
    questions = Counter(seen)
    leaked, bad_validation = 0, dict[int, str]()
    if validation is not None:
        held_out, _, bad_validation = _inspect(validation, task, folder / "validation", workers)
        leaked = sum(question in questions for question in held_out)
    return Inspection(len(seen), pictures, len(seen) - len(questions), leaked, bad, bad_validation)


def _inspect(rows: Any, task: Task, folder: Path, workers: int) -> tuple[list[bytes], int, dict[int, str]]:
    raw = rows.with_format(None)
    questions: list[bytes] = []
    bad: dict[int, str] = {}
    pictures = 0
    many = len(raw) * 2 >= MANY_PICTURES and workers > 1
    with ProcessPoolExecutor(workers) if many else nullcontext() as pool:
        for index, (question, there, problem) in enumerate(_looked_at(raw, task, folder, pool)):
            if problem:
                bad[index] = problem
                continue
            questions.append(question)
            pictures += there
    return questions, pictures, bad


def bad_rows(rows: Any, files: RowFiles, bad: Mapping[int, str]) -> InputError:
    """The complaint that names them: file, number and id of the first few, and how many there are."""
    named = [
        f"{files.place(index)} ({rows.with_format(None)[index].get('id')!r}): {bad[index]}"
        for index in sorted(bad)[:MOST_NAMED]
    ]
    more = f"; and {len(bad) - len(named):,} more" if len(bad) > len(named) else ""
    return InputError(
        f"{len(bad):,} of {count(len(rows), 'row')} cannot be used: {'; '.join(named)}{more}. "
        "Mend the export, or leave such rows out with --skip-bad"
    )


def _looked_at(
    rows: Any, task: Task, folder: Path, pool: Executor | None
) -> Iterator[tuple[bytes, int, str | None]]:
    look = partial(look_at, task=task, folder=folder)
    yield from pool.map(look, rows, chunksize=64) if pool else map(look, rows)


def look_at(row: Mapping[str, Any], *, task: Task, folder: Path) -> tuple[bytes, int, str | None]:
    """A row's question as a digest, its number of pictures, and what is wrong with it, if anything."""
    question = hashlib.sha256()
    try:
        stored = row["images"] or []
        for each in [*stored, *(row.get("sources") or [])]:
            question.update(as_picture(each, folder).tobytes())
        slots = [part for message in row["prompt"] for part in message["content"] if part["type"] == "image"]
        if len(slots) != len(stored):
            raise InputError(f"it has {len(stored)} pictures for {len(slots)} places in its prompt")
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
    """An answer that the loop could not read is not worth learning."""
    text = "".join(part.get("text") or "" for message in completion for part in message["content"])
    readers = {"planner": (parse_plan,), "critic": (parse_verdict,)}.get(task, (parse_plan, parse_verdict))
    problem = ""
    for read in readers:
        try:
            read(text)
            return
        except ReplyError as error:
            problem = error.problem
    raise InputError(f"its answer is not in the agreed form ({problem})")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
