"""The page of a collection: it tells what is there, loads nothing, and shows hostile text as text."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean
from xml.etree import ElementTree

import pytest
from run_folders import REFUSED, Try, write_run

from interleave.cli.main import run
from interleave.render.svg_charts import Series, bars, lines, nice_top, ranking
from interleave.train.data.report.counts import Distribution
from interleave.train.data.score_file import read_scores
from interleave.train.data.select.selection import read_selection
from interleave.train.data.trajectories import read_collection


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small collection, scored and selected."""
    folder = tmp_path_factory.mktemp("report")
    corpus, collection = folder / "requests.jsonl", folder / "collection"
    assert run(["data", "prompts", "--source", "world", "--items", "10", "--out", str(corpus)]) == 0
    makers = ["--planner", "scripted", "--critic", "scripted", "--generator", "solid"]
    assert run(["data", "collect", str(corpus), "--out", str(collection), *makers]) == 0
    assert run(["data", "score", str(collection), "--scorer", "scripted"]) == 0
    _make_scores_differ(collection / "scores" / "scripted.jsonl")
    assert run(["data", "select", str(collection), "--out", str(folder / "selection"), "--workers", "1"]) == 0
    return folder


def _make_scores_differ(path: Path) -> None:
    """The double always gives the same marks; with others there is something to select and to draw."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for place, row in enumerate(rows):
        row["semantics"] = 2.0 + (place * 7 + row["attempt"]) % 8
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def page(made: Path) -> str:
    out = made / "report.html"
    options = ["--selection", str(made / "selection"), "--requests", str(made / "requests.jsonl")]
    assert run(["data", "report", str(made / "collection"), *options, "--out", str(out), "--shown", "4"]) == 0
    return out.read_text("utf-8")


class Tags(HTMLParser):
    """Every tag of a page with its attributes, and the text between."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_has_every_chart(page: str) -> None:
    titles = re.findall(r"<h3>([^<]+)</h3><svg", page)
    assert titles == [
        "Scores by attempt",
        "Judgements by attempt",
        "Steps per plan",
        "Attempts per step",
        "Selection",
        "Reasons for dropping",
        "Coverage by domain",
        "Coverage by sub-category",
    ]
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(svg)


def test_the_page_loads_nothing_and_runs_nothing(page: str) -> None:
    tags = Tags(page).tags
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in tags}
    for _, attributes in tags:
        assert not any(name.startswith("on") for name in attributes)
        assert str(attributes.get("src") or "data:").startswith("data:image/webp;base64,"[:5])
        assert str(attributes.get("href") or "#").startswith("#")


def test_the_numbers_are_those_of_the_files(made: Path, page: str) -> None:
    trajectories = list(read_collection(made / "collection"))
    attempts = [each for trajectory in trajectories for each in trajectory.attempts()]
    words = " ".join(" ".join(Tags(page).words).split())
    assert f"{len(trajectories)} runs (10 done)" in words
    assert f"{len(attempts)} attempts" in words
    forced = sum(step.forced for trajectory in trajectories for step in trajectory.record.steps)
    assert f"{forced} steps never accepted" in words
    assert f"{len(read_scores(made / 'collection'))} attempts scored by scripted" in words
    selected = list(read_selection(made / "selection"))
    rows = {part: sum(line.copies for line in selected if line.part == part) for part in ("sft", "rl")}
    assert f"{rows['sft']} / {rows['rl']} critic rows" in words
    first = [attempt for _, attempt in attempts if attempt.number == 1]
    accepted = sum(bool(attempt.verdict and attempt.verdict.accepted) for attempt in first)
    assert f"<title>1: {accepted} accepted</title>" in page
    for part in ("sft", "rl", "dropped"):
        number = sum(line.part == part for line in selected)
        assert f"<title>{part}: attempts: {number}</title>" in page


def test_an_entry_of_the_list_stays_in_one_column_with_its_number(page: str) -> None:
    rules = dict(re.findall(r"^(nav \w+) \{ ([^}]+) \}", page, re.MULTILINE))
    assert "columns" in rules["nav ol"] and "padding: 0" in rules["nav ol"]
    assert "break-inside: avoid" in rules["nav li"]
    assert re.search(r"margin: 0 0 \S+ 2\.4rem", rules["nav li"])  # room for the number in every column


def test_the_coverage_adds_up(made: Path, page: str) -> None:
    corpus = [json.loads(line) for line in (made / "requests.jsonl").read_text().splitlines()]
    for domain in {row["domain"] for row in corpus}:
        number = sum(row["domain"] == domain for row in corpus)
        assert f"<title>{domain}: {number} of {number}</title>" in page
    assert "unknown" not in page


def test_the_sample_is_shown_with_every_attempt_and_the_same_seed_shows_the_same(
    made: Path, page: str
) -> None:
    shown = re.findall(r'<span class="tag">(runs/[^<]+)</span>', page)
    assert len(shown) == 4
    by_name = {trajectory.name: trajectory for trajectory in read_collection(made / "collection")}
    attempts = sum(len(list(by_name[name].attempts())) for name in shown)
    assert len(re.findall(r'alt="attempt \d+ of step', page)) == attempts
    again, other = made / "again.html", made / "other.html"
    base = ["data", "report", str(made / "collection"), "--shown", "4"]
    assert run([*base, "--out", str(again)]) == 0
    assert run([*base, "--out", str(other), "--seed", "1"]) == 0
    assert re.findall(r'<span class="tag">(runs/[^<]+)</span>', again.read_text()) == shown
    assert re.findall(r'<span class="tag">(runs/[^<]+)</span>', other.read_text()) != shown


def test_hostile_text_is_shown_as_text_and_a_missing_image_is_said(tmp_path: Path) -> None:
    evil = "Draw <script>alert(1)</script> & \u202e\"quotes'"
    (tmp_path / "r.jsonl").write_text(
        json.dumps({"id": "x", "request": evil, "domain": "<b>bold</b>", "subcategory": "a & b"}) + "\n"
    )
    doubles = ["--planner", "scripted", "--critic", "scripted", "--generator", "solid"]
    assert run(["data", "collect", "r.jsonl", "--out", "c", *doubles]) == 0
    (trajectory,) = read_collection(tmp_path / "c")
    trajectory.store.path(trajectory.record.steps[0].attempts[0].image).unlink()
    assert run(["data", "report", "c", "--requests", "r.jsonl", "--out", "p.html"]) == 0
    page = (tmp_path / "p.html").read_text("utf-8")
    assert "<script" not in page and "<b>bold" not in page and "\u202e" not in page
    assert "&lt;script&gt;alert(1)" in page and "&lt;b&gt;bold" in page
    assert '<div class="empty">missing</div>' in page
    assert "This collection has no scores yet" in page
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(svg)


def test_only_lines_of_this_collection_are_counted_where_a_selection_is_of_two(
    made: Path, tmp_path: Path
) -> None:
    write_run(tmp_path / "other", "run", [[REFUSED, Try()]] * 3)
    shutil.move(tmp_path / "other/scores/made.jsonl", tmp_path / "other/scores/scripted.jsonl")
    both = [str(made / "collection"), str(tmp_path / "other")]
    assert run(["data", "select", *both, "--out", "both"]) == 0
    assert run(["data", "report", both[1], "--selection", "both", "--out", "p.html"]) == 0
    titles = re.findall(r"<title>(?:sft|rl|dropped): attempts: (\d+)</title>", Path("p.html").read_text())
    assert sum(map(int, titles)) == 6


def test_a_selection_of_another_collection_is_refused_and_a_moved_one_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        write_run(tmp_path / name, "run", [[REFUSED, Try()]])
    assert run(["data", "select", "one", "--out", "selection"]) == 0
    assert run(["data", "report", "two", "--selection", "selection", "--out", "p.html"]) == 2
    assert "is not from two: it was made from one" in capsys.readouterr().err
    shutil.move(tmp_path / "selection", tmp_path / "elsewhere" / "selection")
    assert run(["data", "report", "one", "--selection", "elsewhere/selection", "--out", "p.html"]) == 0


def test_generators_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text(
        "".join(
            json.dumps({"id": str(number), "request": f"Story {number}, in 2 pictures"}) + "\n"
            for number in range(6)
        )
    )
    makers = ["--planner", "scripted", "--critic", "scripted", "--generator", "solid?size=64"]
    assert run(["data", "collect", "r.jsonl", "--out", "c", *makers, "--generator", "solid?size=80"]) == 0
    assert run(["data", "score", "c", "--scorer", "scripted"]) == 0
    trajectories = list(read_collection(tmp_path / "c"))
    scores = read_scores(tmp_path / "c")
    assert run(["data", "report", "c", "--out", "p.html"]) == 0
    page = (tmp_path / "p.html").read_text("utf-8")
    rows = {
        name: re.findall(r"<td>(.*?)</td>", rest)
        for name, rest in re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', page)
    }
    assert set(rows) == {"solid?size=64", "solid?size=80"}
    for name, cells in rows.items():
        own = [each for each in trajectories if each.record.config.generator.spec == name]
        attempts = [(each, *pair) for each in own for pair in each.attempts()]
        first = [attempt for _, _, attempt in attempts if attempt.number == 1]
        accepted = sum(bool(attempt.verdict and attempt.verdict.accepted) for attempt in first)
        marks = [scores[each.name, step.plan.number, attempt.number] for each, step, attempt in attempts]
        means = [fmean(getattr(mark, kind) for mark in marks) for kind in ("semantics", "quality")]
        assert cells[:2] == [str(len(own)), str(len(attempts))]
        assert cells[2].startswith(f"{accepted} of {len(first)} (")
        assert cells[3:] == [f"{mean:.2f}" for mean in means]


def test_what_runs_say_of_themselves_is_said_once(tmp_path: Path) -> None:
    for suite, seed in (("a", "1"), ("b", "2")):
        corpus = ["--source", "mini", "--items", "1", "--seed", seed, "--out", f"{suite}.jsonl"]
        assert run(["data", "prompts", *corpus]) == 0
        makers = ["--planner", "oracle", "--critic", "oracle", "--generator", "world"]
        assert run(["data", "collect", f"{suite}.jsonl", "--out", f"c/{suite}", *makers]) == 0
    notes = {note for each in read_collection(tmp_path / "c") for note in each.record.config.notes}
    assert notes
    assert run(["data", "report", "c", "--out", "p.html"]) == 0
    words = "".join(Tags((tmp_path / "p.html").read_text("utf-8")).words)
    for note in notes:
        assert words.count(note) == 1


def test_a_corpus_without_a_request_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "c", "run", [[Try()]])
    (tmp_path / "empty.jsonl").write_text("\n")
    assert run(["data", "report", "c", "--requests", "empty.jsonl", "--out", "p.html"]) == 2
    assert "empty.jsonl contains no readable request" in capsys.readouterr().err


def test_a_page_is_made_anew_and_no_other_file_is_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "c", "run", [[Try()]])
    for _ in range(2):
        assert run(["data", "report", "c", "--out", "p.html"]) == 0
    (tmp_path / "mine.html").write_text("<p>work of years</p>")
    assert run(["data", "report", "c", "--out", "mine.html"]) == 2
    assert "mine.html was not made by 'data report'" in capsys.readouterr().err
    assert (tmp_path / "mine.html").read_text() == "<p>work of years</p>"
    (tmp_path / "folder.html").mkdir()
    assert run(["data", "report", "c", "--out", "folder.html"]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_a_second_collection_gets_no_advice_about_requests(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "report", "one", "two", "--out", "p.html"]) == 2
    said = capsys.readouterr().err
    assert "(two). See" in said and "quotes" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent", "--out", "p.html"], "absent"),
        ([".", "--out", "p.html"], "contains no runs"),
        (["{made}", "--out", "p.txt"], ".html"),
        (["{made}", "--out", "p.html", "--scores", "nobody"], "no scores named 'nobody'"),
        (["{made}", "--out", "p.html", "--selection", "."], "not a selection"),
        (["{made}", "--out", "p.html", "--selection", "s8"], "the selection s8 does not exist"),
        (["{made}", "--out", "p.html", "--requests", "no.jsonl"], "no.jsonl"),
    ],
)
def test_what_cannot_be_shown_is_said(
    made: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    given = [argument.format(made=made / "collection") for argument in arguments]
    assert run(["data", "report", *given]) == 2
    assert said in capsys.readouterr().err
    assert not Path("p.html").exists()


def test_charts_of_nothing_and_of_much_are_still_drawings() -> None:
    for svg in (
        bars([], [], across="x", title="none"),
        bars(["a"], [Series("n", [0])], across="x", title="zero"),
        lines([], [], top=10, across="x", title="none"),
        ranking({}, title="none"),
        ranking({"a" * 200 + "<&": 1e9}, title="wide"),
        bars(
            [str(n) for n in range(200)],
            [Series("n", [n * 1e6 for n in range(200)])],
            across="x",
            title="<&>",
        ),
    ):
        ElementTree.fromstring(svg)


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (1, 1), (9, 10), (29, 30), (82, 100), (1000, 1000), (0.3, 0.3)]
)
def test_an_axis_ends_at_a_round_number_above_the_largest(value: float, top: float) -> None:
    assert nice_top(value) == pytest.approx(top)


def test_quartiles() -> None:
    spread = Distribution()
    for value in (1, 2, 3, 4, 100):
        spread.add(value)
    assert (spread.quantile(0.25), spread.quantile(0.5), spread.quantile(0.75)) == (2, 3, 4)
    assert spread.mean == 22
