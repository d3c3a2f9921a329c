"""The stages that make the miniature's agents, from the grammar's seed to the ablation table.

The planner learns from exercises that are generated during training and never repeat. So does the critic,
which in its last stage also sees images of the generator. The critics of the ablation share one data set:
requests → collection → scores → selection → rows. The critic and its variants then train on the rows by SFT,
followed by GRPO.
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
"""Critic of collected data. It makes errors like real teachers, so that the data filter has work to do."""
ABLATIONS: Mapping[str, Mapping[str, float]] = {
    "critic": {},
    "critic-no-step": {"accuracy": 1.0, "semantics": 0.0, "quality": 0.0},
    "critic-no-accuracy": {"accuracy": 0.0, "semantics": 0.75, "quality": 0.25},
}
"""Critics trained by GRPO, with their reward weights that differ from the defaults."""
WORK_PER_REQUEST = {"story": 3, "continue": 2}
"""Relative work per request, if it is not one image."""
SFT_RATE = 6e-4
"""Lower than the rate of exercises, to keep what they have taught."""
PLANNING = {
    "plan-story": 13,
    "plan-worked": 8,
    "plan-frames": 16,
    "plan-wider": 3,
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
JUDGING = {"look": 1, "compare": 1, "check": 1, "verdict": 6, "audit": 2, "audit-plan": 9, "done": 1}
EXERCISES = {"planner": PLANNING, "critic": JUDGING, "agent": {**JUDGING, **PLANNING}}
"""Exercises of each role, with their relative frequency."""
TABLE_PLANNING = {"plan-story": 10, "plan-edit": 6, "plan-plain": 1, "look": 2, "compare": 1}
TABLE_JUDGING = {"look": 1, "compare": 1, "check": 1, "verdict": 6, "audit": 1}
TABLE_EXERCISES = {
    "planner": TABLE_PLANNING,
    "critic": TABLE_JUDGING,
    "agent": {**TABLE_PLANNING, **TABLE_JUDGING},
}
"""Exercises for the suites of the table only, as each training has less time."""
FRESH_RATE, EXERCISE_RATE = 1.5e-3, 1e-3
"""Learning rate of exercises for random weights, and for pretrained ones."""
GENERATOR_MINUTES, TOY_MINUTES = 8.5, 0.1
"""Minutes of each stage of the generator, shipped and toy size."""
GRPO_MINUTES = 8
"""Minutes of the first stage of GRPO; the second runs to the end."""
MAIN_AGENTS = ("agent-planner", "agent-critic-sft")
"""Rows without trained agents wait for these, so as not to compete with the trainings."""


@dataclass(frozen=True)
class Sizes:
    """Amounts of data, steps and tasks."""

    requests: Mapping[str, int] = field(  # a second corpus of a suite uses another seed
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
    """Minutes of the exercise stages of each role; each starts from the weights of the previous one."""
    starts: Mapping[str, str] = field(default_factory=dict)
    """Roles that start from the weights of a shipped model instead of random ones."""
    exercises: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: EXERCISES)
    exercise_batch: int = 256
    examine: int = 2048
    """Exercises in the evaluation after each stage."""
    drawings: int = 24_000
    """Generated images for the critic's last exercise stage."""
    critic_steps: int = 1_800
    agent_steps: int = 1_800
    grpo_steps: int = 75
    batch: int = 256
    items: int = 1_000
    more_items: int = 300
    exam: int = 3_000
    suites: tuple[str, ...] = ()
    """Suites of the table; if empty, those of each row."""
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
"""Every training starts from the shipped models, as large agents start from pretrained models."""
FRESH = replace(
    TABLE,
    starts={},
    exercise_minutes={"planner": (8, 8, 8), "critic": (8, 8), "agent": (8, 8)},
    drawings=24_000,
)
"""The same table from random weights, for about twice the time."""
SIZES = {"full": Sizes(), "table": TABLE, "fresh": FRESH, "small": SMALL, "toy": TOY}
SEED_STEP = 10
"""Seed distance between two trainings of the same kind; the stages of one use consecutive seeds."""
REPEATED_ROWS = ("planner", "critic-sft", "full")
"""Rows of the table that further trainings repeat."""


@dataclass(frozen=True)
class ModelFolder:
    """The folder of a model, and the stage that writes it; a shipped model has no stage."""

    path: str
    stage: str = ""

    @property
    def after(self) -> tuple[str, ...]:
        return (self.stage,) if self.stage else ()


@dataclass(frozen=True)
class Chain:
    """Settings of the chain, and the stages derived from them."""

    out: Path
    sizes: Sizes
    generator: str = "mini"
    """Spec of the generator for data, rewards and the table."""
    pipeline: Path | None = None
    """Folder of its pipeline, if it is not the shipped one."""
    faulty_generator: str = "world?mistakes=0.6"
    """A generator with deliberate mistakes that are easy to see."""
    shards: int = 1
    workers: int = 0
    seed: int = 0
    vlm_options: str = ""
    """Options in the specs of learned agents in the table, e.g. batch=256."""
    concurrency: int = 16
    """Concurrent tasks of the table."""
    rows_of: Path | None = None
    """Folder of the chain whose data it trains on, if not its own."""

    def path(self, *names: str) -> str:
        return str(self.out.joinpath(*names))

    def rows(self, name: str) -> str:
        return str((self.rows_of or self.out) / name)

    # Repeated trainings with other seeds

    def again(self, number: int, *, with_table: bool) -> Iterator[Stage]:
        """Yield stages that train planner and critics again on the same data, and their rows of the table."""
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
        """Yield the stages of the VAE, then of text encoder and transformer in two stages."""
        minutes = GENERATOR_MINUTES if shape == "mini" else TOY_MINUTES
        common = ("mini", "train", "generator", "--shape", shape, "--workers", str(self.workers))
        first = (
            *(*common, "--out", self.path("generator-1")),
            *("--vae-minutes", f"{minutes:g}", "--flow-minutes", f"{minutes:g}"),
        )
        yield Stage("generator-vae", (*first, "--max-minutes", "0"), may_end_short=True)
        yield Stage("generator-1", first, ("generator-vae",))
        second = (
            "--start",
            self.path("generator-1", "pipeline"),
            "--vae-minutes",
            "0",
            "--learning-rate",
            "5e-4",
        )
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
        """Split a command into shards, more for a larger corpus; return the names of the stages."""
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
        """Yield generators of different skill that share the requests, so that failures vary."""
        for spec, share in {self.generator: 4, self.faulty_generator: 5}.items():
            yield ("--generator", spec, "--weight", str(share))

    def _score(self, name: str) -> tuple[str, ...]:
        collection = self.path("collections", name)
        return ("data", "score", collection, "--scorer", "oracle", "--concurrency", "256")

    def _export(self, selection: str, rows: str) -> tuple[str, ...]:
        return (
            *("data", "export", self.path(selection), "--out", self.path(rows), "--prompts", PACK),
            *("--images", "referenced", "--no-annotation"),
        )

    # Training

    def language(self) -> Stage:
        """Return the stage that writes what the runtime must know about requests."""
        return Stage("language", ("mini", "language", "--out", self.path("agents", "language.json")))

    def graphs(self) -> Iterator[Stage]:
        """Yield the stages that export the models to ONNX, for the runtime without torch."""
        yield Stage("graphs", ("mini", "onnx", self.path("agents")), ("agent-planner", "agent-critic"))
        if self.pipeline:
            yield Stage("graphs-generator", ("mini", "onnx", str(self.pipeline)), ("generator-2",))

    def planner(self) -> Iterator[Stage]:
        """Yield the stages of the planner, which learns only from exercises."""
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
        """Yield the stages of agents that only the ablation needs."""
        yield from self.unfiltered()
        *_, start = self._exercised("critic")
        yield from self._sft("critic", "critic-unfiltered", "rows-unfiltered", self.sizes.critic_steps, start)
        agent = yield from self._exercises("agent")
        yield from self._sft("agent", "agent", "rows", self.sizes.agent_steps, agent)
        for name in ABLATIONS:
            if name != "critic":
                yield from self.critic_grpo(name)

    def table(self, trained: Collection[str], rows: Collection[str] = ()) -> Iterator[Stage]:
        """Yield a stage for each row, after its agents and in two parts if long, then the table."""
        from interleave_mini.bench.systems import ROWS

        parts = []
        for row in ROWS:
            if not row.learned <= set(trained) or (rows and row.key not in rows):
                continue  # the table marks it as not run
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
        """Yield the exercise stages of a role, each from the weights of the last; return the final model."""
        start, *trained = self._exercised(role)
        if start.stage:
            fresh = ("mini", "fresh", self.sizes.shapes[role], "--out", start.path, "--seed", str(self.seed))
            yield Stage(start.stage, fresh)
        for number, (before, left) in enumerate(pairwise((start, *trained))):
            yield Stage(left.stage, self._exercise(role, number, before), before.after)
        return (start, *trained)[-1]

    def _exercised(self, role: str) -> Iterator[ModelFolder]:
        """Yield the starting model of a role, then the model of each exercise stage."""
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
            *("mini", "train", "vision", start.path, "--out", out, "--workers", str(self.workers)),
            *("--minutes", f"{minutes[number]:g}", "--learning-rate", f"{rate:g}"),
            *("--seed", str(self.seed + number), "--batch", str(self.sizes.exercise_batch)),
            *("--exercises", ",".join(mix), "--eval-items", str(self.sizes.examine)),
            *(("--generated-images", str(self.sizes.drawings)) if draws else ()),
            *(("--generator", str(self.pipeline)) if self.pipeline else ()),
        )

    def _sft(self, job: str, name: str, rows: str, steps: int, start: ModelFolder) -> Iterator[Stage]:
        """Yield the stages of SFT on the rows, starting from the model after the exercises."""
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
        """Return batch options: plans are grouped by length, and two device batches make a step.

        Verdicts are not grouped: rejections are longer, so every batch would hold only one outcome.
        """
        if job == "critic":
            return ("--device-batch", str(self.sizes.batch), "--set", "training.group_by_length=false")
        return ("--device-batch", str(self.sizes.batch // 2))

    def _fp16_copy(self, name: str, trained: ModelFolder) -> Stage:
        command = ("mini", "to-fp16", trained.path, "--out", self.path("agents", name))
        return Stage(f"agent-{name}", command, trained.after)
