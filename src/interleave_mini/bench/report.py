"""A page to look at: the scores, and every task with what was right beside what came out."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interleave.runs.store import PictureStore, write_whole
from interleave_mini.bench.runner import Answered, Result
from interleave_mini.bench.systems import SYSTEMS
from interleave_mini.language.tasks import Task
from interleave_mini.world import Scene, draw

if TYPE_CHECKING:
    from PIL.Image import Image

REPORT_NAME = "report.html"
MOST_SHOWN = 60
_THUMBNAIL = 144
BY_CONSTRUCTION = (
    "On stories the low score of “base” is partly by construction: it gets no plan and writes no text. "
    "“know” and “edit” are the fair comparison."
)


@dataclass(frozen=True)
class Cell:
    """One step in the page: the true picture and caption, and those of the answer."""

    truth: str | None
    truth_text: str
    answer: str | None
    answer_text: str
    attempts: int
    right: bool
    text_right: bool


@dataclass(frozen=True)
class Row:
    task: Task
    shown: tuple[str, ...]
    answered: Answered
    cells: tuple[Cell, ...]


def write_report(result: Result, answered: Sequence[Answered], out: Path) -> Path:
    """Write the page and return where it is; tasks that went wrong come first."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True
    )
    first = sorted(answered, key=lambda each: each.score.strict)[:MOST_SHOWN]
    page = environment.get_template("report.html.j2").render(
        result=result,
        systems=SYSTEMS,
        rows=[_row(each) for each in first],
        left_out=len(answered) - len(first),
        caution=BY_CONSTRUCTION if result.system == "base" else "",
    )
    path = out / REPORT_NAME
    write_whole(path, page.encode())
    return path


def _row(answered: Answered) -> Row:
    task = answered.task
    given = tuple(_picture(draw(part)) for part in task.parts if isinstance(part, Scene))
    return Row(task, given, answered, tuple(_cell(answered, place) for place in range(len(task.steps))))


def _cell(answered: Answered, place: int) -> Cell:
    task, record = answered.task, answered.record
    truth, score = task.steps[place], answered.score.steps[place]
    step = record.steps[place] if record and place < len(record.steps) else None
    attempt = step.attempt if step else None
    store = PictureStore(Path(answered.score.folder))
    return Cell(
        truth=None if task.text_only else _picture(draw(truth.scene)),
        truth_text=truth.caption,
        answer=_picture(store.get(attempt.image)) if attempt else None,
        answer_text=step.plan.text if step else "",
        attempts=len(step.attempts) if step else 0,
        right=score.text if score.image is None else score.image,
        text_right=score.text,
    )


def _picture(image: Image) -> str:
    small = image.resize((_THUMBNAIL, _THUMBNAIL))
    data = io.BytesIO()
    small.save(data, "WEBP", quality=88)
    return f"data:image/webp;base64,{base64.b64encode(data.getvalue()).decode()}"
