"""The stages that make the miniature's agents, from the grammar's seed to the ablation table.

The planner learns from exercises that never repeat, made while it trains; so does the critic, in the end also
about images of the generator. For the critics of the ablation: requests → collection → scores → selection →
rows, once for all; then the critic trains on its rows by SFT, further by GRPO, and so do the variants.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path

from interleave_mini import WEIGHTS
from miniature.cli.chain import Stage

PACK = "mini"
TEACHER = "oracle?refine=varied&errs=0.1"
"""The critic of collected data. It errs as real teachers do: the filter of the data has something to drop."""
ABLATIONS: Mapping[str, Mapping[str, float]] = {
    "critic": {},
    "critic-no-step": {"accuracy": 1.0, "semantics": 0.0, "quality": 0.0},
    "critic-no-accuracy": {"accuracy": 0.0, "semantics": 0.75, "quality": 0.25},
}
"""The critics trained by GRPO, with the reward weights that differ from the defaults."""
WORK_PER_REQUEST = {"story": 3, "continue": 2}
"""Relative work per request, where it is not one image."""
SFT_RATE = 6e-4
"""Lower than that of exercises: what these have taught must be kept."""
PLANNING = {
    "plan-story": 13,
    "plan-worked": 3,
    "plan-continue": 3,
    "plan-know": 1,
    "plan-edit": 3,
    "plan-plain": 5,
    "plan-annotate": 2,
    "plan-robot": 1,
    "segment": 1,
    "again": 1,
    "look": 1,
    "compare": 1,
}
JUDGING = {"look": 1, "compare": 1, "check": 1, "verdict": 6, "audit": 2, "done": 1}
EXERCISES = {"planner": PLANNING, "critic": JUDGING, "agent": {**JUDGING, **PLANNING}}
"""The exercises of each role, and how often each comes."""
TABLE_PLANNING = {"plan-story": 10, "plan-edit": 6, "plan-plain": 1, "look": 2, "compare": 1}
TABLE_JUDGING = {"look": 1, "compare": 1, "check": 1, "verdict": 6, "audit": 1}
TABLE_EXERCISES = {
    "planner": TABLE_PLANNING,
    "critic": TABLE_JUDGING,
    "agent": {**TABLE_PLANNING, **TABLE_JUDGING},
}
"""For the suites of the table alone: there is less time for each training."""
FRESH_RATE, EXERCISE_RATE = 1.5e-3, 1e-3
"""The learning rate of exercises for random weights, and for those that were trained before."""
GENERATOR_MINUTES, TOY_MINUTES = 8.5, 0.1
"""The time of each stage of the generator."""
GRPO_MINUTES = 8
"""The time of the first stage of GRPO; the second goes on to the end."""
MAIN_AGENTS = ("agent-planner", "agent-critic-sft")
"""Rows without trained agents wait for these, so that they do not take the trainings' time."""


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
            "plain": 3_000,
            "annotate": 1_500,
        }
    )
    shapes: Mapping[str, str] = field(
        default_factory=lambda: {"planner": "planner", "critic": "critic", "agent": "agent"}
    )
    """Model shapes by role."""
    exercise_minutes: Mapping[str, tuple[float, ...]] = field(
        default_factory=lambda: {"planner": (8, 8, 8), "critic": (8, 8), "agent": (8, 8)}
    )
    """The stages of exercises of each role: each goes on from the weights of the one before."""
    starts: Mapping[str, str] = field(default_factory=dict)
    """Roles that begin with the weights of a model that ships, instead of random ones."""
    exercises: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: EXERCISES)
    exercise_batch: int = 256
    examine: int = 2048
    """Exercises in the examination after each stage."""
    drawings: int = 24_000
    """Images of the generator for the critic's last stage of exercises."""
    critic_steps: int = 1_800
    agent_steps: int = 1_800
    grpo_steps: int = 75
    batch: int = 256
    items: int = 1_000
    more_items: int = 300
    exam: int = 3_000
    suites: tuple[str, ...] = ()
    """Of the table; empty: the suites of each row."""
    grpo: Mapping[str, int] = field(
        default_factory=lambda: {"prompts": 64, "samples": 8, "device_batch": 512}
    )


TOY = Sizes(
    requests={"story": 24, "continue": 6, "edit": 6, "know": 6, "plain": 6, "annotate": 6},
    shapes={"planner": "toy", "critic": "toy", "agent": "toy"},
    exercise_minutes={"planner": (0.02, 0.02), "critic": (0.02,), "agent": (0.02,)},
    exercise_batch=8,
    examine=64,
    drawings=8,
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
    requests={"story": 800, "continue": 120, "edit": 240, "know": 120, "plain": 120, "annotate": 120},
    exercise_minutes={"planner": (0.5, 0.5), "critic": (0.5,), "agent": (0.5,)},
    drawings=2_000,
    critic_steps=60,
    agent_steps=60,
    grpo_steps=4,
    items=24,
    more_items=12,
    exam=200,
)
TABLE = Sizes(
    requests={"story": 2_600, "edit": 1_800, "plain": 600},
    exercise_minutes={"planner": (5,), "critic": (), "agent": (8.5,)},
    starts={"planner": "planner", "critic": "critic", "agent": "planner"},
    exercises=TABLE_EXERCISES,
    examine=0,
    drawings=0,
    critic_steps=150,
    agent_steps=300,
    grpo_steps=110,
    items=400,
    more_items=300,
    exam=600,
    suites=("story", "edit"),
    grpo={"prompts": 64, "samples": 8, "device_batch": 128},
)
"""Every training begins with the models that ship, as large agents begin with one that has seen much."""
SIZES = {"full": Sizes(), "table": TABLE, "small": SMALL, "toy": TOY}
SEED_STEP = 10
"""Between two trainings of the same kind: the stages of one have seeds that follow each other."""
REPEATED_ROWS = ("planner", "critic-sft", "full")
"""The rows of the table that further trainings repeat."""


@dataclass(frozen=True)
class ModelFolder:
    """The folder of a model, and the stage that writes it; one that ships has none."""

    path: str
    stage: str = ""

    @property
    def after(self) -> tuple[str, ...]:
        return (self.stage,) if self.stage else ()


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
    rows_of: Path | None = None
    """The chain whose data it trains on, where that is not its own."""

    def path(self, *names: str) -> str:
        return str(self.out.joinpath(*names))

    def rows(self, name: str) -> str:
        return str((self.rows_of or self.out) / name)

    # The same again with another seed

    def again(self, number: int, *, with_table: bool) -> Iterator[Stage]:
        """Planner and critics trained once more, on the same data; and their rows of the table."""
        other = replace(
            self,
            out=self.out / f"seed-{number}",
            seed=self.seed + SEED_STEP * number,
            rows_of=self.rows_of or self.out,
        )
        stages = [*other.planner(), *other.critic_sft(), *other.critic_grpo()]
        if with_table:
            stages += other.table({"planner", "critic-sft", "critic"}, REPEATED_ROWS)
        own = {each.name for each in stages}
        for each in stages:
            after = tuple(f"seed-{number}-{name}" if name in own else name for name in each.after)
            yield replace(each, name=f"seed-{number}-{each.name}", after=after)

    # The generator

    def generator_stages(self, shape: str) -> Iterator[Stage]:
        """The image encoder; then text encoder and transformer, in two stages."""
        minutes = GENERATOR_MINUTES if shape == "mini" else TOY_MINUTES
        common = ("mini", "train", "generator", "--shape", shape, "--workers", str(self.workers))
        first = (
            *(*common, "--out", self.path("generator-1")),
            *("--vae-minutes", f"{minutes:g}", "--flow-minutes", f"{minutes:g}"),
        )
        yield Stage("generator-vae", (*first, "--stop-after", "0"), may_end_short=True)
        yield Stage("generator-1", first, ("generator-vae",))
        second = ("--start", self.path("generator-1", "pipeline"), "--vae-minutes", "0", "--rate", "5e-4")
        yield Stage(
            "generator-2",
            (*common, "--out", self.path("generator-2"), *second, "--flow-minutes", f"{minutes:g}"),
            ("generator-1",),
        )

    # Data

    def data(self) -> Iterator[Stage]:
        scored: list[str] = []
        for name, items in self.sizes.requests.items():
            suite, _, more = name.partition("-")
            yield Stage(f"requests-{name}", self._prompts(name, suite, items, self.seed + int(more or 0)))
            collect = [self._collect(name), *self._generators()]
            collected = yield from self._sharded(f"collect-{name}", name, collect, (f"requests-{name}",))
            scored += yield from self._sharded(f"score-{name}", name, [self._score(name)], collected)
        select = ("data", "select", *self._collections, "--out", self.path("selection"))
        yield Stage("select", select, tuple(scored))
        yield Stage("export", self._export("selection", "rows"), ("select",))

    @property
    def _collections(self) -> tuple[str, ...]:
        return tuple(self.path("collections", name) for name in self.sizes.requests)

    def _sharded(
        self, name: str, corpus: str, words: Sequence[tuple[str, ...]], after: tuple[str, ...]
    ) -> Generator[Stage, None, tuple[str, ...]]:
        """A command split into shards, more of them for a larger corpus; returns the names of the stages."""
        work = {
            name: count * WORK_PER_REQUEST.get(name.split("-")[0], 1)
            for name, count in self.sizes.requests.items()
        }
        shards = max(1, round(self.shards * work[corpus] / sum(work.values())))
        names = tuple(f"{name}.{shard}" for shard in range(1, shards + 1))
        for shard, each in enumerate(names, start=1):
            part = ("--shard", f"{shard}/{shards}") if shards > 1 else ()
            yield Stage(each, (*chain.from_iterable(words), *part), after, may_end_short=True)
        return names

    def unfiltered(self) -> Iterator[Stage]:
        out = self.path("selection-unfiltered")
        select = ("data", "select", *self._collections, "--no-filter", "--out", out)
        yield Stage("select-unfiltered", select, ("select",))
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
            *("--critic", TEACHER, "--prompts", PACK, "--max-attempts", "3"),
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

    def language(self) -> Stage:
        """What the runtime has to know of requests, beside the agents that are trained on them."""
        return Stage("language", ("mini", "language", "--out", self.path("agents", "language.json")))

    def planner(self) -> Iterator[Stage]:
        """The planner, which learns from exercises alone."""
        trained = yield from self._exercises("planner")
        yield self._fp16_copy("planner", trained)

    def critic_sft(self) -> Iterator[Stage]:
        start = yield from self._exercises("critic")
        yield self._fp16_copy("critic-exercises", start)
        yield from self._sft("critic", "critic-sft", "rows", self.sizes.critic_steps, start)

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
            *("train", "grpo", "--config", "mini-grpo", "--data", self.rows("rows")),
            *("--model", self.path("train", "critic-sft", "model"), "--out", self.path("train", name)),
            *("--generator", self.generator, "--scorer", "oracle", "--steps", str(self.sizes.grpo_steps)),
            *("--device-batch", str(self.sizes.grpo["device_batch"]), "--trust-data", *settings, *weights),
            *("--seed", str(self.seed)),
        )
        limited = (*command, "--max-minutes", f"{GRPO_MINUTES:g}")
        yield Stage(f"grpo-{name}-1", limited, ("sft-critic-sft",), may_end_short=True)
        yield Stage(f"grpo-{name}", command, (f"grpo-{name}-1",))
        yield self._fp16_copy(name, ModelFolder(self.path("train", name, "model"), f"grpo-{name}"))

    def variants(self) -> Iterator[Stage]:
        """Agents that only the ablation needs."""
        yield from self.unfiltered()
        *_, start = self._exercised("critic")
        yield from self._sft("critic", "critic-unfiltered", "rows-unfiltered", self.sizes.critic_steps, start)
        agent = yield from self._exercises("agent")
        yield from self._sft("agent", "agent", "rows", self.sizes.agent_steps, agent)
        for name in ABLATIONS:
            if name != "critic":
                yield from self.critic_grpo(name)

    def table(self, trained: Collection[str], rows: Collection[str] = ()) -> Iterator[Stage]:
        """Every row, or some, as soon as its agents are trained, long ones in two parts; then the table."""
        from interleave_mini.bench.systems import ROWS

        parts = []
        for row in ROWS:
            if not row.learned <= set(trained) or (rows and row.key not in rows):
                continue  # the table says that it was not run
            after = tuple(f"agent-{name}" for name in sorted(row.learned)) or MAIN_AGENTS
            short = row.further or self.sizes.suites
            for number, some in enumerate([()] if short else [row.suites[:1], row.suites[1:]], start=1):
                exam = self.sizes.exam if number == 1 and row.critic else 0
                more = ("--rows", row.key, *(("--suites", ",".join(some)) if some else ()))
                parts.append(f"table-{row.key}-{number}")
                yield Stage(parts[-1], self._table(exam, *more), after, may_end_short=True)
        some = ("--rows", ",".join(rows)) if rows else ()
        yield Stage(
            "table",
            self._table(self.sizes.exam, *some),
            tuple(parts),
            may_end_short=True,
            after_failures=True,
        )

    def _table(self, exam: int, *more: str) -> tuple[str, ...]:
        options = ("--vlm-options", self.vlm_options) if self.vlm_options else ()
        suites = ("--suites", ",".join(self.sizes.suites)) if self.sizes.suites else ()
        return (
            *("bench", "mini", "--table", "ablation", "--trained", str(self.out)),
            *("--items", str(self.sizes.items), "--more-items", str(self.sizes.more_items)),
            *("--exam", str(exam), "--failures", str(exam // 20)),
            *("--generator", self.generator, *options, "--concurrency", str(self.concurrency)),
            *("--out", self.path("table"), *more, *suites),
        )

    def _exercises(self, role: str) -> Generator[Stage, None, ModelFolder]:
        """A model and its exercises, each stage from the weights of the last; returns what they leave."""
        start, *trained = self._exercised(role)
        if start.stage:
            fresh = ("mini", "fresh", self.sizes.shapes[role], "--out", start.path, "--seed", str(self.seed))
            yield Stage(start.stage, fresh)
        for number, (before, left) in enumerate(pairwise((start, *trained))):
            yield Stage(left.stage, self._exercise(role, number, before), before.after)
        return (start, *trained)[-1]

    def _exercised(self, role: str) -> Iterator[ModelFolder]:
        """What the exercises of a role begin with, and what each stage of them leaves."""
        if shipped := self.sizes.starts.get(role):
            yield ModelFolder(str(WEIGHTS / shipped))
        else:
            yield ModelFolder(self.path("fresh", role), f"fresh-{role}")
        for number in range(1, len(self.sizes.exercise_minutes[role]) + 1):
            name = f"exercises-{role}-{number}"
            yield ModelFolder(self.path("exercises", name, "model"), name)

    def _exercise(self, role: str, number: int, start: ModelFolder) -> tuple[str, ...]:
        mix = [name for name, times in self.sizes.exercises[role].items() for _ in range(times)]
        minutes = self.sizes.exercise_minutes[role]
        rate = EXERCISE_RATE if number or role in self.sizes.starts else FRESH_RATE
        draws = role == "critic" and number == len(minutes) - 1 and self.sizes.drawings
        out = self.path("exercises", f"exercises-{role}-{number + 1}")
        return (
            *("mini", "train", "sight", start.path, "--out", out, "--workers", str(self.workers)),
            *("--minutes", f"{minutes[number]:g}", "--rate", f"{rate:g}"),
            *("--seed", str(self.seed + number), "--batch", str(self.sizes.exercise_batch)),
            *("--exercises", ",".join(mix), "--examine", str(self.sizes.examine)),
            *(("--drawings", str(self.sizes.drawings)) if draws else ()),
            *(("--generator", str(self.pipeline)) if self.pipeline else ()),
        )

    def _sft(self, job: str, name: str, rows: str, steps: int, start: ModelFolder) -> Iterator[Stage]:
        """SFT on the rows, from the model that the exercises have left."""
        command = (
            *("train", "sft", job, "--config", "mini-sft", "--data", self.rows(rows)),
            *("--model", start.path, "--out", self.path("train", name)),
            *("--steps", str(steps), "--batch", str(self.sizes.batch)),
            *("--learning-rate", f"{SFT_RATE:g}", "--workers", str(self.workers)),
            *("--trust-data", *self._grouped(job), "--seed", str(self.seed)),
        )
        yield Stage(f"sft-{name}", command, (*start.after, rows.replace("rows", "export")))
        yield self._fp16_copy(name, ModelFolder(self.path("train", name, "model"), f"sft-{name}"))

    def _grouped(self, job: str) -> tuple[str, ...]:
        """Plans differ much in length: rows are grouped by length, and two device batches make a step.

        Verdicts are not grouped: rejections are the longer ones, and every batch would hold one outcome only.
        """
        if job == "critic":
            return ("--device-batch", str(self.sizes.batch), "--set", "training.group_by_length=false")
        return ("--device-batch", str(self.sizes.batch // 2))

    def _fp16_copy(self, name: str, trained: ModelFolder) -> Stage:
        command = ("mini", "halve", trained.path, "--out", self.path("agents", name))
        return Stage(f"agent-{name}", command, trained.after)
