"""The critic exam as an Inspect task (https://inspect.aisi.org.uk): no judge, two images a sample.

    pip install inspect_ai
    inspect eval integrations/critic-exam/inspect_task.py -T data=runs/critic-exam --model openai/gpt-5-mini

`interleave bench critic-exam --out runs/critic-exam` writes the data. Nothing else of this project is needed.
"""

import json
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, grouped, scorer, stderr
from inspect_ai.solver import TaskState, generate


@task
def critic_exam(data: str = "runs/critic-exam", items: int | None = None) -> Task:
    folder = Path(data).absolute()
    lines = (folder / "pairs.jsonl").read_text("utf-8").splitlines()[:items]
    samples = [sample(folder, json.loads(line)) for line in lines]
    return Task(
        dataset=MemoryDataset(samples, name="critic-exam", location=str(folder)),
        solver=generate(temperature=0.0),
        scorer=yes_or_no(),
    )


def sample(folder: Path, row: dict[str, Any]) -> Sample:
    images = [ContentImage(image=str(folder / row[which])) for which in ("before", "after")]
    return Sample(
        id=row["id"],
        input=[ChatMessageUser(content=[*images, ContentText(text=row["question"])])],
        target="yes" if row["right"] else "no",
        metadata={"fault": row["fault"]},
    )


@scorer(metrics=[grouped(accuracy(), "fault", all_label="accuracy"), stderr()])
def yes_or_no() -> Scorer:
    """Compare the first word of the answer; an answer without yes or no is wrong."""

    async def score(state: TaskState, target: Target) -> Score:
        words = state.output.completion.lower().replace("*", " ").strip(" .!\"'\n").split()
        answer = words[0].strip(".,:;!\"'") if words else ""
        return Score(
            value=CORRECT if answer == target.text else INCORRECT,
            answer=answer if answer in ("yes", "no") else "unreadable",
            metadata=state.metadata,
        )

    return score
