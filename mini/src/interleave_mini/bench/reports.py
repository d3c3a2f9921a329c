"""Reports: the HTML page of a run, the HTML page of the critics' exam, the ablation as Markdown."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interleave import Outcome
from interleave.plugin import ImageStore, render, write_atomic
from interleave_mini.bench.ablation import ExamResult, Line, Table, TableRow
from interleave_mini.bench.critic_exam import Attempt
from interleave_mini.bench.critic_exam_run import CriticResult, Examiner, Judged, Redrawn
from interleave_mini.bench.runner import Answered, Result
from interleave_mini.bench.scores import Difference
from interleave_mini.bench.systems import FULL, ROWS, SYSTEMS
from interleave_mini.bench.tasks import Task
from interleave_mini.intervals import Estimate
from interleave_mini.world.drawing import draw
from interleave_mini.world.scene import Scene

if TYPE_CHECKING:
    from PIL.Image import Image

REPORT_NAME = "report.html"
MAX_TASKS_SHOWN = 60
_THUMBNAIL = 144
BY_CONSTRUCTION = (
    "On stories the low score of “base” is partly by construction: it gets no plan and writes no text. "
    "“know” and “edit” are the fair comparison."
)
REFINEMENTS_NAME = "refinements.html"
MAX_FAILURES_SHOWN = 40
OUTCOME_WORDS = {Outcome.ACCEPTED: "accepted", Outcome.REJECTED: "refused", Outcome.UNREADABLE: "unreadable"}
MARKDOWN_NAME = "ablation.md"
NOTE = (
    "Per cent, with 95 % intervals in brackets; differences are those of *strict*, paired (the same tasks, "
    "bootstrap), in points, clear ones in bold. Every row has the same tasks; rows with fewer tasks are "
    "compared over those they share, and a row with fewer attempts with itself."
)
_MAIN = {row.key for row in ROWS if not row.further}


# A run: every task with the truth beside the answer


@dataclass(frozen=True)
class ReportCell:
    """One step in the page: the true image and caption, and those of the answer."""

    truth: str | None
    truth_text: str
    answer: str | None
    answer_text: str
    attempts: int
    right: bool
    text_right: bool


@dataclass(frozen=True)
class ReportRow:
    task: Task
    shown: tuple[str, ...]
    answered: Answered
    cells: tuple[ReportCell, ...]


def write_report(result: Result, answered: Sequence[Answered], out: Path) -> Path:
    """Write the page and return its path; wrong answers come first."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True
    )
    first = sorted(answered, key=lambda each: each.score.strict)[:MAX_TASKS_SHOWN]
    page = environment.get_template("report.html.j2").render(
        result=result,
        systems=SYSTEMS,
        rows=[_row(each) for each in first],
        left_out=len(answered) - len(first),
        caution=BY_CONSTRUCTION if result.system == "base" else "",
    )
    path = out / REPORT_NAME
    write_atomic(path, page.encode())
    return path


def _row(answered: Answered) -> ReportRow:
    task = answered.task
    given = tuple(_thumbnail(draw(part)) for part in task.parts if isinstance(part, Scene))
    return ReportRow(task, given, answered, tuple(_cell(answered, place) for place in range(len(task.steps))))


def _cell(answered: Answered, place: int) -> ReportCell:
    task, record = answered.task, answered.record
    truth, score = task.steps[place], answered.score.steps[place]
    step = record.steps[place] if record and place < len(record.steps) else None
    attempt = step.attempt if step else None
    store = ImageStore(Path(answered.score.folder))
    return ReportCell(
        truth=None if task.text_only else _thumbnail(draw(truth.scene)),
        truth_text=truth.caption,
        answer=_thumbnail(store.get(attempt.image)) if attempt else None,
        answer_text=step.plan.text if step else "",
        attempts=len(step.attempts) if step else 0,
        right=score.text if score.image is None else score.image,
        text_right=score.text,
    )


# The critics' exam: the first failures in order, none of them chosen


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
    """Write the page about one critic and return its path."""
    import jinja2

    folders = [Path(__file__).parent / "templates", Path(str(render.__file__)).parent / "templates"]
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(folders), autoescape=True)
    judged, redrawn = examiner.results[result.key]
    again = examiner.again()
    shown = [
        _shown(number, examiner, attempt, judged[attempt.id], redrawn.get(attempt.id), again[attempt.id])
        for number, attempt in enumerate(examiner.failures[:MAX_FAILURES_SHOWN], start=1)
    ]
    page = environment.get_template("refinements.html.j2").render(
        result=result, shown=shown, left_out=len(examiner.failures) - len(shown)
    )
    path = out / REFINEMENTS_NAME
    write_atomic(path, page.encode())
    return path


def _shown(
    number: int, examiner: Examiner, attempt: Attempt, judged: Judged, redrawn: Redrawn | None, again: Redrawn
) -> Shown:
    image, verdict = examiner.exam.image, judged.verdict
    return Shown(
        number=number,
        suite=attempt.suite,
        prompt=attempt.prompt,
        before=_data_url(image(attempt.before)) if attempt.before else None,
        failed=_data_url(image(attempt.after)),
        said=OUTCOME_WORDS[verdict.outcome],
        reasoning=verdict.reasoning,
        refined_prompt=verdict.refined_prompt or "",
        redrawn=_data_url(image(redrawn.image)) if redrawn else None,
        repaired=redrawn is not None and redrawn.right,
        again=_data_url(image(again.image)),
        again_right=again.right,
    )


def _thumbnail(image: Image) -> str:
    return _data_url(image.resize((_THUMBNAIL, _THUMBNAIL)), quality=88)


def _data_url(image: Image, quality: int = 85) -> str:
    data = io.BytesIO()
    image.save(data, "WEBP", quality=quality)
    return f"data:image/webp;base64,{base64.b64encode(data.getvalue()).decode()}"


# The ablation as Markdown, with the command that made it


def as_markdown(table: Table, command: str) -> str:
    """The whole table as one page."""
    blocks = ["# The ablation of the miniature", f"```bash\n{command}\n```", NOTE]
    for suite in dict.fromkeys(line.suite for row in table.rows for line in row.lines):
        blocks += [f"## `{suite}`", _suite_table(table.rows, suite)]
    missing = [f"- `{row.key}`: {reason}" for row in table.rows for reason in _reasons(row)]
    if missing:
        blocks += ["## Not run", "\n".join(missing)]
    if table.exam is not None:
        blocks += _exam_blocks(table.exam)
    return "\n\n".join(blocks) + "\n"


def _suite_table(rows: Sequence[TableRow], suite: str) -> str:
    head = "| row | tasks | text | image | average | strict | to the row above | to `full` | drawn | forced |"
    lines = [head, "|---|" + "---:|" * 9]
    for row in rows:
        for line in row.lines:
            if line.suite == suite:
                lines.append(f"| {' | '.join(_cells(row, line))} |")
    return "\n".join(lines)


def _cells(row: TableRow, line: Line) -> list[str]:
    most = max(each.attempts for each in row.lines if each.suite == line.suite)
    is_whole = line.attempts == most
    above = next((key for key in line.against if key != FULL), "") if is_whole and row.key in _MAIN else ""
    full = FULL if is_whole else row.key
    name = f"`{row.key}` {row.label}" if is_whole else f"`{row.key}`, at most {line.attempts}"
    return [
        name,
        f"{line.items:,}",
        *(percent(each) for each in (line.text, line.image, line.average, line.strict)),
        points(line.against.get(above, {}).get("strict")),
        points(line.against.get(full, {}).get("strict")),
        f"{line.drawn:,}",
        f"{line.forced:,}",
    ]


def _reasons(row: TableRow) -> Iterator[str]:
    """Each reason once, with the suites it holds for."""
    for reason in dict.fromkeys(row.not_run.values()):
        suites = [suite for suite, why in row.not_run.items() if why == reason]
        yield f"{reason} ({', '.join(suites)})"


def _exam_blocks(exam: ExamResult) -> list[str]:
    by_suite = ", ".join(
        f"{wrong} of {count:,} in `{suite}`" for suite, (count, wrong) in exam.by_suite.items()
    )
    said = (
        f"{exam.attempts:,} attempts, the same for every critic; {exam.failures} are failures ({by_suite}). "
        "A failure is repaired when the critic refuses it and the image drawn from its prompt is right; "
        "“drawn again” is the same prompt with the same new seed. “Another step” is the share of right "
        "images of another step of the same task that are refused."
    )
    head = (
        "| critic | accuracy | failures caught | false alarms | another step refused | unreadable | tokens |"
    )
    verdicts = [head, "|---|" + "---:|" * 5, *(_verdict_line(each) for each in exam.critics)]
    head = "| critic | repaired | drawn again | difference | of caught: repaired | drawn again | difference |"
    repairs = [head, "|---|" + "---:|" * 6, *(_repair_line(each) for each in exam.critics)]
    missing = [f"- `{key}`: {reason}" for key, reason in exam.not_examined.items()]
    return [
        "## The exam of the critics",
        said,
        "\n".join(verdicts),
        "\n".join(repairs),
        *(["Not examined:\n\n" + "\n".join(missing)] if missing else []),
    ]


def _verdict_line(result: CriticResult) -> str:
    shares = (result.accuracy, result.caught, result.false_alarms, result.other_steps, result.unreadable)
    return f"| {' | '.join([f'`{result.key}`', *map(percent, shares), f'{result.tokens:.0f}'])} |"


def _repair_line(result: CriticResult) -> str:
    cells = [
        f"`{result.key}`",
        percent(result.repaired),
        percent(result.again),
        points(result.gain),
        percent(result.repaired_of_caught),
        percent(result.again_of_caught),
        points(result.gain_of_caught),
    ]
    return f"| {' | '.join(cells)} |"


def percent(share: Estimate | None) -> str:
    """ "93.1 (91.4–94.5)"."""
    if share is None:
        return "–"
    return f"{100 * share.mean:.1f} ({100 * share.low:.1f}–{100 * share.high:.1f})"


def points(gap: Difference | None) -> str:
    """ "+2.3 (−0.4 to +4.1)", bold where the interval excludes zero."""
    if gap is None:
        return ""
    said = f"{100 * gap.mean:+.1f} ({100 * gap.low:+.1f} to {100 * gap.high:+.1f})".replace("-", "−")
    return f"**{said}**" if gap.is_clear else said
