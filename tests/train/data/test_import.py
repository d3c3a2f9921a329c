"""Records of the reference become runs that every later stage reads; what is wrong with one is said."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from interleave.cli.main import run
from interleave.errors import InputError
from interleave.train.data.import_runs.stage import import_all, read_results
from interleave.train.data.manifest import read_manifest
from interleave.train.data.trajectories import Trajectory, read_collection
from interleave.types import Outcome

PLAN = [
    {
        "step_number": 1,
        "step_name": "a",
        "instruction": "Draw.",
        "prompt": "a red ball",
        "auxiliary_text": None,
    },
    {
        "step_number": 2,
        "step_name": "b",
        "instruction": "Add.",
        "prompt": "add a box",
        "auxiliary_text": "Two.",
    },
]


def attempt(step: int, flag: int, success: Any, refine: Any = "", **more: Any) -> dict[str, Any]:
    source = "white.png" if step == 1 else "step1_2.png"
    return {
        "step": step,
        "prompt": PLAN[step - 1]["prompt"],
        "refine_prompt": refine,
        "source_img": f"/their/disk/klein/7_x/{source}",
        "target_img": f"/their/disk/klein/7_x/step{step}_{flag}.png",
        "success": success,
        "reasoning": "Because.",
        **more,
    }


def record(*attempts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "user_input": "Show a ball and a box.",
        "global_context": {"reasoning": "Two steps.", "execution_plan": PLAN},
        "steps": list(attempts),
        **more,
    }


GOOD = record(
    attempt(1, 0, False, "a bright red ball"),
    attempt(1, 2, True),
    attempt(2, 4, False, "add a large box"),
    attempt(2, 6, False, ""),
    attempt(2, 8, True),
)


def write(folder: Path, value: object, *images: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for place, name in enumerate(images):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (40 * place % 256, 80, 120)).save(folder / name)
    (folder / "execution_record.json").write_text(value if isinstance(value, str) else json.dumps(value))
    return folder


ALL = ("step1_0.png", "step1_2.png", "step2_4.png", "step2_6.png", "step2_8.png")


def only_run(out: Path) -> Trajectory:
    (trajectory,) = read_collection(out)
    return trajectory


def test_the_prompt_of_an_image_is_the_refined_prompt_of_the_record_before_it(tmp_path: Path) -> None:
    write(tmp_path / "src" / "7_x", GOOD, *ALL)
    (outcome,) = import_all(tmp_path / "src", tmp_path / "out")
    assert outcome.problem is None
    first, second = only_run(tmp_path / "out").record.steps
    assert [each.prompt for each in first.attempts] == ["a red ball", "a bright red ball"]
    assert [each.prompt for each in second.attempts] == ["add a box", "add a large box", "add a large box"]
    assert [each.seed for each in second.attempts] == [4, 6, 8]
    assert first.attempts[0].verdict is not None
    assert first.attempts[0].verdict.refined_prompt == "a bright red ball"
    assert (first.shown, first.accepted, second.shown) == (2, True, 3)


def test_the_critic_saw_what_it_sees_in_use(tmp_path: Path) -> None:
    write(tmp_path / "src" / "7_x", GOOD, *ALL)
    import_all(tmp_path / "src", tmp_path / "out")
    trajectory = only_run(tmp_path / "out")
    second = trajectory.record.steps[1]
    seen = trajectory.critic_input(second, second.attempts[1])
    assert (seen.planned_prompt, seen.prompt) == ("add a box", "add a large box")
    (source,) = trajectory.sources_of(second)
    assert source.getpixel((0, 0)) == (40, 80, 120)  # the accepted image of step 1
    assert trajectory.sources_of(trajectory.record.steps[0]) == ()


def test_an_imported_run_is_shown_and_read_by_later_stages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "src" / "7_x", GOOD, *ALL)
    assert run(["data", "import", "src", "--out", "out", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["imported"] == 1
    (folder,) = (tmp_path / "out" / "runs").iterdir()
    assert run(["show", str(folder), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["status"] == "done"
    assert [step["attempts"] for step in shown["steps"]] == [2, 3]
    assert shown["calls"] == {"planner": 1, "critic": 5, "generator": 5, "repeated": 0}
    assert "imported from the reference system" in (folder / "document.html").read_text()
    assert run(["data", "sequences", "out", "--out", "sequences"]) == 0
    assert read_manifest(tmp_path / "out" / "import.manifest.json").counts["imported"] == 1


def test_a_record_that_ends_early_is_a_short_run(tmp_path: Path) -> None:
    write(tmp_path / "src" / "1", record(attempt(1, 0, False, "x"), attempt(1, 2, False, "y")), *ALL)
    import_all(tmp_path / "src", tmp_path / "out")
    ended = only_run(tmp_path / "out").record
    assert (ended.status, ended.reason) == ("short", "the imported record ends 1 step before its plan")
    assert ended.steps[0].forced and ended.steps[0].shown == 2


def test_a_step_shows_its_last_accepted_attempt_whatever_came_after(tmp_path: Path) -> None:
    value = record(attempt(1, 2, True), attempt(1, 0, False, "again"), attempt(2, 8, True))
    write(tmp_path / "src" / "1", value, *ALL)
    (outcome,) = import_all(tmp_path / "src", tmp_path / "out")
    first = only_run(tmp_path / "out").record.steps[0]
    assert (first.shown, first.accepted, first.forced) == (1, True, False)
    assert not outcome.warnings  # step 2 started from what step 1 shows


def test_a_first_source_that_is_no_white_canvas_is_the_users_image(tmp_path: Path) -> None:
    value = record(attempt(1, 2, True, source_img="mine.png"), attempt(2, 8, True))
    write(tmp_path / "src" / "1", value, *ALL, "mine.png")
    import_all(tmp_path / "src", tmp_path / "out")
    request = only_run(tmp_path / "out").record.request
    assert request[0].image and request[1].text == "Show a ball and a box."


def test_the_same_command_again_makes_nothing_again(tmp_path: Path) -> None:
    write(tmp_path / "src" / "7_x", GOOD, *ALL)
    import_all(tmp_path / "src", tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/runs").rglob("*")}
    (tmp_path / "out" / ".importing" / "half").mkdir(parents=True)  # what a killed one leaves
    import_all(tmp_path / "src", tmp_path / "out")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out/runs").rglob("*")} == before
    assert not (tmp_path / "out" / ".importing").exists()


def test_a_killed_import_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        write(tmp_path / "src" / name, GOOD, *ALL)
    from interleave.train.data.import_runs import stage

    made: list[Path] = []
    real = stage.write_run

    def dies(run: Any, folder: Path, *rest: Any) -> None:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(folder)
        real(run, folder, *rest)

    monkeypatch.setattr(stage, "write_run", dies)
    with pytest.raises(KeyboardInterrupt):
        import_all(tmp_path / "src", tmp_path / "out")
    monkeypatch.setattr(stage, "write_run", real)
    assert len([each for each in import_all(tmp_path / "src", tmp_path / "out") if each.run]) == 3
    assert len(list(read_collection(tmp_path / "out"))) == 3


def changed(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(json.dumps(GOOD))
    change(value)
    return value


def at(place: int, **fields: Any) -> dict[str, Any]:
    return changed(lambda value: value["steps"][place].update(fields))


UNUSABLE: list[tuple[str, object, str]] = [
    ("not JSON", "{", "not JSON"),
    ("a list", [1], "not an object"),
    ("no request", changed(lambda value: value.pop("user_input")), "user_input"),
    ("a blank request", record(attempt(1, 0, True), user_input=" "), "user_input"),
    ("no steps", record(), "nothing was drawn"),
    ("steps that are a text", record(attempt(1, 0, True), steps="x"), "nothing was drawn"),
    ("no plan", record(attempt(1, 0, True), global_context=None), "global_context"),
    ("an unreadable plan", record(attempt(1, 0, True), global_context={"execution_plan": 3}), "plan"),
    ("a step that is a text", at(0, step="1"), "not a whole number"),
    ("a step that is true", at(0, step=True), "not a whole number"),
    ("a step out of the plan", at(4, step=9), "no image"),
    ("a step back", at(4, step=1), "goes back"),
    ("a jump", record(attempt(2, 8, True)), "never drawn"),
    ("a record that is a list", changed(lambda value: value["steps"].append([])), "not an object"),
    ("I08 a missing picture", at(0, target_img="gone.png"), "missing"),
    ("I08 a picture outside", at(0, target_img="../../secret.png"), "outside"),
    ("I08 an address", at(0, target_img="https://x/y.png"), "is a URL"),
    ("I08 no path", at(0, target_img=None), "not the path"),
    ("I08 a NUL", at(0, target_img="a\x00.png"), "not the path"),
    ("I08 not an image", at(0, target_img="text.png"), "cannot be used"),
    ("I05 half a surrogate pair", at(0, refine_prompt="\ud800"), "unicode"),
    ("I05 a NUL in the reasoning", at(0, reasoning="\x00"), "NUL"),
]


@pytest.mark.parametrize(("name", "value", "said"), UNUSABLE, ids=[name for name, _, _ in UNUSABLE])
def test_a_record_that_cannot_be_used_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, value: object, said: str
) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")
    write(tmp_path / "src" / "bad", value, *ALL)
    (tmp_path / "src" / "bad" / "text.png").write_text("no image")
    write(tmp_path / "src" / "good", GOOD, *ALL)
    assert run(["data", "import", "src", "--out", "out"]) == 1
    error = capsys.readouterr().err
    assert "bad/execution_record.json" in error and said in error, error
    outcomes = {each["source"]: each for each in read_results(tmp_path / "out")}
    assert said in outcomes["bad/execution_record.json"]["problem"]
    assert outcomes["good/execution_record.json"]["run"]
    assert len(list(read_collection(tmp_path / "out"))) == 1


ODD = [
    ("success that is a text", at(0, success="true"), "neither true nor false"),
    ("success that is missing", at(0, success=None), "neither true nor false"),
    ("reasoning that is a list", at(0, reasoning=["x"]), '"reasoning" of record 1'),
    ("a refined prompt that is a number", at(0, refine_prompt=3), '"refine_prompt" of record 1'),
    ("another planned prompt", at(0, prompt="a blue ball"), "another planned prompt"),
    ("a rejection without another prompt", GOOD, "without another prompt"),
    ("a source from nowhere", at(2, source_img="step1_0.png"), "no earlier step shows"),
    ("a white canvas later on", at(2, source_img="white.png"), "white canvas"),
]


@pytest.mark.parametrize(("name", "value", "said"), ODD, ids=[name for name, _, _ in ODD])
def test_an_odd_record_is_imported_and_named(tmp_path: Path, name: str, value: object, said: str) -> None:
    write(tmp_path / "src" / "odd", value, *ALL)
    (outcome,) = import_all(tmp_path / "src", tmp_path / "out")
    assert outcome.run and any(said in each for each in outcome.warnings), outcome


def test_a_success_that_is_no_truth_value_is_unjudged_not_rejected(tmp_path: Path) -> None:
    write(tmp_path / "src" / "odd", at(0, success="true"), *ALL)
    import_all(tmp_path / "src", tmp_path / "out")
    verdict = only_run(tmp_path / "out").record.steps[0].attempts[0].verdict
    assert verdict is not None and verdict.outcome is Outcome.UNREADABLE


UEVAL = {
    "1": {
        "prompt": "a seed",
        "refine_prompt": "",
        "source_img": "white.png",
        "target_img": "img/9/step1.png",
    },
    "2": {
        "prompt": "a sprout",
        "refine_prompt": "a green sprout",
        "source_img": "x",
        "target_img": "step2.png",
    },
}
ITEM = {"id": "9", "prompt": "How does a bean grow?", "task": "life", "text_answer": "A seed.A sprout."}


def ueval(tmp_path: Path) -> Path:
    write(tmp_path / "src" / "img" / "9", UEVAL, "step1.png", "step2.png")
    item = {**ITEM, "image_answer": ["img/9/step1.png", "img/9/step2.png"]}
    (tmp_path / "src" / "result").mkdir()
    (tmp_path / "src" / "result" / "test_rank0.json").write_text(json.dumps([item]))
    return tmp_path / "src"


def test_the_benchmarks_records_get_their_request_from_the_result_file(tmp_path: Path) -> None:
    (outcome,) = import_all(ueval(tmp_path), tmp_path / "out")
    assert "not recorded" in outcome.warnings[0]
    ended = only_run(tmp_path / "out").record
    assert ended.request[0].text == "How does a bean grow?"
    assert [step.attempts[0].prompt for step in ended.steps[:2]] == ["a seed", "a green sprout"]
    assert [step.attempts[0].verdict for step in ended.steps[:2]] == [None, None]
    assert ended.steps[0].forced and not ended.steps[0].accepted
    assert ended.steps[2].plan.caption == "A seed.A sprout." and ended.steps[2].plan.prompt is None


def test_a_benchmark_record_without_its_request_is_named(tmp_path: Path) -> None:
    src = ueval(tmp_path)
    (src / "result" / "test_rank0.json").unlink()
    (outcome,) = import_all(src, tmp_path / "out")
    assert "contains the request" in str(outcome.problem)


def test_answers_without_a_record_are_imported_from_the_result_file(tmp_path: Path) -> None:
    src = ueval(tmp_path)
    (src / "img" / "9" / "execution_record.json").unlink()
    (outcome,) = import_all(src, tmp_path / "out")
    assert outcome.source == "result/test_rank0.json#1"
    assert "not for training on prompts" in outcome.warnings[0]
    assert len(only_run(tmp_path / "out").record.steps) == 3


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({**ITEM, "id": None}, '"id"'),
        ({**ITEM, "id": 1.5}, '"id"'),
        ({**ITEM, "prompt": ""}, '"prompt"'),
        ({**ITEM, "text_answer": 3}, "text_answer"),
        ({**ITEM, "image_answer": "x.png"}, "image_answer"),
        ({**ITEM, "image_answer": ["gone.png"], "id": "z"}, "missing"),
        ({**ITEM, "image_answer": [], "text_answer": "", "id": "z"}, "neither images nor text"),
        ({**ITEM, "prompt": "Another?"}, "is already another answer"),
        ("text", "not an object"),
    ],
)
def test_a_bad_item_of_a_result_file_is_named(tmp_path: Path, item: object, said: str) -> None:
    src = ueval(tmp_path)
    good = json.loads((src / "result" / "test_rank0.json").read_text())
    (src / "result" / "test_rank1.json").write_text(json.dumps([*good, item]))
    problems = [each for each in import_all(src, tmp_path / "out") if each.problem]
    assert len(problems) == 1 and said in str(problems[0].problem), problems
    assert problems[0].source == "result/test_rank1.json#2"


def test_one_file_can_be_imported(tmp_path: Path) -> None:
    folder = write(tmp_path / "src" / "7_x", GOOD, *ALL)
    (outcome,) = import_all(folder / "execution_record.json", tmp_path / "out")
    assert outcome.run


def test_a_folder_with_nothing_in_it_and_a_folder_of_somebody_elses_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="contains neither"):
        import_all(tmp_path / "empty", tmp_path / "out")
    with pytest.raises(InputError, match="does not exist"):
        import_all(tmp_path / "absent", tmp_path / "out")
    write(tmp_path / "src", GOOD, *ALL)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.tex").touch()
    assert run(["data", "import", "src", "--out", "theirs"]) == 2
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["thesis.tex"]


def test_a_collection_may_lie_below_what_is_imported_but_not_around_it(tmp_path: Path) -> None:
    write(tmp_path / "src" / "7_x", GOOD, *ALL)
    for _ in range(2):
        (outcome,) = import_all(tmp_path / "src", tmp_path / "src" / "imported")
        assert outcome.run
    with pytest.raises(InputError, match="contains the files to import"):
        import_all(tmp_path / "src", tmp_path)


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")
    folder = write(tmp_path / "src" / "7_x", GOOD, *ALL)
    (folder / "step1_0.png").unlink()
    (folder / "step1_0.png").symlink_to(tmp_path / "secret.png")
    (outcome,) = import_all(tmp_path / "src", tmp_path / "out")
    assert "outside" in str(outcome.problem)


@pytest.mark.parametrize("name", ["execution_record.json", "result.json"])
def test_a_record_that_is_a_link_out_of_the_folder_is_named_and_not_read(tmp_path: Path, name: str) -> None:
    write(tmp_path / "secret", GOOD, *ALL)
    write(tmp_path / "src" / "good", GOOD, *ALL)
    (tmp_path / "src" / "bad").mkdir()
    (tmp_path / "src" / "bad" / name).symlink_to(tmp_path / "secret" / "execution_record.json")
    (tmp_path / "src" / "linked").symlink_to(tmp_path / "secret")
    for _ in range(2):
        outcomes = {each.source: each for each in import_all(tmp_path / "src", tmp_path / "out")}
        assert outcomes.keys() == {"good/execution_record.json", f"bad/{name}", "linked"}
        for source in (f"bad/{name}", "linked"):
            assert "link that leads out" in str(outcomes[source].problem)
    assert len(list(read_collection(tmp_path / "out"))) == 1


def test_links_within_the_folder_and_links_to_nothing(tmp_path: Path) -> None:
    folder = write(tmp_path / "src" / "real", GOOD, *ALL)
    (folder / "step1_0.png").rename(folder / "kept.png")
    (folder / "step1_0.png").symlink_to(folder / "kept.png")
    (tmp_path / "src" / "again").symlink_to(folder)
    (tmp_path / "src" / "gone.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "src" / "round.json").symlink_to(tmp_path / "src" / "round.json")
    outcomes = {each.source: each.problem for each in import_all(tmp_path / "src", tmp_path / "out")}
    assert outcomes.pop("real/execution_record.json") is None
    assert all("cannot be read" in str(problem) for problem in outcomes.values())
    assert outcomes.keys() == {"gone.json", "round.json"}


def test_I08_a_record_that_is_a_pipe_is_named_and_not_waited_for(tmp_path: Path) -> None:
    write(tmp_path / "src" / "good", GOOD, *ALL)
    os.mkfifo(tmp_path / "src" / "execution_record.json")
    outcomes = {each.source: each.problem for each in import_all(tmp_path / "src", tmp_path / "out")}
    assert outcomes == {
        "execution_record.json": "it is not a regular file",
        "good/execution_record.json": None,
    }


def test_I05_a_folder_whose_name_is_no_text_is_imported_like_others(tmp_path: Path) -> None:
    odd = os.fsdecode(b"7_\xff")
    try:
        write(tmp_path / "src" / odd, GOOD, *ALL)
    except OSError:
        pytest.skip("does not apply: this file system takes only names in UTF-8")
    write(tmp_path / "src" / odd / "bad", at(0, target_img="gone.png"), *ALL)
    for _ in range(2):
        assert run(["data", "import", "src", "--out", "out"]) == 1
        bad, good = sorted(read_results(tmp_path / "out"), key=lambda each: bool(each["run"]))
        assert good["source"] == "7_\\udcff/execution_record.json"
        assert bad["source"] == "7_\\udcff/bad/execution_record.json"
    assert len(list(read_collection(tmp_path / "out"))) == 1


def test_a_bug_that_one_record_meets_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from interleave.train.data.import_runs import stage

    real = stage.read_record

    def stumbles(path: Path, *rest: Any, **options: Any) -> Any:
        if path.parent.name == "a":
            raise ZeroDivisionError("a bug")
        return real(path, *rest, **options)

    monkeypatch.setattr(stage, "read_record", stumbles)
    for name in "ab":
        write(tmp_path / "src" / name, GOOD, *ALL)
    outcomes = {each.source: each.problem for each in import_all(tmp_path / "src", tmp_path / "out")}
    assert outcomes == {
        "a/execution_record.json": "ZeroDivisionError: a bug",
        "b/execution_record.json": None,
    }
    assert "unexpected" in caplog.text


def test_20_000_attempts_of_a_step_are_refused_before_their_images_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interleave.train.data.import_runs import records

    looked_for: list[Any] = []
    real = records.find_image
    monkeypatch.setattr(
        records, "find_image", lambda named, *rest: looked_for.append(named) or real(named, *rest)
    )
    write(tmp_path / "src" / "1", record(*[attempt(1, 0, False, "again")] * 20_000), *ALL)
    (outcome,) = import_all(tmp_path / "src", tmp_path / "out")
    assert outcome.problem == "step 1 has more than 100 attempts, more than a run can have"
    assert len(looked_for) == 100
    assert not (tmp_path / "out" / "runs").exists()


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of this package's own code are run by it: work, counted and not timed."""
    lines = 0

    def count(frame: Any, event: str, _: object) -> Any:
        nonlocal lines
        if "interleave" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def long_record(steps: int, attempts: int) -> dict[str, Any]:
    """Every step is drawn so often, and starts from the image of the step before it."""
    plan = [{**PLAN[0], "step_number": number} for number in range(1, steps + 1)]
    rows = [
        {
            **attempt(1, 0, flag == attempts - 1, source_img="step1_0.png" if number > 1 else ""),
            "step": number,
        }
        for number in range(1, steps + 1)
        for flag in range(attempts)
    ]
    return record(*rows, global_context={"execution_plan": plan})


@pytest.mark.parametrize(("steps", "attempts"), [(5, 20), (75, 1)])
def test_reading_a_record_takes_work_in_proportion_to_its_length(
    tmp_path: Path, steps: int, attempts: int
) -> None:
    from interleave.train.data.import_runs.records import Warnings, _attempts, _plan_of, _with_sources

    def work(times: int) -> int:
        value = long_record(steps * times, attempts)
        path = write(tmp_path / "src", value, *ALL) / "execution_record.json"
        plan, notes = _plan_of(value["global_context"], Warnings()), Warnings()

        def read() -> None:
            read = _attempts(value["steps"], plan, path, tmp_path, notes)
            _with_sources(plan, value["steps"], read, path, tmp_path, notes)

        return lines_run(read)

    assert work(4) < 5 * work(1)


def test_remarks_on_a_record_are_gathered_without_comparing_each_with_all() -> None:
    from interleave.train.data.import_runs.records import Warnings

    class Counted(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    notes = Warnings()
    for number in range(1000):
        notes.add(Counted(f"record {number % 500} was rejected without another prompt"))
    assert list(notes.messages) == [
        f"record {number} was rejected without another prompt" for number in range(500)
    ]
    assert Counted.compared < 10_000


def test_records_find_their_answers_without_looking_through_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interleave.train.data.import_runs import stage

    items = []
    for number in range(30):
        folder = write(tmp_path / "src" / f"folder-{number}", UEVAL, "step1.png", "step2.png")
        items.append({**ITEM, "id": f"id-{number}", "image_answer": [f"folder-{number}/step1.png"]})
    (folder.parent / "result.json").write_text(json.dumps(items))
    looked_for: list[Any] = []
    real = stage.find_image
    monkeypatch.setattr(
        stage, "find_image", lambda named, *rest: looked_for.append(named) or real(named, *rest)
    )
    outcomes = import_all(tmp_path / "src", tmp_path / "out")
    assert all(each.run and each.source.startswith("folder-") for each in outcomes)
    assert len(looked_for) == 30


@pytest.mark.parametrize("key", ["01", "\u0663", "9" * 5000, "-1", "1.0", ""])
def test_I02_a_step_whose_number_is_none_is_named(tmp_path: Path, key: str) -> None:
    src = ueval(tmp_path)
    value = {**UEVAL, key: UEVAL["2"]}
    (src / "img" / "9" / "execution_record.json").write_text(json.dumps(value))
    (outcome,) = import_all(src, tmp_path / "out")
    assert "is not the number of a step" in str(outcome.problem)
