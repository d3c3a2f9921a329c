"""A benchmark as an Inspect task (https://inspect.aisi.org.uk), with Inspect's logs, viewer and providers.

    pip install inspect_ai
    inspect eval examples/inspect_task.py -T benchmark=ueval -T data=ueval-data -T items=20 \
        --model none/none --model-role grader=google/gemini-2.5-pro

The model role `grader` judges. With `-T agents=true` the model of `--model` is planner and critic; otherwise
the profile's are used. Runs and verdicts are in `folder`, and the same command resumes them.
"""

import asyncio
import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inspect_ai import Task, model, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

import interleave
from interleave.bench.base import Answers, Dataset
from interleave.bench.judge import Judged, JudgeSession
from interleave.bench.numbers import Table
from interleave.bench.outputs import Output
from interleave.bench.run import System, run_system
from interleave.bench.scoring import item_scores
from interleave.bench.stages import Workspace, judge_prompts, open_workspace
from interleave.bench.table import find_benchmark
from interleave.bench.views import anchor_of

FINISH = {"max_tokens": "length", "model_length": "length", "content_filter": "content_filter"}


@task
def interleave_bench(
    benchmark: str = "ueval",
    data: str | None = None,
    items: int | None = None,
    system: str = "full",
    profile: str | None = None,
    generator: str | None = None,
    agents: bool = False,
    judge_checkout: str | None = None,
    folder: str = "runs/inspect",
) -> Task:
    work = open_workspace(find_benchmark(benchmark), Path(folder), Path(data) if data else None, items)
    options: dict[str, Any] = {"profile": profile, "generator": generator}
    if agents:
        options |= dict.fromkeys(("planner", "critic"), InspectVlm(model.get_model()))
    samples = [Sample(id=each.id, input=each.prompt or "pictures") for each in work.dataset.items]
    return Task(
        dataset=MemoryDataset(samples, name=benchmark, location=work.dataset.source),
        solver=answered(work, System(system, options)),
        scorer=judged(work, Path(judge_checkout) if judge_checkout else None),
        metrics=[numbers(benchmark)],
        version=work.benchmark.version,
        metadata={"revision": work.dataset.revision, "licence": work.benchmark.licence},
    )


@solver
def answered(work: Workspace, system: System) -> Solver:
    """Run all items in one batch, which loads models once; each sample waits for it."""
    batch: asyncio.Future[Any] | None = None

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        nonlocal batch
        batch = batch or asyncio.ensure_future(run_system(work.dataset.items, system, work.folder))
        passes = await asyncio.shield(batch)
        output = passes[max(passes)].get(str(state.sample_id))
        state.output.completion = "\n".join(output.texts) if output else ""
        state.metadata["output"] = output.model_dump() if output else None
        return state

    return solve


@scorer(metrics=[])
def judged(work: Workspace, checkout: Path | None) -> Scorer:
    """Ask the grader one question at a time; a missing answer gets the worst score."""
    benchmark, items = work.benchmark, {item.id: item for item in work.dataset.items}
    prompts = judge_prompts(benchmark, checkout)

    async def score(state: TaskState, target: Target) -> Score:
        item, grader = items[str(state.sample_id)], model.get_model(role="grader")
        outputs = {}
        if stored := state.metadata["output"]:
            for part in stored["parts"]:  # images are in the folder of the runs, verdicts in the sample's
                part["image"] = part["image"] and str((work.folder / part["image"]).absolute())
            outputs[item.id] = Output.model_validate(stored)
        one = Dataset((item,), work.dataset.revision, work.dataset.source)
        folder = work.folder / "judged" / anchor_of(item.id)
        asked = Judged(benchmark, one, outputs, folder, str(grader), prompts)
        session = JudgeSession(asked, InspectVlm(grader))
        async for _ in session.run(concurrency=1):
            pass
        records = session.known[item.id]
        measures = benchmark.measures(item, Answers(records, lambda key, status: benchmark.worst(key)))
        return Score(
            value=(item_scores(benchmark, benchmark.numbers(), item.group, measures) or (0.0,))[0],
            explanation="\n".join(f"{key}: {each.status} {each.reply}" for key, each in records.items()),
            metadata={"measures": dict(measures), "group": item.group},
        )

    return score


@metric
def numbers(benchmark: str) -> Metric:
    """Compute the benchmark's own metrics instead of a mean of scores."""

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        rows = [each.score.metadata for each in scores if each.score.metadata]
        columns = {name: [row["measures"][name] for row in rows] for name in rows[0]["measures"]}
        table = Table([row["group"] for row in rows], columns)
        found = find_benchmark(benchmark).numbers()
        return {number.name: number.aggregate(table) * number.scale for number in found}

    return compute


class InspectVlm:
    """Adapter of an Inspect model to a planner, critic or judge."""

    capabilities = interleave.VlmCapabilities()

    def __init__(self, wrapped: model.Model) -> None:
        self.wrapped = wrapped

    async def complete(
        self, messages: Sequence[interleave.Message], sampling: interleave.Sampling
    ) -> interleave.Reply:
        config = model.GenerateConfig(temperature=sampling.temperature, max_tokens=sampling.max_tokens)
        said = [
            getattr(model, f"ChatMessage{each.role.title()}")(content=[content(part) for part in each.parts])
            for each in messages
        ]
        output = await self.wrapped.generate(said, config=config)
        return interleave.Reply(output.completion, FINISH.get(output.stop_reason, "stop"))


def content(part: interleave.Text | interleave.ImagePart) -> model.Content:
    if isinstance(part, interleave.Text):
        return model.ContentText(text=part.text)
    buffer = io.BytesIO()
    part.image.save(buffer, "PNG")
    return model.ContentImage(image=f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}")
