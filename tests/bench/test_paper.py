"""Every row of the paper's tables, from its command to a scored table.

Models and judges are stand-ins. Commands, stages, formats and formulas are those of a full run. A judge that
errs on purpose changes each row.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import test_comm
import test_rise
import test_ueval
import test_wise
from judge_server import JudgeServer, judge_server

from interleave.bench.paper.report import as_markdown, commands_as_markdown, paper_report
from interleave.bench.paper.rows import PaperTable, Row, paper
from interleave.bench.run import System, fewer_attempts
from interleave.bench.table import find_benchmark
from interleave.cli.main import run
from interleave.config.specs import parse_spec
from interleave.errors import ConfigurationError
from interleave.remote.prices import TOKENS, typical_price

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "reproduce-the-paper.md"
ROWS = [(table, row) for table in paper().tables for row in table.rows]
QUICK = (
    "ueval-klein",
    "ueval-nano-banana-pro",
    "ablation-3-attempts",
    "comm-continue-emu2",
    "wise-qwen-base",
    "rise-klein",
)
ROLES = ("planner", "critic", "generator")
FAKES = {"planner": "scripted", "critic": "scripted", "generator": "solid?size=64"}


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals have tests of their own."""
    monkeypatch.setattr("interleave.bench.statistics.RESAMPLES", 20)


# data and judges


def ueval_data(folder: Path) -> Path:
    rows = [
        {
            "id": number,
            "task": task,
            "prompt": f"How does a {task} work, in two pictures?",
            "image_rubrics": ["It shows a thing"],
            "text_rubrics": ["It names a thing"],
        }
        for number, task in enumerate(test_ueval.TASKS)
    ]
    folder.mkdir()
    (folder / "test.json").write_text(json.dumps(rows))
    return folder


DATA: dict[str, Callable[[Path], Path]] = {
    "ueval": ueval_data,
    "comm-continue": lambda folder: test_comm.data(folder, test_comm.row("a", 4), test_comm.row("b", 4)),
    "comm-document": lambda folder: test_comm.data(folder, test_comm.row("a", 3), test_comm.row("b", 2)),
    "wise": lambda folder: test_wise.write_data(folder, test_wise.VERSIONS[0]),
    "rise": lambda folder: test_rise.write_data(folder, test_rise.ROWS),
}


def reply(benchmark: str, text: str, *, right: bool) -> str:
    """What a judge of this benchmark says: the best of everything, or the worst."""
    if benchmark == "ueval":
        return json.dumps({"criteria_met": right})
    if benchmark == "wise":
        mark = 2 if right else 0
        return f"Consistency: {mark}\nRealism: {mark}\nAesthetic Quality: {mark}"
    if benchmark == "rise":
        best, worst = ("1", "0") if "0 or 1" in text else ("5", "1")
        return f"Final Score: {best if right else worst}"
    mark = 9 if right else 1
    if "Descriptions" in text:
        asked, answered = (re.findall(r"</Img_(\d+)>", half) for half in text.rsplit("OUTPUT:", 1))
        return json.dumps(test_comm.descriptions(len(asked), len(answered)))
    if "Description_0" in text:
        return json.dumps(test_comm.fidelity(mark))
    return json.dumps(test_comm.marks(mark, mark, mark, mark, mark))


@contextmanager
def judge_of(benchmark: str, *, right: bool) -> Iterator[JudgeServer]:
    with judge_server(lambda text, _: reply(benchmark, text, right=right)) as judge:
        yield judge


# commands, with other models


Stand = Callable[[str, str], str]
"""The stand-in for a model in a role."""


def tried(command: str, data: Path, judge: JudgeServer, stand: Stand) -> list[str]:
    """The command of a row with our data, judge and models; all else as it is on the page."""
    words = shlex.split(command)[1:]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    assert given.pop("--judge-prompts").startswith("checkouts/")
    choices = {role: given.pop(f"--{role}", None) for role in (*ROLES, "profile")}
    if words[1] == "run" and "--import" not in given:
        system = System(given.get("--system", "full"), {k: v for k, v in choices.items() if v})
        config = system.config()
        for role in ROLES if system.name != "native" else ("planner",):
            spec = getattr(config, role).spec
            given[f"--{role}"] = spec if spec == "none" else stand(role, spec)
    given |= {"--data": str(data), "--judge": judge.spec.replace("judge@", f"{judge_word(judge)}@")}
    return [*words[:3], *(part for pair in given.items() for part in pair), "--json"]


def judge_word(judge: JudgeServer) -> str:
    return f"judge{judge.url.rsplit(':', 1)[-1]}"


def fake(role: str, spec: str) -> str:
    return "solid-document?size=64" if spec.startswith("document:") else FAKES[role]


def answers(table: PaperTable, row: Row, data: Path) -> None:
    """Write answers of another system where the row's command finds them, in the official layout."""
    made = ["--data", str(data), "--out", "elsewhere", *(f"--{role}={FAKES[role]}" for role in ROLES)]
    with judge_of(table.benchmark, right=True) as judge:
        assert run(["bench", "generate", table.benchmark, *made, "--judge", judge.spec]) == 0
        assert run(["bench", "export", table.benchmark, *made]) == 0
    official = next(Path("elsewhere/official").iterdir())
    target = Path(row.outputs)
    target.parent.mkdir(parents=True, exist_ok=True)
    if row.outputs.endswith(".json"):
        rows = json.loads((official / "outputs.json").read_text())
        for each in rows:
            each["image_answer"] = [str((official / name).resolve()) for name in each["image_answer"]]
        target.write_text(json.dumps(rows))
    else:
        official.rename(target)


def headline(printed: str) -> float:
    value: float = json.loads(printed.splitlines()[-1])["outcome"]["numbers"][0]["value"]
    return value


def check(table: PaperTable, row: Row, stand: Stand, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a row by a wrong judge and a right one: other numbers, and the right ones in the paper's table."""
    data = DATA[table.benchmark](Path("data").absolute())
    if row.outputs:
        answers(table, row, data)
    commands = list(table.commands(row))
    if row.of:  # the run that this row is a part of
        whole = next(each for each in (row for _, row in ROWS) if each.id == row.of)
        commands = [*table.commands(whole), *commands]
    numbers = []
    for right in (False, True):
        with judge_of(table.benchmark, right=right) as judge:
            for command in commands:
                capsys.readouterr()
                assert run(tried(command, data, judge, stand)) == 0, command
            numbers.append(headline(capsys.readouterr().out))
            assert judge.questions
    assert numbers[0] < numbers[1]
    found = {each.id: each for each in paper_report([Path("work/paper")]).rows}
    cells = {cell.name: cell for cell in found[row.id].cells}
    assert found[row.id].folder
    said = " ".join(found[row.id].differences)
    assert "not comparable" in said  # another judge
    assert (" items, not the benchmark's" in said) is not table.benchmark.startswith("comm")  # and few items
    ours = [cells[name].ours for name in table.numbers]
    assert all(each is not None and each.value is not None for each in ours)
    first = find_benchmark(table.benchmark).numbers()[0].name
    if first in cells and (mine := cells[first].ours) is not None:
        assert mine.value == numbers[1]


def rows(names: tuple[str, ...] | None = None) -> Any:
    chosen = [(table, row) for table, row in ROWS if names is None or row.id in names]
    return pytest.mark.parametrize(("table", "row"), chosen, ids=[row.id for _, row in chosen])


@rows(QUICK)
def test_a_row_comes_to_a_table_and_a_wrong_judge_changes_it(
    table: PaperTable,
    row: Row,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    check(table, row, fake, capsys)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Stand:
    """Tiny models of the classes of local specs, each built once; fakes for the others."""
    pytest.importorskip("diffusers")
    from interleave.local.tiny.specs import tiny_generator, tiny_vlm

    @cache
    def stand(role: str, spec: str) -> str:
        parsed = parse_spec(spec)
        folder = tmp_path_factory.mktemp(role)
        if parsed.name == "transformers":
            return str(tiny_vlm(parsed, role, folder))
        if parsed.name != "diffusers":
            return fake(role, spec)
        made = tiny_generator(parsed, role, folder)
        return str(replace(made, options={**made.options, "steps": "1"}))

    return stand


SMALLEST = ("comm-continue", "comm-document", "wise", "rise", "ueval")
"""The benchmarks by the number of images that their data here asks for."""
WITH_TINY = {
    row.options: row.id
    for table, row in sorted(ROWS, key=lambda pair: -SMALLEST.index(pair[0].benchmark))
    if row.options
}
"""One row for each choice of models, on the smallest benchmark that has it."""


@pytest.mark.slow
@rows()
def test_every_row_and_every_choice_of_models_with_tiny_ones_of_their_classes(
    table: PaperTable,
    row: Row,
    tiny: Stand,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("GEMINI_API_KEY", "none")
    check(table, row, tiny if row.id in WITH_TINY.values() else fake, capsys)


# the file, the report, the page


def test_every_row_has_a_printed_number_and_a_name_of_its_own() -> None:
    names = [row.id for _, row in ROWS]
    assert len(set(names)) == len(names) == 64
    for table, row in ROWS:
        known = {number.name for number in find_benchmark(table.benchmark).numbers()}
        assert set(table.numbers) <= known
        assert any(name in table.printed(row).numbers for name in table.numbers)
        assert not row.of or row.of in names
        assert bool(row.options) + bool(row.outputs) + bool(row.of) == 1


def test_the_cost_of_a_row_is_that_of_its_questions() -> None:
    for name, size in paper().benchmarks.items():
        judge = find_benchmark(name).judge.name.removesuffix("-2024-05-13").removesuffix("-2025-04-14")
        price = typical_price(TOKENS[judge])
        assert price is not None and size.usd == pytest.approx(price * size.questions, rel=0.05, abs=0.5)


def test_without_a_folder_the_commands_are_printed_which_the_page_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["bench", "report", "--paper"]) == 0
    printed = capsys.readouterr().out
    assert printed == commands_as_markdown(paper())
    page = PAGE.read_text("utf-8")
    assert printed in page, "paste the output of `interleave bench report --paper` into the page"


def test_what_is_missing_is_listed_with_its_command(tmp_path: Path) -> None:
    report = paper_report([])
    assert len(report.missing) == len(ROWS)
    text = as_markdown(report)
    assert "Missing: 64 of 64 rows" in text
    assert "interleave bench run wise --system base --profile klein" in text


def test_folders_of_something_else_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["bench", "report", "--paper", "nowhere"]) == 2
    assert "nowhere is not a folder" in capsys.readouterr().err
    Path("mine").mkdir()
    with pytest.raises(ConfigurationError, match="a folder has its row's name"):
        paper_report([Path("mine")])
    assert run(["bench", "report"]) == 2
    assert "name one benchmark" in capsys.readouterr().err


# native systems


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"planner": "scripted"}, "needs a native system"),
        ({}, "needs a native system"),
        ({"planner": "solid-document", "critic": "scripted"}, "has no critic"),
        ({"planner": "solid-document", "profile": "klein"}, "has no profile"),
    ],
)
def test_a_native_system_is_measured_alone(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        System("native", options).config()


def test_a_repaired_native_system_is_not_measured_again_with_fewer_attempts() -> None:
    repaired = System("full", {"planner": "solid-document", "critic": "scripted", "generator": "solid"})
    assert fewer_attempts(repaired, 5) == ()
    assert fewer_attempts(System("full", {"profile": "dry-run"}), 5) == (3, 1)
