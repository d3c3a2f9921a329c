"""`interleave calibrate`: from labels and runs to a page and a profile; no attempt is judged twice."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import interleave
from interleave.agents.critic import CriticInput
from interleave.agents.loading import LoadedAgent
from interleave.agents.prompts import load_pack
from interleave.bench.calibration.profile_file import write_strictness
from interleave.bench.calibration.verdicts import RunFolders, VerdictFile, judge_attempts
from interleave.bench.labels import Label, Subject, label_lines
from interleave.cli.main import run
from interleave.config.profiles import load_profile
from interleave.errors import BackendError, ConfigurationError, InputError
from interleave.types import Outcome, Plan, PlanStep, Verdict

PACK = load_pack("default")


def label(number: int, value: bool, confidence: float | None) -> Label:
    critic = None if confidence is None else {"accepted": confidence >= 0.5, "confidence": confidence}
    row: dict[str, Any] = {"kind": "accept", "rater": "ann", "at": "2026-01-01T00:00:00Z", "step": 1}
    return Label.model_validate(
        {**row, "run": f"run-{number}", "attempt": 1, "value": value, "critic": critic}
    )


def judged_labels(path: Path) -> Path:
    """Forty labels of a critic that is right three times out of four, whatever it says."""
    confidences = [0.95 if place % 8 else 0.4 + place / 1000 for place in range(40)]
    path.write_bytes(
        label_lines(label(place, place % 4 != 0, each) for place, each in enumerate(confidences))
    )
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Four runs with one attempt each."""
    plan = Plan(steps=(PlanStep(number=1, prompt="a frog"),))
    for number in range(4):
        interleave.generate(
            "a frog", profile="dry-run", critic="none", plan=plan, out=tmp_path / "runs" / f"run-{number}"
        )
    return tmp_path / "runs"


def test_labels_with_verdicts_need_no_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    labels = judged_labels(tmp_path / "labels.jsonl")
    assert run(["calibrate", "--labels", str(labels), "--critic", "mini", "--profile", "own.toml"]) == 0
    said = capsys.readouterr()
    assert said.out.strip() == "calibration/calibration.html"
    assert "40 labelled attempts, 30 right" in said.err
    figures = json.loads((tmp_path / "calibration" / "calibration.json").read_text("utf-8"))
    strict = figures["threshold"]["point"]["threshold"]
    assert load_profile("own.toml").critic.as_spec("critic").options == {"strict": repr(strict)}
    page = (tmp_path / "calibration" / "calibration.html").read_text("utf-8")
    assert "Calibration of mini" in page and "--profile own.toml" in page and "<svg" in page
    assert (tmp_path / "calibration" / "reliability.svg").read_text("utf-8").startswith("<svg")


def test_figures_are_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels, out = judged_labels(tmp_path / "labels.jsonl"), tmp_path / "out"
    arguments = ["calibrate", "--labels", str(labels), "--out", str(out), "--misses", "0.5", "--json"]
    assert run(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["threshold"]["wanted"] == "misses" and found["labels"] == 40
    assert found["page"] == str(out / "calibration.html")
    assert run([*arguments, "--false-alarms", "0.1"]) == 2


def test_the_critic_judges_what_labels_leave_open_and_never_twice(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = ['{"success": ', "true", "}"]
    script = tmp_path / "critic.jsonl"
    tokens = [(piece, 0.8 if piece == "true" else 1.0) for piece in pieces]
    script.write_text(json.dumps({"text": "".join(pieces), "tokens": tokens}), "utf-8")
    labels = tmp_path / "labels.jsonl"
    labels.write_bytes(label_lines(label(number, number > 0, None) for number in range(4)))
    arguments = ["calibrate", "--labels", str(labels), "--out", str(tmp_path / "out")]
    assert run(arguments) == 2  # no critic is named
    assert "--critic SPEC" in capsys.readouterr().err
    arguments += ["--critic", f"scripted:{script}"]
    assert run(arguments) == 2
    assert "name its folder with --run-folder" in capsys.readouterr().err
    assert run([*arguments, "--run-folder", str(runs)]) == 0
    assert "4 attempts to be judged" in capsys.readouterr().err
    script.unlink()  # a critic that is asked again would be missed
    assert run([*arguments, "--run-folder", str(runs), "--json"]) == 0
    said = capsys.readouterr()
    assert "to be judged" not in said.err
    assert json.loads(said.out)["bins"][0]["confidence"] == pytest.approx(0.8)


def test_quick_verdicts_are_asked_for_beside_the_others(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, text = tmp_path / "critic.jsonl", '{"success": true}'
    script.write_text(
        json.dumps({"text": text, "tokens": [[text[:-5], 1], ["true", 0.9], ["}", 1]]}), "utf-8"
    )
    labels = tmp_path / "labels.jsonl"
    labels.write_bytes(label_lines(label(number, number > 0, 0.9) for number in range(4)))
    arguments = ["calibrate", "--labels", str(labels), "--out", str(tmp_path / "out"), "--quick"]
    arguments += ["--runs", str(runs), "--critic"]
    assert run([*arguments, f"scripted:{script}", "--json"]) == 0  # its next token is never “true”
    figures = json.loads(capsys.readouterr().out)["quick"]
    assert (figures["point"]["threshold"], figures["point"]["saved"]["share"]) == (0.5, 0)
    assert "Quick verdicts" in (tmp_path / "out" / "calibration.html").read_text("utf-8")
    assert run([*arguments, "oracle"]) == 2
    assert "--quick needs a critic that continues a reply" in capsys.readouterr().err


def test_labels_of_a_verdict_that_could_not_be_read_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = judged_labels(tmp_path / "labels.jsonl")
    labels.write_bytes(labels.read_bytes() + label_lines([label(99, True, None)]))
    assert (
        run(["calibrate", "--labels", str(labels), "--critic", "mini", "--out", str(tmp_path / "out")]) == 0
    )
    said = capsys.readouterr().err
    assert "1 attempt without a verdict left out" in said and "40 labelled attempts" in said


class Judge:
    """Judges so many attempts, then fails."""

    def __init__(self, answers: int) -> None:
        self.left = answers
        self.seen: list[CriticInput] = []

    async def judge(self, seen: CriticInput) -> Verdict:
        if not self.left:
            raise BackendError("the server is gone")
        self.left -= 1
        self.seen.append(seen)
        outcome = Outcome.UNREADABLE if len(self.seen) == 1 else Outcome.ACCEPTED
        return Verdict(outcome=outcome, confidence=None if outcome is Outcome.UNREADABLE else 0.9)


def test_what_was_judged_before_a_failure_is_kept(runs: Path, tmp_path: Path) -> None:
    subjects = [Subject(run=f"run-{number}", step=1, attempt=1) for number in range(4)]

    def work(judge: Judge) -> None:
        file = VerdictFile(tmp_path / "out", "scripted", PACK)
        asyncio.run(judge_attempts(subjects, RunFolders((runs,)), file, LoadedAgent(judge), concurrency=1))

    with pytest.raises(BackendError, match="the server is gone"):
        work(Judge(2))
    path = VerdictFile(tmp_path / "out", "scripted", PACK).path
    path.write_bytes(path.read_bytes() + b'{"run": "run-2", "st')  # cut off by a crash
    second = Judge(9)
    work(second)
    assert len(second.seen) == 2
    lines = VerdictFile(tmp_path / "out", "scripted", PACK).lines
    assert sorted(line.outcome for line in lines.values()) == [
        "accepted",
        "accepted",
        "unreadable",
        "unreadable",
    ]
    assert VerdictFile(tmp_path / "out", "scripted?concurrency=3", PACK).path == path
    assert VerdictFile(tmp_path / "out", "scripted:./other", PACK).path != path


def test_a_run_is_found_by_its_name_its_path_or_as_the_folder_itself(runs: Path) -> None:
    def find(run: str, *folders: Path) -> str:
        return RunFolders(folders).critic_input(Subject(run=run, step=1, attempt=1)).prompt

    assert find("run-1", runs) == find("runs/run-1", runs.parent) == find("run-1", runs / "run-1") == "a frog"
    assert find(str(runs / "run-1"), Path("elsewhere")) == "a frog"
    with pytest.raises(InputError, match="has no attempt 7 of step 1"):
        RunFolders((runs,)).critic_input(Subject(run="run-1", step=1, attempt=7))


TABLE = """# my own
[planner]
backend = "scripted"

[critic]
backend = "scripted"  # the double
concurrency = 3

[generator]
backend = "solid"
"""


def test_a_profile_keeps_what_it_says_besides(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(TABLE, "utf-8")
    for strict in (0.5, 0.62):
        write_strictness(str(path), strict, None)
        text = path.read_text("utf-8")
        assert text.replace(f"strict = {strict}\n", "") == TABLE
        assert load_profile(str(path)).critic.as_spec("critic").options["strict"] == str(strict)
    with pytest.raises(ConfigurationError, match=r"is 'scripted.*', not 'mini'"):
        write_strictness(str(path), 0.5, "mini")
    assert path.read_text("utf-8") == text


def test_a_new_profile_is_a_copy_with_this_critic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLEAVE_CONFIG", str(tmp_path))
    monkeypatch.setenv("INTERLEAVE_PROFILE", "dry-run")
    with pytest.raises(ConfigurationError, match=r"mini.toml is 'mini', not 'openai:gpt-4o'"):
        write_strictness("mini", 0.7, "openai:gpt-4o")  # which would be asked with the miniature's words
    path = write_strictness("klein", 0.7, None)
    assert path == tmp_path / "profiles" / "klein.toml"
    klein = load_profile("klein")
    assert klein.critic.as_spec("critic").options == {"strict": "0.7"}
    assert klein.generator.as_spec("generator").name == "diffusers"
    write_strictness("mine", 0.999991, "openai:gpt-4o@http://host:8000/v1?logprobs=true&strict=0.1")
    critic = load_profile("mine").critic.as_spec("critic")
    assert (critic.model, critic.options) == ("gpt-4o", {"logprobs": "true", "strict": "0.999991"})
    assert load_profile("mine").generator.as_spec("generator").name == "solid"
