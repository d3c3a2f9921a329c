"""Rows that a training reads: parquet files, the rows inside, and records from other trainers."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

from PIL import Image

from fuzzing import attempt, replies, scratch, spare_text, target
from interleave.agents.strict_form import is_strict_verdict
from interleave.errors import InputError
from interleave.images import encode_png
from interleave.train.inspection import bad_rows, check_row, inspect_rows
from interleave.train.recipes import Task
from interleave.train.rewards.samples import Sample
from interleave.train.rows import RowFiles, decode_rows, read_rows
from interleave.train.trainers.shared import sample_of

IMAGE = base64.b64encode(encode_png(Image.new("RGB", (8, 8), "teal"))).decode()
SHOWN = {"bytes": {"base64": IMAGE}, "path": None}
ASKED = [
    {"role": "user", "content": [{"type": "image"}, {"type": "image"}, {"type": "text", "text": "Right?"}]}
]
CRITIC = {
    "id": "a",
    "prompt": ASKED,
    "completion": [{"role": "assistant", "content": [{"type": "text", "text": replies.VERDICTS[0]}]}],
    "images": [SHOWN, SHOWN],
}
GRPO = {
    "id": "a",
    "prompt": ASKED,
    "images": [SHOWN, SHOWN],
    "sources": [SHOWN],
    "success": False,
    "planned_prompt": "a frog",
    "used_prompt": "a green frog",
    "semantics": 3.0,
    "quality": 8.0,
}
WORDS = (
    b'"type": "image"',
    b'"text": null',
    b'"images": null',
    b'"sources": null',
    b'"content": "x"',
    b'{"path": "a.png"}',
    b'"semantics": 11',
)


def with_bytes(value: Any) -> Any:
    """JSON in which `{"base64": …}` stands for bytes."""
    if isinstance(value, dict):
        if set(value) == {"base64"} and isinstance(value["base64"], str):
            try:
                return base64.b64decode(value["base64"])
            except ValueError:
                return b""
        return {key: with_bytes(item) for key, item in value.items()}
    return [with_bytes(item) for item in value] if isinstance(value, list) else value


def row_in(data: bytes) -> dict[str, Any] | None:
    try:
        value = with_bytes(json.loads(data))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


TASKS: tuple[Task, ...] = ("critic", "grpo")


@target([json.dumps(CRITIC).encode(), json.dumps(GRPO).encode()], words=WORDS, examples=40)
def row(data: bytes) -> bool:
    """A row of any shape is fit, or what is wrong with it is said; decoding it then raises nothing new."""
    value = row_in(data)
    if value is None:
        return False
    with scratch() as folder:
        fit = [task for task in TASKS if check_row(value, task=task, folder=folder)[2] is None]
        if fit:
            columns = {name: [each] for name, each in value.items()}
            decode_rows(columns, folder=folder)
        return bool(fit)


@target([json.dumps(GRPO).encode()], words=WORDS, examples=32)
def record(data: bytes) -> bool:
    """A record as a foreign trainer hands it to our reward."""
    value = row_in(data)
    if value is None:
        return False
    with scratch() as folder:
        sample = attempt(lambda: sample_of(value, str(folder)), errors=InputError)
        if not isinstance(sample, Sample):
            return False
        assert 0 <= sample.previous.overall <= 10
        return True


def parquet(*rows: dict[str, Any]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([with_bytes(row) for row in rows]), buffer)
    return buffer.getvalue()


def read_all(data: bytes) -> bool:
    """A file of rows as a training looks through it before its first step."""
    with scratch() as folder:
        path = folder / "rows.parquet"
        path.write_bytes(data)
        files = RowFiles((path,))
        fit = False
        for task in TASKS:
            rows = attempt(lambda task=task: read_rows(files, task), errors=InputError)
            if not rows:
                continue
            found = inspect_rows(rows, task, folder=folder)
            if found.bad:
                assert str(bad_rows(rows, files, found.bad))
                continue
            for index in range(len(rows)):  # type: ignore[arg-type]
                _ = rows[index]  # type: ignore[index]
            fit = True
        return fit


@target(
    lambda: [parquet(CRITIC, CRITIC), parquet(GRPO)],
    words=(b"PAR1", b"images", b"prompt"),
    examples=16,
    weight=0.3,
)
def parquet_bytes(data: bytes) -> bool:
    return read_all(data)


@target(
    [json.dumps([CRITIC, CRITIC]).encode(), json.dumps([GRPO]).encode()], words=WORDS, examples=16, weight=0.3
)
def parquet_columns(data: bytes) -> bool:
    """A whole parquet file whose columns are of other types than ours."""
    import pyarrow

    try:
        rows = json.loads(data)
        table = parquet(*rows)
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError, pyarrow.ArrowException):
        return False  # no parquet file can hold that
    return read_all(table)


@target([text.encode() for text in replies.VERDICTS[:1]], words=replies.WORDS)
def strictness(data: bytes) -> bool:
    """What counts as the form to the letter is read by the loop as well."""
    from interleave.agents.replies import parse_verdict

    text = spare_text(data)
    if not is_strict_verdict(text):
        return False
    parse_verdict(text)
    return True
