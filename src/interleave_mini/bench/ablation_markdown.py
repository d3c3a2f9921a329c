"""The ablation as Markdown: tables ready to be read, with the command that made them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from interleave_mini.bench.ablation import Line, TableRow
from interleave_mini.bench.critic_exam_run import CriticResult
from interleave_mini.bench.paired import Difference
from interleave_mini.bench.rows import FULL, ROWS
from interleave_mini.bench.table import ExamResult, Table
from interleave_mini.intervals import Estimate

FILE_NAME = "ablation.md"
NOTE = (
    "Per cent, with 95 % intervals in brackets; differences are those of *strict*, paired (the same tasks, "
    "bootstrap), in points, clear ones in bold. Every row has the same tasks; rows with fewer tasks are "
    "compared over those they share, and a row with fewer attempts with itself."
)
_MAIN = {row.key for row in ROWS if not row.further}


def as_markdown(table: Table, command: str) -> str:
    """Everything, as one page."""
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
        "A failure is repaired when the critic refuses it and the picture drawn from its prompt is right; "
        "“drawn again” is the same prompt with the same new seed."
    )
    head = "| critic | accuracy | failures caught | false alarms | unreadable | tokens |"
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
    shares = (result.accuracy, result.caught, result.false_alarms, result.unreadable)
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
    """ "+2.3 (−0.4 to +4.1)", bold where the interval leaves out zero."""
    if gap is None:
        return ""
    said = f"{100 * gap.mean:+.1f} ({100 * gap.low:+.1f} to {100 * gap.high:+.1f})".replace("-", "−")
    return f"**{said}**" if gap.is_clear else said
