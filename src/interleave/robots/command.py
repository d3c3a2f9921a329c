"""`interleave robot`: plan, check, annotate, score and export for robots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave.plugin import options

if TYPE_CHECKING:
    from PIL.Image import Image

    from interleave.robots.annotate_dataset import AnnotationJob
    from interleave.robots.annotation_file import AnnotationWriter, EpisodeAnnotation
    from interleave.robots.lerobot.dataset import Episode

app = typer.Typer(help="Plan, check and annotate sub-tasks for robots.", no_args_is_help=True)

Goal = Annotated[str, typer.Argument(metavar="GOAL", help="The goal of the robot.")]
Scene = Annotated[Path | None, typer.Option("--image", metavar="PATH", help="The camera image at the start.")]
DatasetFolder = Annotated[
    Path, typer.Argument(metavar="DATASET", help="The folder of a LeRobot dataset (v3).")
]
CameraName = Annotated[
    str | None,
    typer.Option("--camera", metavar="NAME", help="The camera to use. [default: the first]"),
]
DEFAULT_SECONDS = 0.5


@app.callback()
def _robot() -> None:
    """Plan, check and annotate sub-tasks for robots."""


@app.command()
def plan(
    goal: Goal,
    image: Scene = None,
    profile: options.ProfileName = None,
    planner: options.PlannerSpec = None,
    critic: options.CriticSpec = None,
    generator: options.GeneratorSpec = None,
    prompts: options.PackName = None,
    max_attempts: options.MaxAttempts = None,
    max_steps: options.MaxSteps = None,
    seed: options.Seed = 0,
    out: options.Out = None,
    dry_run: options.DryRun = False,
    open_document: options.Open = False,
    json_output: options.Json = False,
) -> int:
    """Plan sub-tasks for a goal and draw the state after each. Prints the path of the subgoals.

    The run folder --out also has subgoals.json, with the instructions and the names of the images.
    """
    from contextlib import redirect_stdout
    from io import StringIO

    from interleave.plugin import Output, open_run, run_and_report, runs
    from interleave.plugin import request_input as inputs
    from interleave.robots.subgoals import write_subgoals

    asked = inputs.build_request(inputs.gather_parts(goal, [image] if image else None, None))
    folders: list[Path] = []

    def opened() -> runs.Run:
        run = open_run(
            asked,
            out=out,
            profile=inputs.choose_profile(profile, dry_run),
            planner=planner,
            critic=critic,
            generator=generator,
            prompts=prompts,
            max_attempts=max_attempts,
            max_steps=max_steps,
            seed=seed,
        )
        folders.append(run.folder)
        return run

    with redirect_stdout(StringIO()):  # the output is the subgoals
        code = run_and_report(opened, output=Output(), open_document=open_document, fail_on_forced=False)
    if code == 0:
        path = write_subgoals(folders[0])
        typer.echo(path.read_text("utf-8").strip() if json_output else path)
    return code


@app.command()
def check(
    instruction: Annotated[
        str | None,
        typer.Argument(metavar="SUB-TASK", help="The instruction of the robot. Or use --run and --step."),
    ] = None,
    before: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The camera image before the sub-task.")
    ] = None,
    after: Annotated[Path | None, typer.Option(metavar="PATH", help="The camera image now.")] = None,
    run: Annotated[
        Path | None, typer.Option(metavar="RUN", help="The run of a plan whose step is the sub-task.")
    ] = None,
    step: Annotated[int | None, typer.Option(min=1, help="With --run: the number of the sub-task.")] = None,
    profile: options.ProfileName = None,
    critic: options.CriticSpec = None,
    prompts: options.PackName = None,
    json_output: options.Json = False,
) -> int:
    """Judge whether a sub-task is done, and what to correct. Exits with 1 if it is not done.

    With --run and --step, the check is also stored in the run folder, for `robot export`, and --before
    defaults to the image after the previous sub-task, or to the image of the plan.
    """
    import asyncio
    import time

    from interleave import ConfigurationError, read_image
    from interleave.robots import execution
    from interleave.robots.checking import load_check
    from interleave.robots.control_loop import SubTaskAttempt
    from interleave.robots.sub_task_check import SubTaskInput

    if after is None:
        raise ConfigurationError("--after PATH is missing: the camera image now")
    if (run is None) != (step is None) or (run is None) == (instruction is None):
        raise ConfigurationError("name a SUB-TASK with --before, or --run RUN and --step N")
    if run is not None and step is not None:
        sub_task, image_before = _of_run(run, step, before)
    elif before is None:
        raise ConfigurationError("--before PATH is missing: the camera image before the sub-task")
    else:
        sub_task, image_before = instruction or "", read_image(before)
    checker = load_check(profile=profile, critic=critic, prompts=prompts)
    seen = SubTaskInput(sub_task, image_before, read_image(after))
    began = time.perf_counter()
    verdict = asyncio.run(checker.check(seen))
    seconds = time.perf_counter() - began
    if run is not None and step is not None:
        attempt = len(execution.tries_of(run, step)) + 1
        tried = SubTaskAttempt(step, attempt, sub_task, sub_task, seen.before, seen.after, verdict, seconds)
        execution.keep(run, tried)
    answer = {
        "sub_task": sub_task,
        "done": verdict.accepted,
        "outcome": verdict.outcome.value,
        "reasoning": verdict.reasoning,
        "correction": verdict.refined_prompt,
        "confidence": verdict.confidence,
        "seconds": round(seconds, 3),
    }
    if json_output:
        typer.echo(json.dumps(answer, ensure_ascii=False))
    else:
        typer.echo("done" if verdict.accepted else f"not done: {verdict.reasoning}")
        if verdict.refined_prompt:
            typer.echo(f"now: {verdict.refined_prompt}")
    return 0 if verdict.accepted else 1


def _of_run(run: Path, step: int, before: Path | None) -> tuple[str, Image]:
    """Return a sub-task of a run, and what the camera saw before it."""
    from interleave import ConfigurationError, InputError, read_image
    from interleave.robots import execution
    from interleave.robots.subgoals import read_subgoals

    goals = read_subgoals(run)
    found = next((each for each in goals.subgoals if each.number == step), None)
    if found is None:
        numbers = [each.number for each in goals.subgoals]
        raise InputError(f"{run} has no sub-task {step}: it has {numbers[0]} to {numbers[-1]}")
    if before is not None:
        return found.instruction, read_image(before)
    if tries := execution.tries_of(run, step):
        return found.instruction, execution.image(run, tries[0].before)
    if earlier := execution.tries_of(run, step - 1):
        return found.instruction, execution.image(run, earlier[-1].after)
    if step == goals.subgoals[0].number and goals.start:
        return found.instruction, read_image(run / goals.start)
    raise ConfigurationError("--before PATH is missing: the previous sub-task was not checked")


@app.command()
def annotate(
    dataset: DatasetFolder,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder of the annotations. [default: DATASET.annotations]"),
    ] = None,
    columns: Annotated[
        Path | None,
        typer.Option(
            metavar="NEW-DATASET",
            help="Also write them as language columns of a new LeRobot dataset that shares the videos.",
        ),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Also write them as language columns into DATASET itself.")
    ] = False,
    episodes: Annotated[
        str | None, typer.Option(metavar="0,3,10-19", help="Only these episodes. [default: all]")
    ] = None,
    camera: CameraName = None,
    profile: options.ProfileName = None,
    annotator: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="The model that annotates. [default: the profile's planner]"),
    ] = None,
    prompts: options.PackName = None,
    every: Annotated[
        float, typer.Option(min=0.01, metavar="SECONDS", help="Coarse pass: one frame per interval.")
    ] = DEFAULT_SECONDS,
    frames: Annotated[
        int | None, typer.Option(min=2, max=240, metavar="N", help="Frames per model call.")
    ] = None,
    precision: Annotated[
        int, typer.Option(min=1, metavar="N", help="Fine pass: find each boundary to N frames.")
    ] = 1,
    concurrency: Annotated[int, typer.Option(min=1, max=4096, help="Concurrent episodes.")] = 16,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Retry episodes that failed.")] = False,
    json_output: options.Json = False,
) -> int:
    """Find the sub-tasks in the episodes of a LeRobot dataset. Run the command again to continue.

    The videos are not changed. Exits with 1 if some episodes could not be annotated.
    """
    import asyncio

    from interleave import ConfigurationError
    from interleave.plugin import say
    from interleave.robots.annotate_dataset import AnnotationJob
    from interleave.robots.annotation_file import AnnotateSettings, AnnotationFolder, without_errors
    from interleave.robots.checking import load_annotator
    from interleave.robots.lerobot.dataset import open_dataset
    from interleave.robots.lerobot.language_columns import write_columns
    from interleave.robots.video_segments import FrameSampling

    if columns is not None and in_place:
        raise ConfigurationError("--columns and --in-place cannot be combined")
    opened = open_dataset(dataset)
    chosen = opened.chosen(_numbers(episodes) if episodes else None)
    seen_by = opened.camera(camera)
    say("loading models…")
    loaded = load_annotator(profile=profile, annotator=annotator, prompts=prompts, window=frames)
    sampling = FrameSampling(max(1, round(every * opened.fps)), loaded.window, precision)
    settings = AnnotateSettings(
        camera=seen_by.name,
        annotator=loaded.spec,
        prompts=loaded.prompts,
        stride=sampling.stride,
        at_once=sampling.window,
        precision=precision,
    )
    folder = AnnotationFolder(out or dataset.with_name(f"{dataset.resolve().name}.annotations"))
    work = AnnotationJob(opened, seen_by, loaded.annotator, sampling)
    with folder.writing(settings) as writer:
        asyncio.run(_annotated(work, chosen, writer, concurrency, retry_failed))
        done = [writer.done[each.index] for each in chosen if each.index in writer.done]
    failed = [each for each in done if each.error is not None]
    for each in failed[:3]:
        say(f"episode {each.episode}: {each.error}")
    if columns is not None or in_place:
        write_columns(opened, without_errors(done), columns)
    found = sum(len(each.segments) for each in done)
    say(f"{len(done) - len(failed):,} of {len(chosen):,} episodes annotated, {found:,} sub-tasks found")
    facts = {
        "annotations": str(folder.path),
        "dataset": str(columns or dataset) if columns is not None or in_place else None,
        "episodes": len(chosen),
        "annotated": len(done) - len(failed),
        "failed": len(failed),
        "sub_tasks": found,
        "calls": sum(each.calls for each in done),
    }
    typer.echo(json.dumps(facts) if json_output else folder.path)
    return 1 if failed else 0


async def _annotated(
    work: AnnotationJob,
    chosen: list[Episode],
    writer: AnnotationWriter,
    concurrency: int,
    retry_failed: bool,
) -> None:
    from contextlib import aclosing

    from interleave.plugin import cancel_on_terminate, progress_bar

    cancel_on_terminate()
    with progress_bar("episodes") as show:
        async with aclosing(
            work.episodes(chosen, writer, concurrency=concurrency, retry_failed=retry_failed)
        ) as ended:
            async for _ in ended:
                show(sum(each.index in writer.done for each in chosen), len(chosen))


def _numbers(text: str) -> list[int]:
    """ "0,3,10-19" as numbers."""
    from interleave import ConfigurationError

    found: list[int] = []
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or len(piece) > 20:
            raise ConfigurationError(f"--episodes {text}: write numbers and ranges, e.g. 0,3,10-19")
        found += range(int(first), int(last if dash else first) + 1)
    return found


@app.command()
def score(
    annotations: Annotated[
        Path,
        typer.Argument(
            metavar="ANNOTATIONS", help="annotations.jsonl, its folder, or a dataset with columns."
        ),
    ],
    truth: Annotated[
        Path,
        typer.Option(metavar="PATH", help="The true sub-tasks: a file like annotations.jsonl, or a dataset."),
    ],
    seed: options.Seed = 0,
    json_output: options.Json = False,
) -> int:
    """Score annotations by WGO-Bench's measures: segment F1, label accuracy, end to end, boundaries."""
    from dataclasses import asdict

    from interleave.robots.measures import score_annotations

    found, true = _annotations_in(annotations), _annotations_in(truth)
    scores = score_annotations(found, true, seed=seed)
    if json_output:
        typer.echo(json.dumps(asdict(scores)))
        return 0
    typer.echo(f"{scores.episodes} episodes, {scores.true} sub-tasks, {scores.found} found")
    for name, each in (
        ("segment F1 (overlap 0.75)", scores.segment_f1),
        ("segment F1 (overlap 0.5)", scores.segment_f1_half),
        ("label accuracy", scores.label_accuracy),
        ("end-to-end F1", scores.end_to_end_f1),
    ):
        typer.echo(f"{name:26} {each.value:.3f}  ({each.low:.3f} to {each.high:.3f})")
    within = ", ".join(f"{share:.3f} within {at:g} s" for at, share in scores.boundaries_within.items())
    typer.echo(f"{'boundaries':26} median error {scores.boundary_error:.2f} s; {within}")
    return 0


def _annotations_in(path: Path) -> dict[int, EpisodeAnnotation]:
    from interleave import InputError
    from interleave.robots.annotation_file import read_annotations
    from interleave.robots.lerobot.dataset import INFO, open_dataset
    from interleave.robots.lerobot.language_columns import read_columns

    if not (path / INFO).is_file():
        return read_annotations(path)
    found = read_columns(open_dataset(path))
    if not found:
        raise InputError(f"{path} has no sub-tasks in its language columns")
    return found


@app.command()
def export(
    source: Annotated[
        list[Path], typer.Argument(metavar="RUN…|DATASET", help="Run folders, or one LeRobot dataset.")
    ],
    to: Annotated[str, typer.Option("--to", metavar="lerobot|rerun", help="Episodes, or a Rerun recording.")],
    out: Annotated[Path, typer.Option(metavar="PATH", help="The new dataset, or the .rrd file.")],
    episode: Annotated[int, typer.Option(min=0, help="The episode of a dataset to record.")] = 0,
    annotations: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The annotations of a dataset. [default: its language columns]"),
    ] = None,
    camera: CameraName = None,
) -> int:
    """Write runs as LeRobot episodes, or a run or episode as a Rerun recording. Prints the path."""
    from interleave import ConfigurationError
    from interleave.robots.export_runs import export_runs
    from interleave.robots.lerobot.dataset import INFO, open_dataset
    from interleave.robots.lerobot.language_columns import read_columns
    from interleave.robots.recording import record_episode, record_run

    is_dataset = len(source) == 1 and (source[0] / INFO).is_file()
    if to == "lerobot":
        if is_dataset:
            raise ConfigurationError(f"{source[0]} is a LeRobot dataset already: name run folders")
        export_runs(source, out)
    elif to == "rerun":
        if len(source) > 1:
            raise ConfigurationError("a recording is of one run, or of one episode of a dataset")
        if is_dataset:
            opened = open_dataset(source[0])
            found = _annotations_in(annotations) if annotations else read_columns(opened)
            record_episode(opened, opened.camera(camera), episode, out, found)
        else:
            record_run(source[0], out)
    else:
        raise ConfigurationError(f"--to {to}: lerobot or rerun")
    typer.echo(out)
    return 0
