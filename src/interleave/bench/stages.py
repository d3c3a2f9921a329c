"""The stages of a benchmark in one folder: run, judge, score. Each can be resumed.

DIR/bench.json        description: the benchmark, its data, the system
DIR/runs/…            the runs, by attempt limit
DIR/outputs/….jsonl   the system's outputs
DIR/judge/….jsonl     the judge's records, one file per judge and prompts
DIR/scores/….json     the numbers
DIR/report….html      the page
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from interleave import ConfigurationError, InputError, RunError
from interleave.bench.base import Benchmark, Dataset
from interleave.bench.datasets import find_data
from interleave.bench.judge import Judged
from interleave.bench.outputs import FOLDER as OUTPUTS
from interleave.bench.outputs import Output, read_outputs, with_digests, write_outputs
from interleave.bench.prompts import JudgePrompts, official_prompts, reworded_prompts
from interleave.bench.scoring import Label, Missing, Outcome, Scorable, outcome_of
from interleave.plugin import Value, make_folder, runs, slug, write_atomic

BENCH_NAME = "bench.json"
SCORES = "scores"
IMPORTED = "imported"
VERDICTS = "verdicts"
"""The system and outputs of a folder with imported judgements alone."""


class Description(Value):
    """The `bench.json` of a folder."""

    benchmark: str
    version: str
    data: str
    revision: str
    system: str
    """`base`, `plan`, `full`, `imported`, `verdicts`, or `critic` for benchmarks of critics."""
    models: dict[str, str] = Field(default_factory=dict)


class Scored(Value):
    """A file of numbers in a folder's `scores/`."""

    description: Description
    outputs: str
    judge: str
    prompts: str
    outcome: Outcome
    groups: dict[str, str]
    """The group of every item, for comparison with other systems."""


@dataclass(frozen=True)
class Workspace:
    """The folder of one system on one benchmark."""

    benchmark: Benchmark
    dataset: Dataset
    folder: Path
    data: Path
    """The data folder."""

    def describe(self, system: str, models: Mapping[str, str]) -> None:
        """Record what the folder measures. Raises `RunError` if it already measures something else."""
        made = Description(
            benchmark=self.benchmark.name,
            version=self.benchmark.version,
            data=self.dataset.source,
            revision=self.dataset.revision,
            system=system,
            models=dict(models),
        )
        there = read_description(self.folder)
        if there is None:
            runs.refuse_foreign_folder(self.folder, marker=BENCH_NAME)
            make_folder(self.folder)
            write_atomic(self.folder / BENCH_NAME, made.model_dump_json(indent=1).encode())
        elif different := [
            f"{name} {getattr(there, name)!r}, not {getattr(made, name)!r}"
            for name in ("benchmark", "system", "revision", "models")
            if getattr(there, name) != getattr(made, name)
        ]:
            raise RunError(f"{self.folder} has {'; '.join(different)}: choose another folder with --out")

    def outputs(self, name: str) -> dict[str, Output]:
        """Return the outputs of a name such as `attempts-5`."""
        if self.benchmark.tests == "critics" or name == VERDICTS:
            return {}
        return read_outputs(self.folder / OUTPUTS / f"{name}.jsonl")

    def output_names(self) -> list[str]:
        """Return the names of stored outputs, most attempts first."""
        found = [path.stem for path in (self.folder / OUTPUTS).glob("*.jsonl")]
        return sorted(found, key=lambda name: (-int("0" + "".join(filter(str.isdigit, name))), name))

    def keep_imported(self, path: Path) -> dict[str, Output]:
        """Store outputs made by another program."""
        outputs = {
            output.item: with_digests(output, self.folder)
            for output in self.benchmark.import_outputs(self.dataset, path)
        }
        write_outputs(self.folder / OUTPUTS / f"{IMPORTED}.jsonl", outputs.values())
        return outputs

    def judged(self, name: str, judge: str, prompts: JudgePrompts) -> Judged:
        return Judged(self.benchmark, self.dataset, self.outputs(name), self.folder, judge, prompts)

    def score(self, name: str, judged: Judged, missing: Missing) -> Scored:
        """Compute the numbers of the judged outputs and write them."""
        description = read_description(self.folder)
        if description is None:
            raise InputError(f"{self.folder} has no {BENCH_NAME}: run the benchmark first")
        label = Label(
            self.benchmark.version, judge_name(judged.judge), judged.prompts.identity, self.dataset.revision
        )
        items = self.dataset.items
        scorable = Scorable(
            self.benchmark, items, {item.id: judged.keys(item) for item in items}, judged.records(), missing
        )
        scored = Scored(
            description=description,
            outputs=name,
            judge=judged.judge,
            prompts=judged.prompts.identity,
            outcome=outcome_of(scorable, label, notes=self.dataset.notes),
            groups={item.id: item.group for item in items},
        )
        make_folder(self.folder / SCORES)
        write_atomic(
            self.folder / SCORES / f"{score_name(scored)}.json", scored.model_dump_json(indent=1).encode()
        )
        return scored


def open_workspace(
    benchmark: Benchmark,
    folder: Path,
    data: Path | None = None,
    items: int | None = None,
    data_revision: str | None = None,
) -> Workspace:
    """Find and check the data, without writing anything.

    Data of the Hub is read at `data_revision`, else at the commit recorded in the folder.
    """
    found, source = find_data(
        benchmark.data_as or benchmark.name,
        data,
        benchmark.hub,
        checkout=benchmark.checkout,
        revision=data_revision or _recorded_revision(folder, benchmark),
    )
    dataset = benchmark.read(found)
    named = Dataset(dataset.items, dataset.revision, source, dataset.notes)
    return Workspace(benchmark, named.first(items), folder, found)


def _recorded_revision(folder: Path, benchmark: Benchmark) -> str | None:
    """Return the Hub commit recorded in a folder."""
    there = read_description(folder)
    if there is None or benchmark.hub is None:
        return None
    repository, _, commit = there.data.rpartition("@")
    return commit if repository == benchmark.hub.repository else None


def judge_prompts(benchmark: Benchmark, checkout: Path | None, pack: str | None = None) -> JudgePrompts:
    """Return our prompts, those of a checkout of the benchmark, or those of a prompt pack."""
    if (own := benchmark.words(pack)) is not None:
        if checkout is not None:
            raise ConfigurationError(f"{benchmark.name} uses a prompt pack: give --prompts PACK")
        return own
    if checkout is None:
        return reworded_prompts(benchmark.asks_as or benchmark.name, benchmark.package_folders)
    if not benchmark.official_prompts:
        raise ConfigurationError(f"cannot read judge prompts from a checkout of {benchmark.name}")
    return official_prompts(checkout, benchmark.official_prompts)


def judge_name(spec: str) -> str:
    """Return the judge's name in number ids: the model, without its backend and options."""
    return spec.split("?")[0].split("@")[0].rsplit(":", 1)[-1].rsplit("/", 1)[-1]


def score_name(scored: Scored) -> str:
    return "-".join(
        [scored.outputs, slug(judge_name(scored.judge), 40), scored.prompts, scored.outcome.missing]
    )


def read_description(folder: Path) -> Description | None:
    path = folder / BENCH_NAME
    if not path.exists():
        return None
    try:
        return Description.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise RunError(f"cannot read {path} ({str(error).splitlines()[0]})") from None


def read_scored(folder: Path, only: Path | None = None) -> list[Scored]:
    """Return all numbers of a folder, newest first, or those of one file."""
    found = (folder / SCORES).glob("*.json") if only is None else [only]
    paths = sorted(found, key=lambda path: -path.stat().st_mtime)
    if not paths:
        raise InputError(f"{folder} has no scores: run `interleave bench score NAME --out {folder}`")
    try:
        return [Scored.model_validate_json(path.read_bytes()) for path in paths]
    except (OSError, ValidationError) as error:
        raise InputError(f"cannot read the scores of {folder} ({str(error).splitlines()[0]})") from None
