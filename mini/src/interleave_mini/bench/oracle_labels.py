"""Labels from the oracle: attempts of true plans, drawn once; the reader says which are right.

The attempts are those of the critics' exam. With a critic, each label has its verdict, and the critic can be
calibrated from the labels alone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from interleave import Outcome, Verdict, load_generator
from interleave.bench.labels import CriticVerdict, Kind, Label, label_lines
from interleave.plugin import backends, load_pack, runs, write_atomic
from interleave_mini.bench.critic_exam import Exam
from interleave_mini.bench.critic_exam_run import Examiner

LABELS_NAME = "labels.jsonl"
RATER = "oracle"


def label_attempts(
    folder: Path,
    *,
    generator: str,
    critic: str | None,
    prompts: str,
    count: int,
    failures: int,
    seed: int,
    concurrency: int,
    report: Callable[[str], None],
) -> list[Label]:
    """Draw, judge and label attempts; what a folder has already is not made again."""
    exam = Exam(folder, lambda: load_generator(generator), seed, concurrency)
    attempts = exam.prepare(generator, count, failures, report)
    examiner = Examiner(exam, attempts, report)
    judged = {}
    if critic is not None:
        judged = examiner.judge(
            "critic", critic, lambda: backends.load_agent(critic, "critic"), load_pack(prompts)
        )
    now = datetime.now(UTC).replace(microsecond=0)
    labels = [
        Label(
            kind=Kind.ACCEPT,
            rater=RATER,
            at=now,
            run=attempt.id.rpartition("/")[0],
            step=examiner.questions[attempt.id].slot.step,
            attempt=1,
            value=attempt.right,
            blind=True,
            critic=_critic_verdict(judged[attempt.id].verdict) if attempt.id in judged else None,
            prompt=attempt.prompt,
            picture=f"{runs.IMAGES_FOLDER}/{attempt.after}",
        )
        for attempt in attempts
    ]
    write_atomic(folder / LABELS_NAME, label_lines(labels))
    return labels


def _critic_verdict(verdict: Verdict) -> CriticVerdict | None:
    """The verdict as a label has it; an unreadable one judges nothing."""
    if verdict.outcome is Outcome.UNREADABLE:
        return None
    return CriticVerdict(accepted=verdict.accepted, confidence=verdict.confidence)
