"""Answering the items of a benchmark with a system, through the durable batch runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interleave.api import batch_of
from interleave.batches.batch import Ended
from interleave.batches.requests import items_of
from interleave.benchmarks.base import Item
from interleave.benchmarks.outputs import FOLDER, Output, output_of, write_outputs
from interleave.config.run_config import RunConfig
from interleave.errors import ConfigurationError, RunError
from interleave.runs.record import RunRecord, read_record
from interleave.runs.resolve import load_models, resolve, split_choices

SYSTEMS = {
    "base": "the generator alone: one picture from the request itself, no text",
    "plan": "planner and generator, one attempt a step",
    "full": "planner, generator and critic",
}
FEWER_ATTEMPTS = (3, 1)
"""A full run also tells how it would have gone with so many attempts."""


@dataclass(frozen=True)
class System:
    """What answers the items."""

    name: str = "full"
    options: Mapping[str, Any] = field(default_factory=dict)
    """As `interleave.generate` takes them: profile, planner, critic, generator, seed, …"""

    def __post_init__(self) -> None:
        if self.name not in SYSTEMS:
            raise ConfigurationError(f"no system named {self.name!r}: choose one of {', '.join(SYSTEMS)}")

    @property
    def choices(self) -> dict[str, Any]:
        """What was chosen, less what the system leaves out."""
        chosen = {key: value for key, value in self.options.items() if value is not None}
        if self.name == "full":
            return chosen
        chosen |= {"critic": "none", "max_attempts": 1}
        return chosen if self.name == "plan" else {**chosen, "planner": "none"}


Progress = Callable[[int, int, int], None]
"""Told how many attempts are allowed in this pass, how many items are done, and how many there are."""


async def run_system(
    items: Sequence[Item],
    system: System,
    folder: Path,
    *,
    concurrency: int = 16,
    progress: Progress = lambda *_: None,
) -> dict[int, dict[str, Output]]:
    """Answer what has not been answered yet; the outputs by the most attempts allowed, and by item.

    They are also written to `outputs/attempts-N.jsonl`. With fewer attempts only those items are run again
    that needed more.
    """
    chosen, limits = split_choices(system.choices)
    config, pack = resolve(chosen)
    models = load_models(config, pack, chosen)
    most = config.max_attempts

    async def run(attempts: int, wanted: Sequence[Item]) -> dict[str, tuple[Output, RunRecord | None]]:
        name = f"runs/attempts-{attempts}"
        limited: RunConfig = config.model_copy(update={"max_attempts": attempts})
        batch = batch_of(folder / name, limited, limits, models)
        asked = ((item.id, item.request) for item in wanted)
        found: dict[str, tuple[Output, RunRecord | None]] = {}
        running = batch.run(items_of(asked), concurrency=concurrency, retry_failed=True)
        async with aclosing(running) as all_ended:
            async for ended in all_ended:
                found[ended.id] = _answer(ended, folder, name)
                progress(attempts, len(found), len(wanted))
        return found

    whole = await run(most, items)
    passes = {most: {item: output for item, (output, _) in whole.items()}}
    for attempts in FEWER_ATTEMPTS if system.name == "full" else ():
        if attempts < most:
            other = [item for item in items if not _is_same_with(whole[item.id][1], attempts)]
            again = await run(attempts, other) if other else {}
            passes[attempts] = passes[most] | {item: output for item, (output, _) in again.items()}
    for attempts, outputs in passes.items():
        ordered = [outputs[item.id] for item in items if item.id in outputs]
        write_outputs(outputs_file(folder, attempts), ordered)
    return passes


def outputs_file(folder: Path, attempts: int) -> Path:
    return folder / FOLDER / f"attempts-{attempts}.jsonl"


def _answer(ended: Ended, folder: Path, name: str) -> tuple[Output, RunRecord | None]:
    run = f"{name}/{ended.folder}"
    try:
        record = read_record(folder / run)
    except RunError:  # it was refused before it had a folder
        return Output(item=ended.id, status="failed", reason=ended.reason), None
    output = output_of(ended.id, record, run)
    return output.model_copy(update={"reason": ended.reason or output.reason}), record


def _is_same_with(record: RunRecord | None, attempts: int) -> bool:
    """Whether this answer came about without ever needing more attempts: then they cannot be missed."""
    return (
        record is not None
        and record.status == "done"
        and all(len(step.attempts) <= attempts for step in record.steps)
        and not any(step.forced for step in record.steps)
    )
