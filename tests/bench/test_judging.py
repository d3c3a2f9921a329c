"""Judging: every question has one record, failures are never numbers, nothing is asked twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from judge_server import judge_server

from interleave.backends.protocols import Message, Reply, Sampling, VlmCapabilities
from interleave.bench.base import Dataset, Item
from interleave.bench.benchmarks.ueval import UEval
from interleave.bench.judge import Judged, JudgeSession, estimate
from interleave.bench.outputs import Output, OutputPart
from interleave.bench.prompts import reworded_prompts
from interleave.bench.records import read_records
from interleave.bench.scoring import Label, Scorable, outcome_of
from interleave.config.run_config import Limits
from interleave.errors import BackendError, ConfigurationError, Failure, LimitReached

MET = json.dumps({"criteria_met": True})


class Judge:
    """Answers by a rule of the question's words."""

    def __init__(self, says: Any, **capabilities: Any) -> None:
        self.capabilities = VlmCapabilities(knows_its_price=True, **capabilities)
        self.says = says
        self.asked: Counter[str] = Counter()

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        criterion = messages[-1].text.split("Criterion:\n")[1].split("\n")[0]
        self.asked[criterion] += 1
        said = self.says(criterion, self.asked[criterion])
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, Reply) else Reply(said, cost=0.01)


def judged(folder: Path, criteria: int = 10, *, missing: Sequence[str] = ()) -> Judged:
    items = tuple(
        Item(f"i{number}", "space", ("How?",), {"question": "How?", "text": (f"c{number}",), "image": ()})
        for number in range(criteria)
    )
    outputs = {
        item.id: Output(item=item.id, parts=(OutputPart(text=f"answer {item.id}"),))
        for item in items
        if item.id not in missing
    }
    return Judged(
        UEval(), Dataset(items, "r1", "tests"), outputs, folder, "test:judge", reworded_prompts("ueval")
    )


def ask(session: JudgeSession, concurrency: int = 4) -> list[Any]:
    async def follow() -> list[Any]:
        return [record async for record in session.run(concurrency=concurrency)]

    return asyncio.run(follow())


def scores(work: Judged, missing: Any = "zero") -> Any:
    items = work.dataset.items
    scorable = Scorable(
        work.benchmark, items, {item.id: work.keys(item) for item in items}, work.records(), missing
    )
    return outcome_of(scorable, Label("1", "judge", "p", "r"))


def test_every_kind_of_reply_has_its_status(tmp_path: Path) -> None:
    def says(criterion: str, time: int) -> Any:
        return {
            "c0": MET,
            "c1": "I think so",
            "c2": Reply("", "content_filter", cost=0.01),
            "c3": Reply(MET, "length", cost=0.01),
            "c4": BackendError("the key is for another model", kind=Failure.INVALID),
            "c5": json.dumps({"criteria_met": "not sure"}),
            "c6": json.dumps({"criteria_met": "perhaps"}),
            "c7": "junk" if time < 3 else MET,
            "c8": BackendError("will not", kind=Failure.REFUSED),
        }[criterion]

    work = judged(tmp_path, 10, missing=["i9"])
    judge = Judge(says)
    records = {record.item: record for record in ask(JudgeSession(work, judge))}
    assert {item: record.status for item, record in records.items()} == {
        "i0": "ok",
        "i1": "unparsed",
        "i2": "refused",
        "i3": "unparsed",
        "i4": "api_error",
        "i5": "ok",
        "i6": "unparsed",
        "i7": "ok",
        "i8": "refused",
        "i9": "missing_output",
    }
    assert records["i7"].tries == 3 and records["i7"].cost == pytest.approx(0.03)
    assert (records["i0"].value, records["i5"].value) == (True, False)
    assert all(record.value is None for record in records.values() if record.status != "ok")
    zero, drop = scores(work, "zero"), scores(work, "drop")
    assert zero.coverage == drop.coverage == 0.3
    assert [n.value for n in zero.numbers if n.name == "text_avg_rate"] == [20.0]
    dropped = next(n for n in drop.numbers if n.name == "text_avg_rate")
    assert (dropped.value, dropped.items) == (pytest.approx(66.666667), 3)


def test_a_second_session_asks_only_what_failed_to_be_asked(tmp_path: Path) -> None:
    away = True

    def says(criterion: str, time: int) -> Any:
        if criterion == "c1" and away:
            return BackendError("the proxy is broken", kind=Failure.INVALID)
        return "junk" if criterion == "c2" else MET

    judge = Judge(says)
    ask(JudgeSession(judged(tmp_path, 4), judge))
    assert judge.asked == {"c0": 1, "c1": 1, "c2": 3, "c3": 1}
    away = False
    again = ask(JudgeSession(judged(tmp_path, 4), judge))
    assert [record.item for record in again] == ["i1"]
    assert judge.asked == {"c0": 1, "c1": 2, "c2": 3, "c3": 1}
    retried = ask(JudgeSession(judged(tmp_path, 4), judge, retry_failed=True))
    assert [record.item for record in retried] == ["i2"]


def test_another_output_is_judged_anew_and_the_same_one_never(tmp_path: Path) -> None:
    judge = Judge(lambda *_: MET)
    ask(JudgeSession(judged(tmp_path, 3), judge))
    other = judged(tmp_path, 3)
    changed = Output(item="i1", parts=(OutputPart(text="another answer"),))
    other = Judged(**{**other.__dict__, "outputs": {**other.outputs, "i1": changed}})
    assert [record.item for record in ask(JudgeSession(other, judge))] == ["i1"]
    assert ask(JudgeSession(judged(tmp_path, 3), judge)) == []  # both are known now


def test_the_budget_is_kept_over_sessions(tmp_path: Path) -> None:
    judge = Judge(lambda *_: MET, typical_price=0.01)
    limits = Limits(max_cost=0.045)
    assert estimate(judged(tmp_path, 10), judge).cost == 0.1
    with pytest.raises(LimitReached):
        ask(JudgeSession(judged(tmp_path, 10), judge, limits=limits), concurrency=1)
    assert judge.asked.total() == 4
    with pytest.raises(LimitReached):
        ask(JudgeSession(judged(tmp_path, 10), judge, limits=limits), concurrency=1)
    assert judge.asked.total() == 4


def test_a_budget_for_a_judge_without_a_price_is_refused(tmp_path: Path) -> None:
    judge = Judge(lambda *_: MET)
    judge.capabilities = VlmCapabilities()
    with pytest.raises(ConfigurationError):
        JudgeSession(judged(tmp_path, 1), judge, limits=Limits(max_cost=1.0))


def test_a_wrong_key_ends_the_session(tmp_path: Path) -> None:
    judge = Judge(lambda *_: BackendError("no such key", kind=Failure.DENIED))
    with pytest.raises(BackendError, match="no such key"):
        ask(JudgeSession(judged(tmp_path, 8), judge), concurrency=2)
    assert judge.asked.total() <= 2


KILLED = """
import asyncio, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_judging import judged
from interleave.backends.registry import load_vlm
from interleave.bench.judge import JudgeSession

async def main():
    session = JudgeSession(judged(Path({folder!r}), 40), load_vlm({spec!r}, "judge"))
    async for record in session.run(concurrency=4):
        pass

asyncio.run(main())
"""


@pytest.mark.slow
def test_killed_again_and_again_no_question_that_has_a_record_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes: list[subprocess.Popen[bytes]] = []

    def says(text: str, number: int) -> str:
        if number in (11, 23):  # a few answers are written by now, others are under way
            os.kill(processes[-1].pid, signal.SIGKILL)
        return MET

    with judge_server(says) as server:
        code = KILLED.format(tests=str(Path(__file__).parent), folder=str(tmp_path), spec=server.spec)
        environment = {**os.environ, "OPENAI_API_KEY": "none"}
        codes = []
        recorded_before: list[set[str]] = []
        while not codes or codes[-1] != 0:
            recorded_before.append(
                {record.item for record in read_records(judged(tmp_path, 40).path).values()}
            )
            processes.append(subprocess.Popen([sys.executable, "-c", code], env=environment))
            asked_from = len(server.questions)
            codes.append(processes[-1].wait(timeout=300))
            asked = {text.split("Criterion:\n")[1].split("\n")[0] for text in server.questions[asked_from:]}
            assert not asked & {item.replace("i", "c") for item in recorded_before[-1]}
            assert len(codes) < 10
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert len(read_records(judged(tmp_path, 40).path)) == 40
    assert len(server.questions) <= 40 + 2 * 5  # what was under way at a kill may be asked again
