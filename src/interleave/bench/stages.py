"""The stages of a benchmark on one folder: run, judge, score. Each goes on where it was left.

DIR/bench.json        what is measured: the benchmark, its data, the system
DIR/runs/…            the runs, by how many attempts they were allowed
DIR/outputs/….jsonl   what the system answered
DIR/judge/….jsonl     what the judge said of it, one file for each judge and wording
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


class Description(Value):
    """The `bench.json` of a folder."""

    benchmark: str
    version: str
    data: str
    revision: str
    system: str
    """`base`, `plan`, `full`, `imported`, or `critic` for benchmarks of critics."""
    models: dict[str, str] = Field(default_factory=dict)


class Scored(Value):
    """The file of a folder's numbers."""

    description: Description
    outputs: str
    judge: str
    prompts: str
    outcome: Outcome
    groups: dict[str, str]
    """The group of every item, for comparing with other systems."""


@dataclass(frozen=True)
class Workspace:
    """The folder of one system on one benchmark."""

    benchmark: Benchmark
    dataset: Dataset
    folder: Path
    data: Path
    """Where the data lies."""

    def describe(self, system: str, models: Mapping[str, str]) -> None:
        """Write down what is measured here; refuse a folder where that is something else."""
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
        """The outputs of a name such as `attempts-5`."""
        if self.benchmark.tests == "critics":
            return {}
        return read_outputs(self.folder / OUTPUTS / f"{name}.jsonl")

    def output_names(self) -> list[str]:
        """Those there are, the one with most attempts first."""
        found = [path.stem for path in (self.folder / OUTPUTS).glob("*.jsonl")]
        return sorted(found, key=lambda name: (-int("0" + "".join(filter(str.isdigit, name))), name))

    def keep_imported(self, path: Path) -> dict[str, Output]:
        """Take outputs that were made elsewhere."""
        outputs = {
            output.item: with_digests(output, self.folder)
            for output in self.benchmark.import_outputs(self.dataset, path)
        }
        write_outputs(self.folder / OUTPUTS / f"{IMPORTED}.jsonl", outputs.values())
        return outputs

    def judged(self, name: str, judge: str, prompts: JudgePrompts) -> Judged:
        return Judged(self.benchmark, self.dataset, self.outputs(name), self.folder, judge, prompts)

    def score(self, name: str, judged: Judged, missing: Missing) -> Scored:
        """Compute the numbers of what was judged, and write them down."""
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
    """Find and check the data; nothing is written yet.

    Data of the Hub has the commit that is asked for, else the one this folder began with.
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
    """The commit of the Hub's data that a folder began with."""
    there = read_description(folder)
    if there is None or benchmark.hub is None:
        return None
    repository, _, commit = there.data.rpartition("@")
    return commit if repository == benchmark.hub.repository else None


def judge_prompts(benchmark: Benchmark, checkout: Path | None, pack: str | None = None) -> JudgePrompts:
    """Our words, those of a checkout of the benchmark, or those of a prompt pack."""
    if (own := benchmark.words(pack)) is not None:
        if checkout is not None:
            raise ConfigurationError(f"{benchmark.name} asks in the words of a prompt pack: --prompts PACK")
        return own
    if checkout is None:
        return reworded_prompts(benchmark.asks_as or benchmark.name, benchmark.package_folders)
    if not benchmark.official_prompts:
        raise ConfigurationError(f"where {benchmark.name} keeps its judge's prompts is not known here")
    return official_prompts(checkout, benchmark.official_prompts)


def judge_name(spec: str) -> str:
    """What a number's name says of the judge: the model, without how it is reached."""
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
        raise RunError(f"{path} cannot be read ({str(error).splitlines()[0]})") from None


def read_scored(folder: Path, only: Path | None = None) -> list[Scored]:
    """All numbers of a folder, the newest first, or those of one of its files."""
    found = (folder / SCORES).glob("*.json") if only is None else [only]
    paths = sorted(found, key=lambda path: -path.stat().st_mtime)
    if not paths:
        raise InputError(f"{folder} has no scores: `interleave bench NAME score --out {folder}` makes them")
    try:
        return [Scored.model_validate_json(path.read_bytes()) for path in paths]
    except (OSError, ValidationError) as error:
        raise InputError(f"{folder}: scores cannot be read ({str(error).splitlines()[0]})") from None
