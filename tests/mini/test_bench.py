"""`interleave bench mini`: scores that move as they should, runs that go on, the agreed JSON, the page."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from PIL.Image import Image

from interleave.backends.protocols import ImageRequest
from interleave.cli.main import run
from interleave.config.specs import parse_spec
from interleave.errors import BackendError, ConfigurationError
from interleave_mini.bench.model_cache import CachingGenerator
from interleave_mini.bench.reports import BY_CONSTRUCTION, write_report
from interleave_mini.bench.runner import ItemScore, Result, Settings, StepScore, default_folder, run_mini
from interleave_mini.bench.tasks import SUITES
from interleave_mini.intervals import estimate
from interleave_mini.world.drawing import draw
from interleave_mini.world.scene import Scene
from interleave_mini.world_painter import WorldPainter

Captured = pytest.CaptureFixture[str]
ITEMS = 5


def settings(suite: str = "story", system: str = "full", mistakes: float = 0, **changed: Any) -> Settings:
    choices = {"profile": "oracle", "generator": f"world?mistakes={mistakes}", **changed.pop("choices", {})}
    return Settings(suite, system, **{"items": ITEMS, "choices": choices, **changed})


@cache
def result(suite: str, system: str, mistakes: float, items: int = ITEMS) -> Result:
    """A run that several tests look at, made once."""
    with TemporaryDirectory() as folder:
        return run_mini(settings(suite, system, mistakes, items=items), Path(folder))[0]


# Scores


@pytest.mark.parametrize("suite", SUITES)
def test_a_perfect_painter_with_oracles_is_right_everywhere(suite: str) -> None:
    found = result(suite, "plan", 0)
    assert found.scores.strict.mean == 1
    assert found.scores.text.mean == 1
    assert found.coverage == 1
    assert (found.scores.image is None) == (suite == "annotate")
    assert found.scores.image is None or found.scores.image.mean == 1


def test_scores_fall_as_the_painter_gets_worse() -> None:
    good, worse, bad = (result("story", "plan", mistakes).scores for mistakes in (0, 0.3, 0.8))
    assert good.image and worse.image and bad.image
    assert good.image.mean > worse.image.mean > bad.image.mean
    assert good.strict.mean > worse.strict.mean >= bad.strict.mean
    assert good.text == worse.text == bad.text  # a painter has no part in the captions


def test_a_critic_helps_and_more_attempts_help_more() -> None:
    full = result("story", "full", 0.5, items=4)
    assert list(full.by_attempts) == ["1", "3", "5"]
    one, three, five = (full.by_attempts[attempts].image for attempts in ("1", "3", "5"))
    assert one and three and five and full.scores.image
    assert one.mean < three.mean <= five.mean == full.scores.image.mean
    assert full.scores.strict.mean > result("story", "plan", 0.5, items=4).scores.strict.mean


def test_one_attempt_of_the_full_system_is_the_system_without_a_critic() -> None:
    assert (
        result("story", "full", 0.5, items=4).by_attempts["1"] == result("story", "plan", 0.5, items=4).scores
    )


def test_a_bare_generator_writes_no_text_and_cannot_think() -> None:
    base = result("story", "base", 0)
    assert base.scores.text.mean == 0
    assert base.scores.strict.mean < 0.5
    assert base.calls["planner"] == base.calls["critic"] == 0
    assert base.calls["generator"] > 0
    assert set(base.models) == {"generator"}


def test_a_bare_generator_is_refused_where_the_answer_is_text() -> None:
    with pytest.raises(ConfigurationError, match="writes no text"):
        run_mini(settings("annotate", "base"), Path("bench"))


def test_unseen_voices_wordings_and_pairs_are_told_apart() -> None:
    found = result("story", "plan", 0)
    assert set(found.apart) == {"seen", "unseen voice", "unseen kind and colour"}
    edits = result("edit", "plan", 0)
    assert set(edits.apart) == {"seen", "unseen wording", "unseen kind and colour"}
    assert set(edits.by_topic) <= {"temporal", "causal", "spatial", "logical"}


def test_the_same_seed_gives_the_same_scores_and_another_one_other_tasks(tmp_path: Path) -> None:
    again, other = (
        run_mini(settings("know", "plan", 0.3, seed=seed), tmp_path / str(seed)) for seed in (0, 1)
    )
    assert again[0].scores == result("know", "plan", 0.3).scores
    assert not {each.task.id for each in again[1]} & {each.task.id for each in other[1]}


def test_strict_means_every_step_right_and_none_too_many() -> None:
    right, wrong = StepScore(image=True, text=False), StepScore(image=False, text=True)

    def strict(*steps: StepScore, too_many: int = 0) -> float:
        item = ItemScore(id="", topic="", unseen=(), status="done", folder="", steps=steps, too_many=too_many)
        return item.strict

    assert strict(right, right) == 1
    assert strict(right, wrong) == 0
    assert strict(right, right, too_many=1) == 0
    assert strict(StepScore(image=None, text=True)) == 1
    assert strict(StepScore(image=None, text=False)) == 0


# Going on


class CountingPainter(WorldPainter):
    """Remembers what it was asked, and may be told to stop in the middle."""

    def __init__(self, stop_after: int | None = None) -> None:
        super().__init__(spec=parse_spec("world"), options=WorldPainter.Options())
        self.asked: list[ImageRequest] = []
        self.stop_after = stop_after

    async def generate(self, request: ImageRequest) -> Image:
        if self.stop_after is not None and len(self.asked) >= self.stop_after:
            raise KeyboardInterrupt
        self.asked.append(request)
        return await super().generate(request)


def test_a_cached_image_is_for_the_same_prompt_seed_and_source_alone() -> None:
    painter = CountingPainter()
    caching = CachingGenerator(painter)
    source = draw(Scene("sea"))

    async def ask() -> None:
        for prompt, seed, sources in (
            ("a", 1, ()),
            ("a", 1, ()),
            ("a", 2, ()),
            ("b", 1, ()),
            ("a", 1, (source,)),
        ):
            await caching.generate(ImageRequest(prompt, seed=seed, sources=sources))

    asyncio.run(ask())
    assert [(each.prompt, each.seed, len(each.sources)) for each in painter.asked] == [
        ("a", 1, 0),
        ("a", 2, 0),
        ("b", 1, 0),
        ("a", 1, 1),
    ]


def drawn_in(folder: Path, items: int, painter: CountingPainter, suite: str = "know") -> Result:
    chosen = {"planner": "oracle", "generator": painter}
    return run_mini(settings(suite, "plan", items=items, concurrency=2, choices=chosen), folder)[0]


def test_more_items_in_the_same_folder_are_added_to_those_that_are_there(tmp_path: Path) -> None:
    first, then, whole = CountingPainter(), CountingPainter(), CountingPainter()
    drawn_in(tmp_path / "bench", 4, first)
    longer = drawn_in(tmp_path / "bench", 8, then)
    undisturbed = drawn_in(tmp_path / "other", 8, whole)
    assert [len(each.asked) for each in (first, then, whole)] == [4, 4, 8]
    assert {each.prompt for each in (*first.asked, *then.asked)} == {each.prompt for each in whole.asked}
    assert longer.scores == undisturbed.scores
    assert longer.calls == undisturbed.calls
    assert longer.seconds > 0


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    stopped, then, whole = CountingPainter(stop_after=5), CountingPainter(), CountingPainter()
    with pytest.raises(KeyboardInterrupt):
        drawn_in(tmp_path / "bench", 4, stopped, "story")
    resumed = drawn_in(tmp_path / "bench", 4, then, "story")
    undisturbed = drawn_in(tmp_path / "other", 4, whole, "story")
    assert resumed.scores == undisturbed.scores
    assert len(stopped.asked) == 5
    again = len(stopped.asked) + len(then.asked) - len(whole.asked)
    assert 0 <= again <= 2  # what was under way, one call for each open task, may be drawn once more


def test_a_finished_run_is_scored_again_without_a_call(tmp_path: Path) -> None:
    painter = CountingPainter()
    drawn_in(tmp_path, 3, CountingPainter())
    drawn_in(tmp_path, 3, painter)
    assert painter.asked == []


# The command


AGREED = ["suite", "system", "items", "seed", "scores", "coverage", "calls", "seconds_per_item"]
MORE = {"max_attempts", "models", "notes", "by_attempts", "apart", "by_topic", "seconds"}


def test_the_json_is_as_agreed(capsys: Captured) -> None:
    arguments = [
        "bench",
        "mini",
        "--suite",
        "know",
        "--profile",
        "oracle",
        "--items",
        "4",
        "--seed",
        "3",
        "--json",
    ]
    assert run([*arguments, "--out", "bench"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found)[: len(AGREED)] == AGREED
    assert set(found) - set(AGREED) == MORE
    assert (found["suite"], found["system"], found["items"], found["seed"]) == ("know", "full", 4, 3)
    assert set(found["scores"]) == {"strict", "image", "text"}
    for part in found["scores"].values():
        assert set(part) == {"mean", "low", "high"}
        assert all(isinstance(number, float) and 0 <= number <= 1 for number in part.values())
        assert part["low"] <= part["mean"] <= part["high"]
    assert isinstance(found["coverage"], float)
    assert set(found["calls"]) == {"planner", "critic", "generator"}
    assert all(isinstance(count, int) for count in found["calls"].values())
    assert isinstance(found["seconds_per_item"], float)
    assert json.loads(Path("bench/result.json").read_text()) == found
    page = Path("bench/report.html").read_text()
    assert page.count("data:image/webp;base64,") >= 2 * 4
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_without_json_there_is_a_table_and_the_path_of_the_page(capsys: Captured) -> None:
    assert (
        run(["bench", "mini", "--suite", "know", "--system", "base", "--profile", "oracle", "--items", "2"])
        == 0
    )
    out, err = capsys.readouterr()
    page = Path(out.strip())
    assert page.name == "report.html"
    assert page.is_file()
    assert all(word in err for word in ("strict", "image", "text", "all tasks", "coverage"))
    assert " ".join(BY_CONSTRUCTION.split()[:6]) in " ".join(err.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--suite", "storys"], "story"),
        (["--suite", "painting"], "story"),
        (["--system", "ful"], "full"),
        (["--suite", "annotate", "--system", "base"], "writes no text"),
        (["--items", "0"], "items"),
    ],
)
def test_bad_choices_end_in_exit_code_2_and_leave_nothing(
    arguments: list[str], said: str, capsys: Captured
) -> None:
    assert run(["bench", "mini", "--profile", "oracle", "--out", "bench", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err
    assert not Path("bench").exists()


def test_every_choice_has_a_folder_of_its_own() -> None:
    chosen = [settings(), settings(mistakes=0.3), settings(seed=1), settings(system="plan"), settings("edit")]
    assert len({default_folder(each) for each in chosen}) == len(chosen)
    assert default_folder(settings()) == default_folder(settings(items=99))


def test_the_page_shows_wrong_answers_first(tmp_path: Path) -> None:
    found, answered = run_mini(settings("know", "plan", 0.5, items=8), tmp_path)
    page = write_report(found, answered, tmp_path).read_text()
    ids = sorted((each for each in answered), key=lambda each: each.score.strict)
    places = [page.index(each.task.text.split(",")[0].split(".")[0]) for each in (ids[0], ids[-1])]
    assert ids[0].score.strict < ids[-1].score.strict
    assert places[0] < places[1]


# Statistics


@pytest.mark.parametrize(
    ("right", "count", "low", "high"),
    [(10, 10, 0.7225, 1.0), (0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)],
)
def test_intervals_of_shares_are_wilsons(right: int, count: int, low: float, high: float) -> None:
    found = estimate([1.0] * right + [0.0] * (count - right))
    assert found.mean == pytest.approx(right / count, abs=1e-4)
    assert (found.low, found.high) == pytest.approx((low, high), abs=2e-4)


def test_intervals_of_other_means_are_near_the_normal_ones() -> None:
    values = [index / 99 for index in range(100)]
    found = estimate(values)
    half = 1.96 * 0.2916 / 10  # the standard deviation of these values, over the root of their number
    assert found.mean == pytest.approx(0.5)
    assert (found.low, found.high) == pytest.approx((0.5 - half, 0.5 + half), abs=0.01)
    assert found == estimate(values)


def test_equal_values_and_no_values_have_honest_intervals() -> None:
    assert estimate([0.5] * 4).low < 0.5 < estimate([0.5] * 4).high
    assert (estimate([]).low, estimate([]).high) == (0, 1)


def test_models_that_are_prompted_are_measured_too(tmp_path: Path) -> None:
    choices = {"profile": "oracle", "critic": "scripted"}
    result, _ = run_mini(Settings("know", "full", items=2, choices=choices), tmp_path / "out")
    assert result.coverage == 1
    assert result.calls["critic"] >= 2


def test_tasks_that_failed_are_tried_again_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["bench", "mini", "--profile", "oracle", "--suite", "know", "--items", "2", "--out"]
    broken = monkeypatch.context()
    with broken as patched:
        patched.setattr(
            "interleave_mini.world_painter.WorldPainter._paint",
            lambda self, request: (_ for _ in ()).throw(BackendError("out of paint")),
        )
        assert run([*command, str(tmp_path)]) == 3
    assert "2 of 2 tasks failed" in capsys.readouterr().err.replace("\n", " ")
    assert run([*command, str(tmp_path)]) == 0


def test_a_request_that_the_planner_refuses_is_a_wrong_answer_and_no_failed_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = tmp_path / "planner.jsonl"
    replies.write_text((json.dumps({"text": "I would rather not."}) + "\n") * 9)
    command = ["bench", "mini", "--profile", "oracle", "--suite", "know", "--items", "2", "--json"]
    given = ["--planner", f"scripted:{replies}", "--out", str(tmp_path / "out")]
    assert run([*command, *given]) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert result["scores"]["text"]["mean"] == 0 and result["coverage"] == 0
    assert "2 of 2 tasks have no plan and count as wrong" in printed.err.replace("\n", " ")


def test_a_folder_of_another_suite_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "mini", "--profile", "oracle", "--items", "1", "--out", str(tmp_path)]
    assert run([*command, "--suite", "know"]) == 0
    assert run([*command, "--suite", "edit"]) == 2
    assert "choose another --out" in capsys.readouterr().err


def test_reading_a_finished_benchmark_back_takes_no_time_of_its_own(tmp_path: Path) -> None:
    settings = Settings("know", "full", items=2, choices={"profile": "oracle"})
    first, _ = run_mini(settings, tmp_path)
    again, _ = run_mini(settings, tmp_path)
    assert first.seconds > 0
    assert again == first
