"""A system's outputs on the items of a benchmark: `outputs/NAME.jsonl`, one line per item."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Literal

from PIL.Image import Image
from pydantic import ValidationError

from interleave import InputError, RunRecord, read_image
from interleave.bench.datasets import digest_of
from interleave.plugin import Value, files, write_atomic

FOLDER = "outputs"
MAX_FILE_BYTES = 4_000_000_000
MAX_LINE_BYTES = 16_000_000


class OutputPart(Value):
    """A text, or an image by its path below the benchmark's folder."""

    text: str | None = None
    image: str | None = None
    digest: str = ""
    """Digest of the image file, if its name is not one."""


class Output(Value):
    """The answer to one item."""

    item: str
    status: Literal["done", "short", "failed"] = "done"
    reason: str = ""
    parts: tuple[OutputPart, ...] = ()
    run: str = ""
    """The run folder, if the output was made here."""

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(part.text for part in self.parts if part.text is not None)

    @property
    def images(self) -> tuple[str, ...]:
        return tuple(part.image for part in self.parts if part.image is not None)

    @cached_property
    def digest(self) -> str:
        """Digest of the judged content: texts verbatim, images by digest (in runs, their names)."""
        shown = [
            part.text if part.image is None else ["image", part.digest or Path(part.image).name]
            for part in self.parts
        ]
        return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]

    def load_images(self, base: Path) -> list[Image]:
        return [read_image(base / name) for name in self.images]


def output_of(item: str, record: RunRecord, run: str) -> Output:
    """Convert a run's document: the text and the shown image of every step."""
    parts: list[OutputPart] = []
    for step in record.steps:
        if step.plan.text:
            parts.append(OutputPart(text=step.plan.text))
        if step.attempt is not None:
            parts.append(OutputPart(image=f"{run}/images/{step.attempt.image}"))
    status = record.status if record.status in ("done", "short") else "failed"
    return Output(item=item, status=status, reason=record.reason, parts=tuple(parts), run=run)


def with_digests(output: Output, base: Path) -> Output:
    """Add image digests to another program's output, whose images may change under the same name."""
    parts = tuple(
        part if part.image is None else part.model_copy(update={"digest": digest_of([base / part.image])})
        for part in output.parts
    )
    return output.model_copy(update={"parts": parts})


def write_outputs(path: Path, outputs: Iterable[Output]) -> None:
    lines = "".join(f"{output.model_dump_json(exclude_defaults=True)}\n" for output in outputs)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, lines.encode())


def read_outputs(path: Path) -> dict[str, Output]:
    """Read the outputs by item. Raises `InputError` naming the malformed line."""
    found: dict[str, Output] = {}
    try:
        for number, _, line in files.read_lines(
            path, most_bytes=MAX_FILE_BYTES, most_in_a_line=MAX_LINE_BYTES
        ):
            try:
                output = Output.model_validate_json(line)
            except ValidationError as error:
                raise InputError(f"{path}:{number} is not an output ({error.errors()[0]['msg']})") from None
            found[output.item] = output
    except OSError as error:
        raise InputError(f"cannot read {path} ({files.why(error)})") from None
    return found
