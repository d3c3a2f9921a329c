"""The paper's tables with our numbers beside the printed ones, and the rows without a measurement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from interleave import ConfigurationError
from interleave.bench.paper.rows import Paper, PaperTable, Row, paper
from interleave.bench.published import PublishedRow, differences_from_published
from interleave.bench.scoring import Measured
from interleave.bench.stages import SCORES, Scored, read_scored
from interleave.bench.table import find_benchmark
from interleave.bench.views import as_published, bounds_of, in_digits
from interleave.plugin import Value

PAGE_NAME = "paper.md"
NEEDS = "Needs: a GPU, the data of the benchmark, and API keys, as the rows say."


class Cell(Value):
    """A number of a row: as printed, and ours with its interval."""

    name: str
    printed: float | None
    ours: Measured | None
    digits: int


class MeasuredRow(Value):
    """A row of the paper with what we measured for it."""

    id: str
    table: str
    system: str
    cells: tuple[Cell, ...]
    folder: str = ""
    """The folder of our scores; empty if the row is missing."""
    judge: str = ""
    prompts: str = ""
    differences: tuple[str, ...] = ()
    """Why ours is not comparable with the printed number."""
    commands: tuple[str, ...]
    needs: str


class PaperReport(Value):
    """All rows of the paper."""

    source: str
    rows: tuple[MeasuredRow, ...]

    @property
    def missing(self) -> list[MeasuredRow]:
        return [row for row in self.rows if not row.folder]


def paper_report(places: Sequence[Path]) -> PaperReport:
    """Find the rows' folders in these places, by name, and set our numbers beside the printed ones."""
    folders: dict[str, Path] = {}
    for folder in (each for place in places for each in _folders(place)):
        folders.setdefault(folder.name, folder)
    whole = paper()
    if places and not folders.keys() & {row.of or row.id for table in whole.tables for row in table.rows}:
        raise ConfigurationError(
            f"no scores of a row of the paper in {', '.join(map(str, places))}: a folder has its row's name"
        )
    rows = tuple(_measured(table, row, folders) for table in whole.tables for row in table.rows)
    return PaperReport(source=whole.source, rows=rows)


def _folders(place: Path) -> list[Path]:
    """Return the folders with scores: this one, or those in it."""
    if not place.is_dir():
        raise ConfigurationError(f"{place} is not a folder")
    place = place.resolve()
    return [folder for folder in (place, *sorted(place.iterdir())) if (folder / SCORES).is_dir()]


def _measured(table: PaperTable, row: Row, folders: Mapping[str, Path]) -> MeasuredRow:
    printed = table.printed(row)
    folder = folders.get(row.of or row.id)
    scored = _scored_of(folder, table, row) if folder is not None else None
    base = MeasuredRow(
        id=row.id,
        table=table.id,
        system=row.system,
        cells=tuple(_cells(table, printed, scored)),
        commands=table.commands(row),
        needs=table.needs(row),
    )
    if scored is None:
        return base
    found = {
        "folder": str(folder),
        "judge": scored.judge,
        "prompts": scored.prompts,
        "differences": tuple(_differences(table, scored)),
    }
    return base.model_copy(update=found)


def _differences(table: PaperTable, scored: Scored) -> Iterator[str]:
    yield from differences_from_published(find_benchmark(table.benchmark), scored)
    size = paper().benchmarks[table.benchmark]
    if size.is_stated and scored.outcome.items != size.items:
        yield f"{scored.outcome.items:,} items, not the benchmark's {size.items:,}"


def _scored_of(folder: Path, table: PaperTable, row: Row) -> Scored | None:
    """Return the newest scores of a row's outputs; most attempts unless the row names a limit."""
    found = read_scored(folder)
    if other := {each.description.benchmark for each in found} - {table.benchmark}:
        raise ConfigurationError(
            f"{folder} holds {other.pop()}, but the row {row.id} is on {table.benchmark}"
        )
    if row.attempts is not None:
        found = [each for each in found if each.outputs == f"attempts-{row.attempts}"]
    return max(found, key=lambda each: _attempts(each), default=None)


def _attempts(scored: Scored) -> int:
    return int("0" + "".join(filter(str.isdigit, scored.outputs)))


def _cells(table: PaperTable, printed: PublishedRow, scored: Scored | None) -> Iterable[Cell]:
    benchmark = find_benchmark(table.benchmark)
    ours: dict[str, Measured] = {}
    digits = {number.name: number.digits for number in benchmark.numbers()}
    headline = next(iter(digits.values()))
    if scored is not None:
        ours = {name: numbers[0] for name, numbers in scored.outcome.by_group.items()}
        ours |= {number.name: number for number in scored.outcome.numbers}
    values = {**printed.groups, **{name: printed.numbers.get(name) for name in table.numbers}}
    for name, value in values.items():
        yield Cell(name=name, printed=value, ours=ours.get(name), digits=digits.get(name, headline))


# as Markdown


def as_markdown(report: PaperReport) -> str:
    """Return the tables: printed number, ours below it with its interval, and the missing rows' commands."""
    lines = [f"# The tables of {report.source}, and ours", ""]
    for table in paper().tables:
        rows = [row for row in report.rows if row.table == table.id]
        names = list(dict.fromkeys(cell.name for row in rows for cell in row.cells))
        lines += [f"## {table.id}: {table.title}", "", _line(["system", *names])]
        lines.append(_line(["---", *["--:"] * len(names)]))
        for row in rows:
            cells = {cell.name: cell for cell in row.cells}
            lines.append(_line([row.system, *(_printed(cells.get(name)) for name in names)]))
            if row.folder:
                lines.append(_line([f"ours, `{row.id}`", *(_ours(cells.get(name)) for name in names)]))
        notes = [f"- `{row.id}`: {said}" for row in rows for said in row.differences]
        lines += ["", *notes, *([""] if notes else [])]
    if report.missing:
        lines += [f"## Missing: {len(report.missing)} of {len(report.rows)} rows", ""]
        lines += [f"- {table_row(row)}" for row in report.missing]
    return "\n".join(lines).rstrip() + "\n"


def table_row(row: MeasuredRow) -> str:
    return f"{row.table}, {row.system}: " + ", then ".join(f"`{each}`" for each in row.commands)


def _printed(cell: Cell | None) -> str:
    return "" if cell is None else as_published(cell.printed, cell.digits)


def _ours(cell: Cell | None) -> str:
    if cell is None or cell.ours is None:
        return "–"
    return f"**{in_digits(cell.ours.value, cell.digits)}** ({bounds_of(cell.ours)})"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _repositories(whole: Paper) -> list[str]:
    return sorted({size.repository for size in whole.benchmarks.values()})


def commands_as_markdown(whole: Paper) -> str:
    """Return every row and figure with its command, cost and needs: the table of the page."""
    lines = [NEEDS, "", "```bash"]
    lines += [f"git clone {each} checkouts/{each.rsplit('/', 1)[-1]}" for each in _repositories(whole)]
    lines += ["```", ""]
    for table in whole.tables:
        size = whole.benchmarks[table.benchmark]
        lines += [
            f"### {table.id}: {table.title}",
            "",
            f"`{table.benchmark}`, {size.items:,} items, judge {find_benchmark(table.benchmark).judge.name}: "
            f"{size.questions:,} questions, about ${size.usd:,.0f} a row; {size.gpu_hours:g} GPU hours with "
            "klein.",
            "",
            _line(["row", "printed", "needs"]),
            _line(["---", "--:", "---"]),
        ]
        for row in table.rows:
            printed = table.printed(row).numbers
            said = ", ".join(f"{printed[name]:g}" for name in table.numbers if name in printed)
            lines.append(_line([f"{row.system} (`{row.id}`)", said, table.needs(row)]))
        lines += ["", NEEDS, "", "```bash"]
        for row in table.rows:
            lines += [*row.before, *table.commands(row)]
        lines += ["```", ""]
    lines += ["### Figures", "", _line(["figure", "shows"]), _line(["---"] * 2)]
    lines += [_line([each.id, each.shows]) for each in whole.figures]
    lines += ["", NEEDS, "", "```bash", *(each.command for each in whole.figures), "```"]
    return "\n".join(lines) + "\n"
