"""The stages that make the miniature's agents, from the grammar's seed to the ablation table.

requests → collection → scores → selection → rows, once for all; then each agent trains on its rows: planner,
critic and one agent for both roles by SFT, the critic further by GRPO, and the variants of the ablation.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from interleave_mini.cli.chain import Stage

PACK = "mini"
ABLATIONS: Mapping[str, Mapping[str, float]] = {
    "critic": {},
    "critic-no-step": {"accuracy": 1.0, "semantics": 0.0, "quality": 0.0},
    "critic-no-accuracy": {"accuracy": 0.0, "semantics": 0.75, "quality": 0.25},
}
"""The critics trained by GRPO, with the reward weights that differ from the defaults."""
WORK_PER_REQUEST = {"story": 3, "continue": 2, "plans": 0.25}
"""Relative work per request, where it is not one picture."""
RATES = {"planner": 1e-3, "critic": 6e-4, "agent": 1e-3}
"""Learning rates of SFT: lower for the critic, which must keep what vision pretraining taught it."""
EXERCISES = {
    "planner": ("look", "compare"),
    "critic": ("look", "compare", "check", "judge", "judge", "judge", "word"),
}
"""The exercises of vision pretraining; the agent for both roles starts from the critic's model."""
SHIPPED = ("sft-planner", "sft-critic-sft")
"""Variants wait for these: the models that are shipped train first."""


@dataclass(frozen=True)
class Sizes:
    """Amounts of data, steps and tasks."""

    requests: Mapping[str, int] = field(  # a second corpus of a suite has another seed
        default_factory=lambda: {
            "story": 13_000,
            "continue": 2_400,
            "edit": 4_500,
            "edit-2": 4_500,
            "know": 1_200,
            "annotate": 1_500,
        }
    )
    shapes: Mapping[str, str] = field(default_factory=lambda: {"planner": "planner", "critic": "critic"})
    """Model shapes by role; the agent for both roles has the critic's."""
    plans: Mapping[str, int] = field(
        default_factory=lambda: {
            **{f"plans-story-{number}": 16_000 for number in range(1, 9)},
            "plans-continue-1": 7_000,
            "plans-continue-2": 7_000,
            "plans-know-1": 16_000,
            "plans-edit-1": 12_000,
            "plans-edit-2": 12_000,
            "plans-annotate-1": 6_000,
        }
    )
    """Requests that are only planned: the planner needs no pictures to learn from them."""
    vision_minutes: Mapping[str, float] = field(default_factory=lambda: {"planner": 3.5, "critic": 8})
    vision_batch: int = 256
    planner_steps: int = 3_600
    critic_steps: int = 1_800
    agent_steps: int = 1_800
    grpo_steps: int = 100
    batch: int = 256
    items: int = 1_000
    more_items: int = 300
    exam: int = 3_000
    grpo: Mapping[str, int] = field(
        default_factory=lambda: {"prompts": 64, "samples": 8, "device_batch": 512}
    )


TOY = Sizes(
    requests={"story": 24, "continue": 6, "edit": 6, "know": 6, "annotate": 6},
    shapes={"planner": "toy", "critic": "toy"},
    plans={"plans-story-1": 12},
    vision_minutes={"planner": 0.02, "critic": 0.02},
    vision_batch=8,
    planner_steps=4,
    critic_steps=4,
    agent_steps=4,
    grpo_steps=2,
    batch=8,
    items=2,
    more_items=2,
    exam=8,
    grpo={"prompts": 2, "samples": 2, "device_batch": 4},
)
SMALL = Sizes(
    requests={"story": 800, "continue": 120, "edit": 240, "know": 120, "annotate": 120},
    plans={"plans-story-1": 800, "plans-know-1": 200},
    vision_minutes={"planner": 0.5, "critic": 0.5},
    planner_steps=60,
    critic_steps=60,
    agent_steps=60,
    grpo_steps=4,
    items=24,
    more_items=12,
    exam=200,
)
SIZES = {"full": Sizes(), "small": SMALL, "toy": TOY}


@dataclass(frozen=True)
class Chain:
    """The settings of the chain, and the stages that follow from them."""

    out: Path
    sizes: Sizes
    generator: str = "mini"
    """The spec of the generator that draws for data, rewards and the table."""
    pipeline: Path | None = None
    """Its folder, where it is not the one that ships."""
    faulty_generator: str = "world?mistakes=0.6"
    """A generator that errs on purpose, and whose mistakes are easy to see."""
    shards: int = 1
    workers: int = 0
    seed: int = 0
    vlm_options: str = ""
    """For the specs of learned agents in the table, e.g. batch=256."""
    concurrency: int = 16
    """Concurrent tasks of the table."""

    def path(self, *names: str) -> str:
        return str(self.out.joinpath(*names))

    # Data

    def data(self) -> Iterator[Stage]:
        scored: list[str] = []
        for name, items in self.sizes.requests.items():
            suite, _, more = name.partition("-")
            yield Stage(f"requests-{name}", self._prompts(name, suite, items, self.seed + int(more or 0)))
            collect = [self._collect(name), *self._generators()]
            collected = yield from self._sharded(f"collect-{name}", name, collect, (f"requests-{name}",))
            scored += yield from self._sharded(f"score-{name}", name, [self._score(name)], collected)
        for number, (name, items) in enumerate(self.sizes.plans.items(), start=1):
            suite = name.split("-")[1]
            yield Stage(f"requests-{name}", self._prompts(name, suite, items, self.seed + 100 + number))
            plan_only = [self._collect(name), ("--generator", "world", "--max-calls", "1")]
            planned = yield from self._sharded(f"collect-{name}", name, plan_only, (f"requests-{name}",))
            scored += yield from self._sharded(f"score-{name}", name, [self._score(name)], planned)
        select = ("data", "select", *self._collections, "--out", self.path("selection"))
        yield Stage("select", select, tuple(scored))
        yield Stage("export", self._export("selection", "rows"), ("select",))

    @property
    def _collections(self) -> tuple[str, ...]:
        return tuple(self.path("collections", name) for name in (*self.sizes.requests, *self.sizes.plans))

    def _sharded(
        self, name: str, corpus: str, words: Sequence[tuple[str, ...]], after: tuple[str, ...]
    ) -> Generator[Stage, None, tuple[str, ...]]:
        """A command split into shards, more of them for a larger corpus; returns the names of the stages."""
        items = {**self.sizes.requests, **self.sizes.plans}
        work = {name: count * WORK_PER_REQUEST.get(name.split("-")[0], 1) for name, count in items.items()}
        shards = max(1, round(self.shards * work[corpus] / sum(work.values())))
        names = tuple(f"{name}.{shard}" for shard in range(1, shards + 1))
        for shard, each in enumerate(names, start=1):
            part = ("--shard", f"{shard}/{shards}") if shards > 1 else ()
            yield Stage(each, (*chain.from_iterable(words), *part), after, may_end_short=True)
        return names

    def unfiltered(self) -> Iterator[Stage]:
        out = self.path("selection-unfiltered")
        select = ("data", "select", *self._collections, "--no-filter", "--out", out)
        yield Stage("select-unfiltered", select, SHIPPED)
        yield Stage(
            "export-unfiltered",
            self._export("selection-unfiltered", "rows-unfiltered"),
            ("select-unfiltered",),
        )

    def _prompts(self, name: str, suite: str, items: int, seed: int) -> tuple[str, ...]:
        return (
            *("data", "prompts", "--source", "mini", "--suite", suite, "--items", str(items)),
            *("--seed", str(seed), "--out", self.path("requests", f"{name}.jsonl")),
        )

    def _collect(self, name: str) -> tuple[str, ...]:
        return (
            *("data", "collect", self.path("requests", f"{name}.jsonl")),
            *("--out", self.path("collections", name), "--planner", "oracle"),
            *("--critic", "oracle?refine=varied", "--prompts", PACK, "--max-attempts", "3"),
            *("--seed", str(self.seed), "--concurrency", "256"),
        )

    def _generators(self) -> Iterator[tuple[str, ...]]:
        """Generators of different skill share the requests, so that the critic sees every kind of failure."""
        for spec, share in {self.generator: 4, self.faulty_generator: 5}.items():
            yield ("--generator", spec, "--weight", str(share))

    def _score(self, name: str) -> tuple[str, ...]:
        collection = self.path("collections", name)
        return ("data", "score", collection, "--scorer", "oracle", "--concurrency", "256")

    def _export(self, selection: str, rows: str) -> tuple[str, ...]:
        return (
            *("data", "export", self.path(selection), "--out", self.path(rows), "--prompts", PACK),
            *("--pictures", "referenced", "--no-annotation"),
        )

    # Training

    def planner(self) -> Iterator[Stage]:
        yield from self._sft("planner", "planner", "rows", self.sizes.planner_steps, "planner")

    def critic_sft(self) -> Iterator[Stage]:
        yield from self._sft("critic", "critic-sft", "rows", self.sizes.critic_steps, "critic")

    def critic_grpo(self, name: str = "critic") -> Iterator[Stage]:
        weights = [
            word
            for part, weight in ABLATIONS[name].items()
            for word in ("--set", f"reward.{part}={weight:g}")
        ]
        settings = [
            word for key in ("prompts", "samples") for word in ("--set", f"grpo.{key}={self.sizes.grpo[key]}")
        ]
        command = (
            *("train", "grpo", "--config", "mini-grpo", "--data", self.path("rows")),
            *("--model", self.path("train", "critic-sft", "model"), "--out", self.path("train", name)),
            *("--generator", self.generator, "--scorer", "oracle", "--steps", str(self.sizes.grpo_steps)),
            *("--device-batch", str(self.sizes.grpo["device_batch"]), "--trust-data", *settings, *weights),
        )
        yield Stage(f"grpo-{name}", command, ("sft-critic-sft",))
        yield self._fp16_copy(name, f"grpo-{name}")

    def variants(self) -> Iterator[Stage]:
        """Agents that only the ablation needs."""
        yield from self.unfiltered()
        yield from self._sft(
            "critic", "critic-unfiltered", "rows-unfiltered", self.sizes.critic_steps, "critic"
        )
        yield from self._sft("agent", "agent", "rows", self.sizes.agent_steps, "critic")
        for name in ABLATIONS:
            if name != "critic":
                yield from self.critic_grpo(name)

    def table(self, trained: Collection[str]) -> Iterator[Stage]:
        """Every row as soon as its agents are trained, long ones in two parts; then the whole table."""
        from interleave_mini.bench.systems import ROWS

        parts = []
        for row in ROWS:
            if not row.learned <= set(trained):
                continue  # the table says that it was not run
            first = {"critic"} if row.critic in trained else set[str]()  # what is shipped trains first
            after = tuple(f"agent-{name}" for name in sorted(row.learned | first)) or SHIPPED
            for number, some in enumerate([()] if row.further else [row.suites[:1], row.suites[1:]], start=1):
                exam = self.sizes.exam if number == 1 and row.critic else 0
                more = ("--rows", row.key, *(("--suites", ",".join(some)) if some else ()))
                parts.append(f"table-{row.key}-{number}")
                yield Stage(parts[-1], self._table(exam, *more), after, may_end_short=True)
        yield Stage(
            "table", self._table(self.sizes.exam), tuple(parts), may_end_short=True, after_failures=True
        )

    def _table(self, exam: int, *more: str) -> tuple[str, ...]:
        options = ("--vlm-options", self.vlm_options) if self.vlm_options else ()
        return (
            *("bench", "mini", "--table", "ablation", "--trained", str(self.out)),
            *("--items", str(self.sizes.items), "--more-items", str(self.sizes.more_items)),
            *("--exam", str(exam), "--failures", str(exam // 20)),
            *("--generator", self.generator, *options, "--concurrency", str(self.concurrency)),
            *("--out", self.path("table"), *more),
        )

    def vision(self) -> Iterator[Stage]:
        """Vision pretraining, one model of each shape; every agent starts from one of them."""
        for name, shape in self.sizes.shapes.items():
            fresh, out = self.path("fresh", name), self.path("sight", name)
            yield Stage(f"fresh-{name}", ("mini", "fresh", shape, "--out", fresh))
            command = (
                *("mini", "train", "sight", fresh, "--out", out, "--workers", str(self.workers)),
                *(
                    "--minutes",
                    f"{self.sizes.vision_minutes[name]:g}",
                    "--batch",
                    str(self.sizes.vision_batch),
                ),
                *("--exercises", ",".join(EXERCISES[name])),
                *("--examine", str(8 * self.sizes.vision_batch)),
                *(("--generator", str(self.pipeline)) if self.pipeline else ()),
            )
            yield Stage(f"sight-{name}", command, (f"fresh-{name}",))

    def _sft(self, job: str, name: str, rows: str, steps: int, shape: str) -> Iterator[Stage]:
        model = self.path("sight", shape, "model")
        before = {"planner": ("export",), "critic-sft": ("export",), "agent": SHIPPED}.get(
            name, ("export-unfiltered",)
        )
        command = (
            *("train", "sft", job, "--config", "mini-sft", "--data", self.path(rows), "--model", model),
            *("--out", self.path("train", name), "--steps", str(steps), "--batch", str(self.sizes.batch)),
            *("--learning-rate", f"{RATES[job]:g}", "--workers", str(self.workers)),
            *("--trust-data", *self._grouped(job)),
        )
        yield Stage(f"sft-{name}", command, (f"sight-{shape}", *before))
        yield self._fp16_copy(name, f"sft-{name}")

    def _grouped(self, job: str) -> tuple[str, ...]:
        """Plans differ much in length: rows are grouped by length, and two device batches make a step.

        Verdicts are not grouped: rejections are the longer ones, and every batch would hold one outcome only.
        """
        if job == "critic":
            return ("--device-batch", str(self.sizes.batch), "--set", "training.group_by_length=false")
        return ("--device-batch", str(self.sizes.batch // 2))

    def _fp16_copy(self, name: str, after: str) -> Stage:
        source, out = self.path("train", name, "model"), self.path("agents", name)
        return Stage(f"agent-{name}", ("mini", "halve", source, "--out", out), (after,))
