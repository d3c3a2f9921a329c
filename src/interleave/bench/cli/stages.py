"""The stages of a benchmark, from options to printed results."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from interleave import ConfigurationError, load_vlm
from interleave.bench.base import Benchmark
from interleave.bench.cli.options import BenchOptions
from interleave.bench.judge import Judged, JudgeSession, estimate
from interleave.bench.prompts import IMPORTED as ASKED_ELSEWHERE
from interleave.bench.prompts import JudgePrompts
from interleave.bench.published import differences_from_published, measured_name
from interleave.bench.records import by_item
from interleave.bench.report import published_views, write_report
from interleave.bench.run import SYSTEMS, Cluster, System, run_system
from interleave.bench.stages import (
    IMPORTED,
    VERDICTS,
    Scored,
    Workspace,
    judge_name,
    judge_prompts,
    open_workspace,
    read_description,
)
from interleave.bench.views import bounds_of, in_digits
from interleave.plugin import (
    Limits,
    batches,
    cli,
    count,
    did_you_mean,
    make_console,
    progress_bar,
    resolve,
    slug,
    split_choices,
    text,
)

if TYPE_CHECKING:
    from rich.console import Console

    from interleave.bench.scoring import Measured


def run_stages(benchmark: Benchmark, stage: str, given: BenchOptions) -> int:
    """Carry out one stage, or all of them. Return the exit code."""
    console = make_console()
    if unused := [
        option
        for option, value in (("--judge-prompts", given.judge_prompts), ("--import-judge", given.judgements))
        if value is not None and stage in ("run", "export")
    ]:
        raise ConfigurationError(f"{unused[0]} goes with bench run, judge, score and report")
    if given.shard is not None and stage != "run":
        raise ConfigurationError(
            "--shard goes with bench generate: judge and score when all shards have ended"
        )
    folder = given.out or default_folder(benchmark, given)
    workspace = open_workspace(benchmark, folder, given.data, given.items, given.data_revision)
    for note in workspace.dataset.notes:
        console.print(f"{benchmark.title}: {note}")
    # before anything is drawn: a benchmark without judge prompts must not cost a run
    prompts = None if stage in ("run", "export") else _prompts(benchmark, given)
    if given.dry_run:
        return _dry_run(workspace, given, prompts, console)
    if stage in ("all", "run"):
        _run(workspace, given, console)
    elif given.judgements is not None and not workspace.output_names():
        workspace.describe(*_system(workspace, given))
    if stage == "run":
        typer.echo(str(folder))
        return 0
    name = _outputs_name(workspace, given)
    if prompts is None:
        return _export(workspace, name)
    judged = workspace.judged(name, _judge_spec(benchmark, given), prompts)
    if stage in ("all", "judge"):
        if given.judgements is not None:
            _import_judgements(workspace, judged, given.judgements)
        else:
            _judge(workspace, judged, given, console)
    if stage == "judge":
        typer.echo(str(judged.path))
        return 0
    scored = workspace.score(name, judged, given.missing.value)
    page = write_report(workspace, scored, judged)
    if given.json_output:
        typer.echo(scored.model_dump_json())
    else:
        print_numbers(benchmark, scored, console)
        typer.echo(str(page))
    return 0 if scored.outcome.coverage == 1 else 1


def _prompts(benchmark: Benchmark, given: BenchOptions) -> JudgePrompts:
    """Return the judge prompts; none if the judgements are imported."""
    if given.judgements is not None and given.judge_prompts is None:
        return JudgePrompts(ASKED_ELSEWHERE, {})
    return judge_prompts(benchmark, given.judge_prompts, given.choices.get("prompts"))


def default_folder(benchmark: Benchmark, given: BenchOptions) -> Path:
    """Return a separate folder for every benchmark, system and choice of models."""
    if benchmark.tests == "critics":
        return Path("runs") / "bench" / f"{benchmark.name}-{slug(_judge_spec(benchmark, given), 40)}"
    if given.judgements is not None and given.outputs is None:
        return Path("runs") / "bench" / f"{benchmark.name}-{VERDICTS}-{slug(given.judgements.stem, 40)}"
    chosen = "-".join(slug(str(value), 24) for value in given.choices.values() if isinstance(value, str))
    return Path("runs") / "bench" / "-".join(filter(None, [benchmark.name, given.system, chosen]))


def _system(workspace: Workspace, given: BenchOptions) -> tuple[str, dict[str, str]]:
    """Return the name of the measured system, and its models."""
    if workspace.benchmark.tests == "critics":
        return "critic", {}
    if given.outputs is not None:
        return IMPORTED, {}
    if given.judgements is not None:
        return VERDICTS, {}
    chosen = {**given.choices, "profile": cli.choose_profile(given.choices["profile"], False)}
    config, _ = resolve(split_choices(System(given.system, chosen).choices)[0])
    left_out = {"base": ("planner", "critic"), "plan": ("critic",)}.get(given.system, ())
    roles = [role for role in ("planner", "critic", "generator") if role not in left_out]
    return given.system, {role: getattr(config, role).spec for role in roles}


def _judge_spec(benchmark: Benchmark, given: BenchOptions) -> str:
    """Return who judges, or who made the imported judgements."""
    if given.judge is None and given.judgements is not None:
        return benchmark.judge_of_import(given.judgements)
    return given.judge or benchmark.judge.spec


def _run(workspace: Workspace, given: BenchOptions, console: Console) -> None:
    if given.judgements is not None and given.outputs is None and workspace.output_names():
        return  # judgements of the outputs that are there
    system, models = _system(workspace, given)
    workspace.describe(system, models)
    if system in ("critic", VERDICTS):
        return
    if given.outputs is not None:
        taken = workspace.keep_imported(given.outputs)
        console.print(f"{count(len(taken), 'output')} taken from {given.outputs}")
        return
    console.print("loading models…")
    with cli.show_batch_progress() as progress, cli.collapse_retry_messages():
        asyncio.run(
            run_system(
                workspace.dataset.items,
                System(given.system, given.choices),
                workspace.folder,
                concurrency=given.concurrency * (given.workers if given.engine == "ray" else 1),
                shard=batches.Shard.parse(given.shard),
                cluster=_cluster(workspace, given),
                watcher=progress,
            )
        )


def _cluster(workspace: Workspace, given: BenchOptions) -> Cluster | None:
    """Return the Ray workers; `None` for this process."""
    from interleave.plugin import batches

    if given.engine == "local":
        if given.workers > 1 or given.worker_gpus:
            raise ConfigurationError("--workers and --worker-gpus are for --engine ray")
        return None
    if given.engine != "ray":
        raise ConfigurationError(
            f"no engine named {given.engine!r}. {did_you_mean(given.engine, ['local', 'ray'])}"
        )
    options = batches.WorkerOptions(given.workers, given.concurrency, given.worker_gpus)
    return Cluster(workspace.benchmark.name, workspace.data, options)


def _outputs_name(workspace: Workspace, given: BenchOptions) -> str:
    if workspace.benchmark.tests == "critics":
        return "critic"
    names = workspace.output_names()
    if not names and (there := read_description(workspace.folder)) and there.system == VERDICTS:
        return VERDICTS
    if not names:
        raise ConfigurationError(f"{workspace.folder} has no outputs: run the benchmark first")
    wanted = names[0] if given.attempts is None else f"attempts-{given.attempts}"
    if wanted not in names:
        raise ConfigurationError(f"{workspace.folder} has no {wanted}: it has {', '.join(names)}")
    return wanted


def _export(workspace: Workspace, name: str) -> int:
    target = workspace.folder / "official" / name
    workspace.benchmark.export(workspace.dataset, workspace.outputs(name), workspace.folder, target)
    typer.echo(str(target))
    return 0


def _judge(workspace: Workspace, judged: Judged, given: BenchOptions, console: Console) -> None:
    vlm = load_vlm(judged.judge, "judge")
    expected = estimate(judged, vlm, retry_failed=given.retry_failed)
    console.print(_spoken(expected.questions, expected.already, expected.cost))
    session = JudgeSession(
        judged, vlm, limits=Limits(max_cost=given.max_cost), retry_failed=given.retry_failed
    )

    async def follow() -> None:
        with progress_bar("questions judged") as show:
            async for _ in session.run(concurrency=given.concurrency):
                show(session.progress.asked, session.progress.total)

    with cli.collapse_retry_messages():
        asyncio.run(follow())
    if any(status != "ok" for status in session.progress.statuses):
        said = ", ".join(f"{number:,} {status}" for status, number in session.progress.statuses.most_common())
        console.print(f"judge: {said}")


def _import_judgements(workspace: Workspace, judged: Judged, given: Path) -> None:
    """Import the judge's verdicts from upstream's files, as verdicts on the outputs of this folder."""
    from interleave.plugin import runs

    records = by_item(workspace.benchmark.import_judgements(workspace.dataset, given))
    about = {item.id: judged.digest(item) for item in workspace.dataset.items}
    journal = runs.open_journal(judged.path.parent, judged.path.name)
    try:
        for item, each in records.items():
            for record in each.values():
                # upstream's files do not name the judged output: take the current one
                made = {"output": about[item], "judge": judged.judge, "prompts": judged.prompts.identity}
                journal.append(record.model_copy(update=made))
        journal.sync()
    finally:
        journal.close()


def _spoken(questions: int, already: int, cost: float | None) -> str:
    price = "the judge does not know its price" if cost is None else f"about {cost:,.2f} US dollars"
    return f"{count(questions, 'question')} to the judge ({already:,} answered before), {price}"


def _dry_run(
    workspace: Workspace, given: BenchOptions, prompts: JudgePrompts | None, console: Console
) -> int:
    benchmark, items = workspace.benchmark, workspace.dataset.items
    system, models = _system(workspace, given)
    console.print(f"{benchmark.title} with {count(len(items), 'item')} from {workspace.dataset.source}")
    if benchmark.tests == "systems":
        console.print(f"system {system}: {SYSTEMS.get(system, 'nothing is generated')}")
        for role, spec in models.items():
            console.print(f"  {role}: {spec}")
    console.print(f"folder: {workspace.folder}", soft_wrap=True)
    if prompts is None:
        return 0
    judge = _judge_spec(benchmark, given)
    if given.judgements is not None:
        console.print(f"judgements of {judge} from {given.judgements}: nothing is asked", soft_wrap=True)
        return 0
    questions = sum(len(benchmark.keys(item, None)) for item in items)
    console.print(f"judge: {judge}, about {count(questions, 'question')}, prompts {prompts.identity}")
    try:
        price = load_vlm(judge, "judge").capabilities.typical_price
    except Exception as error:  # print the rest even if a key or a package is missing
        console.print(f"  it cannot be asked yet: {error}", soft_wrap=True)
    else:
        console.print(
            "  it does not know its price"
            if price is None
            else f"  about {price * questions:,.2f} US dollars",
        )
    return 0


def print_numbers(benchmark: Benchmark, scored: Scored, console: Console) -> None:
    """Print our numbers, those of the groups, and published ones."""
    outcome = scored.outcome
    judged_by = "" if benchmark.tests == "critics" else f", judged by {judge_name(scored.judge)}"
    title = f"{benchmark.title}: {measured_name(benchmark, scored)}{judged_by}"
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for name in ("", "value", "95 %", "items"):
        table.add_column(name, justify="left" if not name else "right", no_wrap=bool(name))
    for place, number in enumerate(outcome.numbers):
        table.add_row(number.name, *_cells(number), style="bold" if place == 0 else "")
    if outcome.by_group:
        table.add_section()
        table.add_row(f"{outcome.numbers[0].name} by group", style="dim")
    for group, numbers in outcome.by_group.items():
        table.add_row(f"  {text.visible(group)}", *_cells(numbers[0]))
    console.print(table)
    lacking = "" if outcome.coverage == 1 else f"; a question without an answer counts as {outcome.missing!r}"
    console.print(f"coverage {outcome.coverage:.1%} of {count(outcome.items, 'item')}{lacking}")
    if unusual := {status: number for status, number in outcome.statuses.items() if status != "ok"}:
        said = ", ".join(f"{number:,} {status}" for status, number in unusual.items())
        console.print(f"questions without an answer: {said}", style="yellow")
    console.print(outcome.numbers[0].id, style="dim", soft_wrap=True)
    if benchmark.about:
        console.print(benchmark.about, style="dim")
    _print_published(benchmark, scored, console)


def _cells(number: Measured) -> list[str]:
    return [in_digits(number.value, number.digits), bounds_of(number), f"{number.items:,}"]


def _print_published(benchmark: Benchmark, scored: Scored, console: Console) -> None:
    columns, rows = published_views(benchmark, scored, with_groups=False)
    if not columns:
        return
    table = Table(
        box=SIMPLE_HEAD, title="published", title_justify="left", title_style="bold", pad_edge=False
    )
    table.add_column("system")
    for name in columns:
        table.add_column(name, justify="right")
    table.add_column("source")
    notes = list(dict.fromkeys(row.note for row in rows if row.note))
    for row in rows:
        mark = f" [{notes.index(row.note) + 1}]" if row.note else ""
        table.add_row(row.system, *row.cells, row.source + mark, style="bold" if row.ours else "")
    console.print(table)
    for place, note in enumerate(notes, start=1):
        console.print(f"[{place}] {note}", style="dim")
    for difference in differences_from_published(benchmark, scored):
        console.print(difference, style="yellow")
