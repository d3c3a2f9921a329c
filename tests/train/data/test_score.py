"""`data score`: every attempt gets its marks or the reason why not, once, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from collections_made import collect, write_requests, write_rows

from interleave.backends.protocols import Message, Reply, Sampling, VlmCapabilities
from interleave.cli.main import run
from interleave.errors import BackendError, InputError
from interleave.errors import Failure as Kind
from interleave.runs.outage import OutageRetry
from interleave.train.data.manifest import COLLECTION_MANIFEST, file_digest, read_manifest
from interleave.train.data.score_file import Unscored, read_scores
from interleave.train.data.trajectories import read_collection, run_names
from interleave.types import ImagePart, Scores

TESTS = Path(__file__).parents[2]
sys.path += [str(TESTS / "runs")]
from crashing import KILLED, CrashServer, ledger_of  # noqa: E402

Captured = pytest.CaptureFixture[str]
ATTEMPTS = 4 * 3
"""Of the collection below: four stories of two steps, the second of which is drawn twice."""


@pytest.fixture(scope="module")
def the_collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collected")
    requests = write_requests(4, str(folder / "requests.jsonl"))
    assert collect(requests, str(folder / "made")) == 0
    return folder / "made"


@pytest.fixture
def made(the_collection: Path, tmp_path: Path) -> Path:
    """A collection of doubles, as new."""
    shutil.copytree(the_collection, tmp_path / "made")
    return Path("made")


class Model:
    """A scorer that answers as it is told, and remembers what it was asked."""

    def __init__(self, **capabilities: Any) -> None:
        self.capabilities = VlmCapabilities(**capabilities)
        self.asked: list[tuple[Message, ...]] = []
        self.answers: Any = lambda number: '{"score": [8, 9]}'
        self.cost: float | None = None
        self.delay = 0.0

    async def complete(self, messages: Any, sampling: Sampling) -> Reply:
        self.asked.append(tuple(messages))
        answer = self.answers(len(self.asked))
        await asyncio.sleep(self.delay)
        if isinstance(answer, Exception):
            raise answer
        return Reply(answer, cost=self.cost)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    """What `--scorer scripted` loads in this test."""
    return put_in_place(Model(), monkeypatch)


waits: list[float] = []
"""How long was waited for a model that is away, by a clock that only moves while somebody waits."""


def patience(max_seconds: float | None = None) -> OutageRetry:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    return OutageRetry(clock=lambda: sum(waits), sleep=sleep)


def put_in_place(model: Model, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.setattr("interleave.backends.load_agent", lambda spec, role: model)
    waits.clear()
    monkeypatch.setattr("interleave.runs.OutageRetry", patience)
    monkeypatch.setattr("interleave.backends.retries.BUDGET_PER_SECOND", 1e6)
    monkeypatch.setattr("interleave.backends.retries.RetryPolicy._delay", lambda *_: 0.0)
    return model


def score(*options: str, scorer: str = "scripted") -> int:
    return run(["data", "score", "made", "--scorer", scorer, *options])


def lines(name: str = "scripted") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("made/scores", f"{name}.jsonl").read_text().splitlines()]


@pytest.mark.usefixtures("made")
def test_every_attempt_gets_a_line_with_its_marks(capsys: Captured) -> None:
    assert score() == 0
    out, err = capsys.readouterr()
    assert out == "made/scores/scripted.jsonl\n"
    assert "12 scored, 0 failed" in err
    first = min(lines(), key=lambda line: (line["run"], line["step"], line["attempt"]))
    assert first == {
        "run": run_names(Path("made"))[0],
        "step": 1,
        "attempt": 1,
        "semantics": 8.0,
        "quality": 8.0,
        "calls": 2,
        "cost": 0.0,
    }
    attempts = {
        (trajectory.name, step.plan.number, attempt.number)
        for trajectory in read_collection(Path("made"))
        for step, attempt in trajectory.attempts()
    }
    assert set(read_scores(Path("made"))) == attempts
    assert len(attempts) == len(lines()) == ATTEMPTS


@pytest.mark.usefixtures("made")
def test_the_manifest_says_who_scored_what(capsys: Captured) -> None:
    score("--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["scored"], told["failed"], told["calls"], told["status"]) == (ATTEMPTS, 0, 24, "done")
    manifest = read_manifest(Path("made/scores/scripted.manifest.json"))
    assert manifest.options["scorer"] == "scripted"
    assert manifest.options["prompts"]["name"] == "default"
    assert manifest.inputs == {COLLECTION_MANIFEST: file_digest(Path("made", COLLECTION_MANIFEST))}
    assert manifest.counts == {"attempts": ATTEMPTS, "scored": ATTEMPTS, "failed": 0}
    assert "scripted" in manifest.notes[0]


@pytest.mark.usefixtures("made")
def test_the_scorer_sees_what_the_critic_saw(model: Model) -> None:
    score("--concurrency", "1")
    (trajectory, *_) = read_collection(Path("made"))
    (step, attempt), *_ = trajectory.attempts()
    seen = trajectory.critic_input(step, attempt)
    semantics, quality, *_ = model.asked
    assert images_of(semantics) == [seen.before.tobytes(), seen.after.tobytes()]
    assert images_of(quality) == [seen.after.tobytes()]
    assert seen.planned_prompt in " ".join(message.text for message in semantics)


def images_of(question: tuple[Message, ...]) -> list[bytes]:
    parts = [part for message in question for part in message.parts]
    return [part.image.tobytes() for part in parts if isinstance(part, ImagePart)]


@pytest.mark.usefixtures("made")
def test_A14_the_same_command_again_asks_nothing(model: Model) -> None:
    score()
    before = Path("made/scores/scripted.jsonl").read_bytes()
    model.asked.clear()
    assert score() == 0
    assert model.asked == []
    assert Path("made/scores/scripted.jsonl").read_bytes() == before


@pytest.mark.usefixtures("made")
def test_runs_that_join_later_are_scored_alone(model: Model) -> None:
    score()
    model.asked.clear()
    collect(write_rows("more.jsonl", {"id": "new", "request": "A cat in 1 picture"}), "made")
    assert score() == 0
    assert len(model.asked) == 2


@pytest.mark.usefixtures("made")
def test_K12_a_score_that_cannot_be_read_is_a_failure_and_never_a_number(
    model: Model, capsys: Captured
) -> None:
    model.answers = lambda number: '{"score": [8, 9]}' if number > 8 else "nice picture, ten out of ten"
    assert score("--concurrency", "1") == 1
    assert "not scored: runs/" in capsys.readouterr().err
    first, *rest = read_scores(Path("made")).values()
    assert isinstance(first, Unscored)
    assert "ten out of ten" in first.reason
    assert rest == [Scores(semantics=8, quality=8)] * (ATTEMPTS - 1)
    assert lines()[0].keys() == {"run", "step", "attempt", "failure", "calls"}
    assert "semantics" not in lines()[0]


UNREADABLE = [
    "", "null", '{"score": null}', '{"score": [8]}', '{"score": [8, 11]}', '{"score": [NaN, 8]}',
    '{"score": "8"}', '{"score": [true, false]}', '{"score": [8, 8, 8]}', '{"score": [-1, 5]}',
    '{"score": [Infinity, 1]}',
]  # fmt: skip


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("answer", UNREADABLE)
def test_K03_no_number_comes_from_what_is_none(answer: str, model: Model) -> None:
    model.answers = lambda number: answer
    assert score() == 3
    assert all(isinstance(each, Unscored) for each in read_scores(Path("made")).values())


@pytest.mark.usefixtures("made")
def test_failures_are_left_alone_until_they_are_asked_for(model: Model) -> None:
    model.answers = lambda number: "?"
    assert score() == 3
    model.asked.clear()
    model.answers = lambda number: '{"score": [7, 6]}'
    assert score() == 0
    assert model.asked == []
    assert score("--retry-failed") == 0
    assert set(read_scores(Path("made")).values()) == {Scores(semantics=6, quality=6)}
    assert read_manifest(Path("made/scores/scripted.manifest.json")).counts["failed"] == 0


@pytest.mark.usefixtures("made")
def test_another_scorer_scores_beside_the_first() -> None:
    assert score() == 0
    Path("strict.jsonl").write_text('{"text": "{\\"score\\": [1, 2]}"}\n{"text": "{\\"score\\": [3, 4]}"}\n')
    assert score("--name", "strict", scorer="scripted:./strict.jsonl") == 0
    assert set(read_scores(Path("made"), "strict").values()) == {Scores(semantics=1, quality=3)}
    assert set(read_scores(Path("made"), "scripted").values()) == {Scores(semantics=8, quality=8)}


@pytest.mark.usefixtures("made")
def test_one_name_stands_for_one_scorer(capsys: Captured) -> None:
    score()
    assert score("--name", "scripted", scorer="oracle") == 2
    assert "choose another name with --name" in capsys.readouterr().err
    assert len(lines()) == ATTEMPTS


@pytest.mark.usefixtures("made")
def test_a_scorer_that_only_goes_faster_is_the_same() -> None:
    assert score("--name", "mine") == 0
    assert score("--name", "mine", scorer="scripted?concurrency=3") == 0


STORY = "The robot sorts four blocks: orange ones to the left, pink ones to the right."


def test_the_oracle_scores_the_miniature() -> None:
    requests = write_rows(
        "requests.jsonl",
        {
            "id": "a",
            "request": "The robot sorts four blocks: orange ones to the left, pink ones to the right.",
        },
    )
    models = ["--planner", "oracle", "--critic", "oracle", "--generator", "world?mistakes=0.5"]
    assert run(["data", "collect", requests, "--out", "made", *models, "--max-attempts", "2"]) == 0
    assert score(scorer="oracle") == 0
    (trajectory,) = read_collection(Path("made"))
    scores = read_scores(Path("made"))
    judged = {
        attempt.verdict.accepted: scores[trajectory.name, step.plan.number, attempt.number]
        for step, attempt in trajectory.attempts()
        if attempt.verdict
    }
    assert judged[True] == Scores(semantics=10, quality=10)
    assert isinstance(judged[False], Scores) and judged[False].semantics < 10
    assert "calls" not in lines("oracle")[0]


@pytest.mark.usefixtures("made")
def test_the_oracle_says_what_it_cannot_score() -> None:
    assert score(scorer="oracle") == 3
    reasons = {each.reason for each in read_scores(Path("made")).values() if isinstance(each, Unscored)}
    assert all("cannot tell what is asked" in reason for reason in reasons)


@pytest.mark.usefixtures("made")
def test_K15_a_missing_or_altered_image_is_a_failure_with_its_path(model: Model) -> None:
    a_run, another, *_ = run_names(Path("made"))  # in one run, what is missing could hide what is altered
    one, other = (min(Path("made", run, "images").iterdir()) for run in (a_run, another))
    one.unlink()
    other.write_bytes(b"no image")
    assert score() == 1
    reasons = [each.reason for each in read_scores(Path("made")).values() if isinstance(each, Unscored)]
    assert any(one.name in reason and "is missing" in reason for reason in reasons)
    assert any(other.name in reason and "altered" in reason for reason in reasons)
    assert len(reasons) < ATTEMPTS


@pytest.mark.usefixtures("made")
def test_runs_that_have_not_ended_are_counted_and_left_out(capsys: Captured) -> None:
    folder = Path("made", run_names(Path("made"))[0])
    (folder / "run.json").unlink()
    journal = folder / "journal.jsonl"
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))
    assert score() == 0
    assert "runs left out: 1 interrupted" in capsys.readouterr().err
    assert len(lines()) == ATTEMPTS - 3


@pytest.mark.usefixtures("made")
def test_C14_what_passes_is_tried_again_by_the_one_policy(model: Model) -> None:
    busy = BackendError("busy", transient=True, kind=Kind.BUSY)
    model.answers = lambda number: busy if number % 3 else '{"score": [8, 9]}'
    assert score() == 0
    assert len(model.asked) > 2 * ATTEMPTS
    assert len(lines()) == ATTEMPTS


@pytest.mark.usefixtures("made")
def test_C14_what_stays_away_is_asked_later_then_a_failure(model: Model) -> None:
    model.answers = lambda number: BackendError("down", transient=True)
    assert score("--concurrency", "2") == 3
    assert {each.reason for each in read_scores(Path("made")).values() if isinstance(each, Unscored)} == {
        "down"
    }
    assert 3600 < sum(waits) < 2 * 3600


@pytest.mark.usefixtures("made")
def test_C13_a_scorer_away_for_an_hour_is_waited_out(model: Model, capsys: Captured) -> None:
    away = BackendError("connection refused", transient=True, kind=Kind.UNREACHABLE)
    model.answers = lambda number: '{"score": [8, 9]}' if sum(waits) >= 3600 else away
    assert score() == 0
    assert sum(waits) >= 3600
    assert len(waits) <= 130 + ATTEMPTS
    assert len(model.asked) <= 2 * 5 * (len(waits) + 2 * ATTEMPTS)  # two questions, five tries each
    assert all(isinstance(each, Scores) for each in read_scores(Path("made")).values())


@pytest.mark.usefixtures("made")
def test_C10_a_wrong_key_ends_it_at_once_and_spoils_no_attempt(model: Model, capsys: Captured) -> None:
    model.answers = lambda number: BackendError("answered 401", kind=Kind.DENIED)
    assert score("--concurrency", "1") == 3
    assert "401" in capsys.readouterr().err
    assert len(model.asked) <= 2
    assert lines() == []


@pytest.mark.usefixtures("made")
def test_a_bug_that_one_attempt_meets_does_not_end_the_others(model: Model) -> None:
    model.answers = lambda number: ZeroDivisionError("a bug") if number == 3 else '{"score": [8, 9]}'
    assert score("--concurrency", "1") == 1
    failures = [each for each in read_scores(Path("made")).values() if isinstance(each, Unscored)]
    assert failures == [Unscored(reason="ZeroDivisionError: a bug")]


@pytest.mark.usefixtures("made")
def test_A19_failures_in_a_row_end_it(
    model: Model, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("interleave.train.data.score.FAILURES_IN_A_ROW", 5)
    model.answers = lambda number: BackendError("no such model")
    assert score("--concurrency", "1") == 3
    assert "5 attempts in a row" in capsys.readouterr().err
    assert len(lines()) == 5


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("concurrency", ["1", "8"])
def test_E04_the_limit_of_calls_holds_over_all_sessions(
    concurrency: str, model: Model, capsys: Captured
) -> None:
    model.delay = 0.01  # what is under way when the limit is reached may end
    assert score("--max-calls", "10", "--concurrency", concurrency) == 1
    assert "--max-calls" in capsys.readouterr().err
    assert len(model.asked) == 10
    kept = len(lines())
    assert kept == 5
    assert score("--max-calls", "10", "--concurrency", concurrency) == 1
    assert len(model.asked) == 10
    assert score("--concurrency", concurrency) == 0
    assert len(lines()) == ATTEMPTS


@pytest.mark.usefixtures("made")
def test_E04_the_limit_of_cost_is_never_overrun_however_many_are_under_way(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    model = put_in_place(Model(knows_its_price=True, typical_price=0.01), monkeypatch)
    model.cost = 0.01
    assert score("--max-cost", "0.085", "--concurrency", "64", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == "short"
    assert len(model.asked) * 0.01 <= 0.085
    assert told["cost"] == pytest.approx(0.02 * len(lines()))


@pytest.mark.usefixtures("made", "model")
def test_a_cost_limit_needs_a_price(capsys: Captured) -> None:
    assert score("--max-cost", "1") == 2
    assert "the scorer does not" in capsys.readouterr().err
    assert not Path("made/scores").exists()


@pytest.mark.usefixtures("made")
def test_shards_score_apart_and_are_read_together(model: Model) -> None:
    for number in (1, 2, 3):
        assert score("--shard", f"{number}/3") == 0
    assert len(read_scores(Path("made"), "scripted")) == ATTEMPTS
    assert len(model.asked) == 2 * ATTEMPTS
    assert score() == 0
    assert len(model.asked) == 2 * ATTEMPTS
    assert read_manifest(Path("made/scores/scripted.manifest.json")).counts["scored"] == ATTEMPTS


@pytest.mark.usefixtures("made")
def test_B07_a_torn_last_line_is_scored_again(model: Model) -> None:
    score()
    path = Path("made/scores/scripted.jsonl")
    path.write_bytes(path.read_bytes()[:-10])
    model.asked.clear()
    assert score() == 0
    assert len(model.asked) == 2
    assert len(read_scores(Path("made"))) == ATTEMPTS


@pytest.mark.usefixtures("made", "model")
def test_B16_two_at_the_same_scores_are_refused(capsys: Captured) -> None:
    from interleave.train.data.score import open_scoring

    scoring = open_scoring(Path("made"), "scripted")
    assert score() == 2
    assert "another process" in capsys.readouterr().err
    scoring.score_file.journal.close()


@pytest.mark.usefixtures("made", "model")
@pytest.mark.parametrize("at", [1, 3, 6])
def test_B01_a_full_disk_ends_scoring_with_3_and_nothing_is_lost(
    at: int, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    written, write = 0, os.write

    def full(file: int, data: bytes) -> int:
        nonlocal written
        written += 1
        if written >= at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        assert score("--concurrency", "1") == 3
    assert "No space left" in capsys.readouterr().err
    kept = len(lines()) if Path("made/scores/scripted.jsonl").exists() else 0
    assert score() == 0
    assert len(lines()) == ATTEMPTS >= kept


@pytest.fixture(scope="module")
def crash_server() -> Iterator[CrashServer]:
    server = CrashServer()
    yield server
    server.close()


def scores_kept(collection: Path) -> int:
    try:
        return len(read_scores(collection))
    except InputError:  # killed before the first of them
        return 0


def test_A02_scoring_killed_again_and_again_scores_nothing_twice(
    made: Path, crash_server: CrashServer
) -> None:
    ledger = Path("ledger").absolute()
    arguments = ["data", "score", str(made.absolute()), "--scorer", "scripted", "--concurrency", "2"]
    kills = 0
    while True:
        order = {"arguments": arguments, "ledger": str(ledger), "kill_at": 12 + 40 * kills}
        kept = scores_kept(made)
        if crash_server.run(**order) != KILLED:
            break
        kills += 1
        assert kills < 50, "no progress from one kill to the next"
        assert scores_kept(made) >= kept
    assert kills >= 2
    assert len(read_scores(made)) == len(lines()) == ATTEMPTS
    asked = Counter(ledger_of(ledger))
    assert sum(asked.values()) - len(asked) <= kills * 2 * 2  # two attempts in flight, two questions each


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--scorer", "nobody"], "no scorer named 'nobody'"),
        (["--scorer", "scripted", "--name", "../x"], "--name '../x'"),
        (["--scorer", "scripted", "--name", "a.b"], "--name 'a.b'"),
        (["--scorer", "scripted", "--prompts", "defualt"], "Did you mean 'default'"),
        (["--scorer", "scripted", "--shard", "3/2"], "--shard"),
        (["--scorer", "world"], "no scorer named 'world'"),
    ],
)
def test_I09_what_cannot_work_is_refused_before_anything_is_written(
    options: list[str], expected: str, capsys: Captured
) -> None:
    assert run(["data", "score", "made", *options]) == 2
    assert expected in capsys.readouterr().err
    assert not Path("made/scores").exists()


def test_a_folder_without_runs_is_refused(capsys: Captured) -> None:
    Path("made").mkdir()
    assert score() == 2
    assert "contains no runs" in capsys.readouterr().err
    assert list(Path("made").iterdir()) == []
