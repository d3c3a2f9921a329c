"""A page of failures and what a critic made of them: the first ones in order, none of them chosen."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interleave import render
from interleave.files import write_atomic
from interleave.types import Outcome
from interleave_mini.bench.critic_exam_run import CriticResult, Examiner, Judged, Redrawn

if TYPE_CHECKING:
    from PIL.Image import Image

    from interleave_mini.bench.critic_exam import Attempt

FILE_NAME = "refinements.html"
MOST_SHOWN = 40
SAID = {Outcome.ACCEPTED: "accepted", Outcome.REJECTED: "refused", Outcome.UNREADABLE: "unreadable"}


@dataclass(frozen=True)
class Shown:
    """One failure on the page."""

    number: int
    suite: str
    prompt: str
    before: str | None
    failed: str
    said: str
    reasoning: str
    refined_prompt: str
    redrawn: str | None
    repaired: bool
    again: str
    again_right: bool


def write_refinements(examiner: Examiner, result: CriticResult, out: Path) -> Path:
    """Write the page about one critic and return where it is."""
    import jinja2

    folders = [Path(__file__).parent / "templates", Path(str(render.__file__)).parent / "templates"]
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(folders), autoescape=True)
    judged, redrawn = examiner.papers[result.key]
    again = examiner.again()
    shown = [
        _shown(number, examiner, attempt, judged[attempt.id], redrawn.get(attempt.id), again[attempt.id])
        for number, attempt in enumerate(examiner.failures[:MOST_SHOWN], start=1)
    ]
    page = environment.get_template("refinements.html.j2").render(
        result=result, shown=shown, left_out=len(examiner.failures) - len(shown)
    )
    path = out / FILE_NAME
    write_atomic(path, page.encode())
    return path


def _shown(
    number: int, examiner: Examiner, attempt: Attempt, judged: Judged, redrawn: Redrawn | None, again: Redrawn
) -> Shown:
    picture, verdict = examiner.exam.picture, judged.verdict
    return Shown(
        number=number,
        suite=attempt.suite,
        prompt=attempt.prompt,
        before=_inlined(picture(attempt.before)) if attempt.before else None,
        failed=_inlined(picture(attempt.after)),
        said=SAID[verdict.outcome],
        reasoning=verdict.reasoning,
        refined_prompt=verdict.refined_prompt or "",
        redrawn=_inlined(picture(redrawn.image)) if redrawn else None,
        repaired=redrawn is not None and redrawn.right,
        again=_inlined(picture(again.image)),
        again_right=again.right,
    )


def _inlined(image: Image) -> str:
    data = io.BytesIO()
    image.save(data, "WEBP", quality=85)
    return f"data:image/webp;base64,{base64.b64encode(data.getvalue()).decode()}"
