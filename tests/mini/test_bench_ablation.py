"""`interleave bench mini --table ablation`: rows on the same tasks, paired differences, the critics' exam."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interleave.agents.critic import CriticInput
from interleave.agents.prompts import load_pack
from interleave.backends.protocols import ImageGenerator
from interleave.cli.main import run
from interleave.config.specs import parse_spec
from interleave.errors import ConfigurationError, InputError
from interleave.local.tiny.vlms import VERDICT, build_tiny_vlm
from interleave.types import Outcome, Verdict
from interleave_mini.bench.ablation import Table
from interleave_mini.bench.critic_exam import Attempt, Exam, questions
from interleave_mini.bench.critic_exam_run import CriticResult, Examiner
from interleave_mini.bench.reports import points
from interleave_mini.bench.scores import Difference, difference
from interleave_mini.bench.systems import ROWS, AgentSpecs, Unavailable, same_model
from interleave_mini.world_painter import WorldPainter

Captured = pytest.CaptureFixture[str]
TABLE = ["bench", "mini", "--table", "ablation"]
ERRING = "world?mistakes=0.5"


def quietly(_: str) -> None:
    pass


def painter(mistakes: float = 0.5) -> ImageGenerator:
    return WorldPainter(spec=parse_spec("world"), options=WorldPainter.Options(mistakes=mistakes))


# Paired differences


def test_a_paired_difference_is_over_shared_tasks_and_forgets_their_own_spread() -> None:
    theirs = {str(n): n / 200 for n in range(100)}
    ours = {identity: value + 0.1 for identity, value in theirs.items() if int(identity) < 50}
    found = difference(ours, theirs)
    assert found is not None
    assert (found.items, found.mean) == (50, 0.1)
    assert found.is_clear and found.high - found.low < 0.13  # of equal gaps: the rule of three
    assert difference({"a": 1.0}, {"b": 1.0}) is None


def test_a_paired_interval_is_near_the_normal_one() -> None:
    ours = {str(n): float(n % 4 != 0) for n in range(400)}
    found = difference(ours, dict.fromkeys(ours, 0.5))
    half = 1.96 * (0.25 * 0.75 / 400) ** 0.5
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.25 - half, 0.25 + half), abs=0.006)


def test_differences_are_written_in_points_and_clear_ones_stand_out() -> None:
    assert points(Difference(mean=0.02, low=-0.01, high=0.05, items=9)) == "+2.0 (−1.0 to +5.0)"
    assert points(Difference(mean=-0.02, low=-0.05, high=-0.01, items=9)).startswith("**−2.0")


# Who plays


def test_planner_and_critic_of_the_package_are_taken_where_none_are_given() -> None:
    full = next(row for row in ROWS if row.key == "full")
    chosen = AgentSpecs(options="batch=4").choices(full)
    assert (chosen["planner"], chosen["critic"], chosen["prompts"]) == (
        "mini?batch=4",
        "mini?batch=4",
        "mini",
    )


def test_a_row_that_cannot_be_cast_says_why(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    with pytest.raises(Unavailable, match=r"there is no .*agents/planner"):
        AgentSpecs(tmp_path).choices(ROWS[1])
    with pytest.raises(Unavailable, match="give --trained"):
        AgentSpecs().spec("critic-no-step", "critic")


def test_learned_agents_are_given_the_options_and_the_prompts(tmp_path: Path) -> None:
    (tmp_path / "agents" / "agent").mkdir(parents=True)
    row = next(row for row in ROWS if row.key == "one-agent")
    chosen = AgentSpecs(tmp_path, "default", "batch=256").choices(row)
    assert chosen["planner"] == chosen["critic"] == f"transformers:{tmp_path}/agents/agent?batch=256"
    assert chosen["prompts"] == "default"
    assert same_model(chosen["planner"]) == f"transformers:{tmp_path}/agents/agent"
    assert "prompts" not in AgentSpecs(tmp_path).choices(ROWS[0])


# The exam


class Grumbler:
    """A critic that refuses everything and asks for the same again."""

    def __init__(self) -> None:
        self.asked = 0

    async def judge(self, seen: CriticInput) -> Verdict:
        self.asked += 1
        return Verdict(outcome=Outcome.REJECTED, refined_prompt=seen.prompt)


def examined(folder: Path, critic: object, attempts: int = 10) -> tuple[CriticResult, Examiner]:
    exam = Exam(folder, painter)
    examiner = Examiner(exam, exam.prepare(ERRING, attempts, 1, quietly), quietly)
    name = type(critic).__name__
    return examiner.examine(name, name.lower(), lambda: critic, load_pack()), examiner


def test_drawing_the_same_prompt_repairs_as_much_as_drawing_again(tmp_path: Path) -> None:
    found, examiner = examined(tmp_path, Grumbler())
    assert found.caught.mean == found.false_alarms.mean == 1
    assert found.other_steps is not None and found.other_steps.mean == 1
    targets = {each.id: each.target for each in examiner.questions.values()}
    for each in examiner.other_steps:
        asked, shown = each.id.split(":")
        assert asked.rpartition("/")[0] == shown.rpartition("/")[0]
        assert targets[asked] != targets[shown]
    assert found.accuracy.mean == pytest.approx(found.failures / found.attempts, abs=1e-3)
    assert 0 < found.failures < found.attempts == 10
    assert found.repaired == found.again == found.repaired_of_caught
    assert found.gain is not None and found.gain.mean == 0
    _, redrawn = examiner.results["Grumbler"]
    assert redrawn == examiner.again()


def test_an_exam_is_drawn_and_judged_once(tmp_path: Path) -> None:
    first, examiner = examined(tmp_path, Grumbler())
    again = Grumbler()
    assert examined(tmp_path, again)[0] == first
    assert again.asked == 0
    longer, more = examined(tmp_path, again, attempts=12)
    assert again.asked == 2 + len(more.other_steps) - len(examiner.other_steps)
    assert list(more.attempts[:10]) == list(examiner.attempts)
    assert longer.attempts == 12


def test_the_attempts_of_an_exam_are_right_where_the_painter_is(tmp_path: Path) -> None:
    exam = Exam(tmp_path, lambda: painter(0))
    attempts = exam.prepare("world", 4, 1, quietly)
    assert len(attempts) == 5 * 4  # no failure is found, so the search goes on to its limit
    assert all(each.right for each in attempts)
    assert {each.suite for each in attempts} == {"story", "edit", "continue"}
    asked = questions(0)[: len(attempts)]
    assert [each.before is None for each in asked] == [each.before is None for each in attempts]
    with pytest.raises(ConfigurationError, match="choose another --out"):
        exam.prepare("mini", 4, 1, quietly)


# The command


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with toy agents: the planner writes no plan of the world, one critic accepts everything."""
    folder = tmp_path_factory.mktemp("table")
    for name in ("planner", "critic", "critic-sft"):
        build_tiny_vlm(folder / "trained" / "agents" / name, answer=PLAN if name == "planner" else VERDICT)
    return folder


PLAN = (
    "<think>One.</think><answer>{'execution_plan': [{'step_number': 1, 'instruction': 'A cat', "
    "'prompt': 'A meadow with a cat in the middle.'}]}</answer>"
)


@pytest.mark.slow
def test_the_table_is_put_together_from_parts(made: Path, capsys: Captured) -> None:
    common = [*TABLE, "--trained", str(made / "trained"), "--prompts", "default", "--generator", ERRING]
    common += ["--suites", "know", "--items", "4", "--more-items", "3", "--out", str(made / "out")]
    for rows in ("planner,critic-sft,no-step", "full,oracle"):
        assert run([*common, "--rows", rows, "--exam", "0", "--vlm-options", "batch=4"]) == 0
    capsys.readouterr()
    assert run([*common, "--rows", "full,oracle", "--exam", "12", "--failures", "1", "--json"]) == 0
    table = Table.model_validate_json(capsys.readouterr().out)
    rows = {row.key: row for row in table.rows}
    assert list(rows) == [row.key for row in ROWS]
    assert {key for key, row in rows.items() if row.lines} == {"planner", "critic-sft", "full", "oracle"}
    assert rows["no-step"].not_run["know"] == "not among --rows, and not run before"
    assert [line.attempts for line in rows["full"].lines] == [5, 3, 1]
    assert (rows["full"].lines[0].items, rows["oracle"].lines[0].items) == (4, 3)
    gap = rows["oracle"].lines[0].against["full"]["strict"]
    assert gap.items == 3 and gap.mean > 0
    assert set(rows["full"].lines[0].against) == {"critic-sft"}
    assert rows["full"].lines[0].against["critic-sft"]["average"].mean == 0  # both critics accept everything
    assert table.exam is not None
    results = {each.key: each for each in table.exam.critics}
    assert set(results) == {"oracle", "critic"}
    assert results["oracle"].accuracy.mean == 1
    assert results["critic"].caught.mean == 0 and results["critic"].tokens > 5
    assert json.loads((made / "out" / "ablation.json").read_text())["seed"] == 0
    assert "| `full` with the critic after GRPO | 4 |" in (made / "out" / "ablation.md").read_text()
    assert (made / "out" / "refinements.html").read_text().count("<article>") == results["critic"].failures


def test_rows_without_a_model_are_listed_and_a_single_process_may_do_some(capsys: Captured) -> None:
    command = [*TABLE, "--generator", ERRING, "--suites", "know", "--items", "2", "--more-items", "2"]
    assert run([*command, "--rows", "generator,oracle,no-step", "--exam", "0", "--out", "out"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "no-step: not run on know: " in said
    assert "full: not run on know: not among --rows" in said
    assert "ablation: know" in said
    assert (
        run(
            [
                *command[:4],
                "--generator",
                "world",
                *command[6:],
                "--rows",
                "oracle",
                "--exam",
                "0",
                "--out",
                "out",
            ]
        )
        == 1
    )
    assert "was made with the generator" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--table", "oblation"], "--table ablation"),
        (["--table", "ablation", "--rows", "ful"], "'full'"),
        (["--table", "ablation", "--suites", "story,knows"], "'know'"),
        (["--table", "ablation", "--trained", "nowhere"], "mini train all"),
        (["--table", "ablation", "--suite", "know"], "--suites"),
        (["--table", "ablation", "--vlm-options", "batch"], "key=value"),
        (["--table", "ablation", "--generator", "monet"], "no image generator"),
        (["--rows", "full"], "--table ablation"),
    ],
)
def test_bad_input_is_refused_in_a_line(arguments: list[str], said: str, capsys: Captured) -> None:
    assert run(["bench", "mini", *arguments, "--out", "out"]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) <= 2
    assert not Path("out").exists()


def test_attempts_of_another_version_of_the_language_are_refused_with_the_reason(tmp_path: Path) -> None:
    exam = Exam(tmp_path, painter)
    attempt = Attempt(
        id="story-of-old/0", suite="story", prompt="A meadow.", before=None, after="x.png", right=True
    )
    with pytest.raises(InputError, match=r"another version of the miniature's language \(story-of-old/0\)"):
        Examiner(exam, [attempt], quietly)
