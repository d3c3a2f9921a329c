"""The Python API, also used by the command line: generate, stream, resume, plan; and awaitable forms."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from interleave.agents.critic import Critic
from interleave.agents.loading import planner_from
from interleave.agents.planner import Planner
from interleave.agents.prompts import PromptPack
from interleave.backends.protocols import ImageGenerator, VisionLanguageModel
from interleave.backends.retries import RetriedVlm
from interleave.config.run_config import DEFAULT_CONCURRENCY, Limits, RunConfig
from interleave.errors import BackendError, ConfigurationError, InputError, add_advice
from interleave.render.html import write_document
from interleave.runs.folder import stored_request
from interleave.runs.models import Models, refuse_unpriced
from interleave.runs.permissions import refuse_unallowed, required_permissions, way_back
from interleave.runs.record import RunRecord, read_record
from interleave.runs.resolve import (
    Choices,
    adapted_request,
    decided_generators,
    load_agent,
    load_models,
    refuse_objects,
    resolve,
    split_choices,
    unchanged_pack,
)
from interleave.runs.run import Event, Run, RunResult, refuse_unusable_models
from interleave.text import slug
from interleave.types import Part, Plan, Request

if TYPE_CHECKING:
    from PIL.Image import Image

    from interleave.batches.batch import Batch, BatchSummary, Ended, Watcher
    from interleave.runs.branch import CheckedBranch
    from interleave.runs.decisions import CheckedDecision

T = TypeVar("T")
Opened = TypeVar("Opened", "Run", "Batch")
RUNS_FOLDER = Path("runs")

Requestable = str | Request | Iterable["str | Image | Part"]
"""A text, or texts and images in order."""


class LimitOptions(TypedDict, total=False):
    """Limits that end a run early and in order; they do not change how it would have come out."""

    max_calls: int | None
    max_seconds: float | None
    max_cost: float | None
    """US dollars."""


class PlanOptions(TypedDict, total=False):
    """Options of `plan`; the profile decides what is left out."""

    profile: str | None
    """A name, or the path of a `.toml` file; None is `$INTERLEAVE_PROFILE`, else `mini`."""
    planner: str | VisionLanguageModel | Planner | None
    """A spec string or an object, as for the other models."""
    critic: str | VisionLanguageModel | Critic | None
    prompts: str | None
    """The name of a prompt pack."""
    max_steps: int | None


class RunOptions(PlanOptions, LimitOptions, total=False):
    """Options of `generate`, `stream` and their forms for many requests."""

    generator: str | ImageGenerator | None
    plan: Plan | None
    """A plan to draw; no planner is asked."""
    chapter_steps: int | None
    """Write the plan in chapters of at most so many steps, each when the one before it is drawn."""
    max_attempts: int | None
    sources: str | None
    """`previous` or `history`: the images a step starts from."""
    choose: str | None
    """`best`, `first-unless-better` or `last`: which attempt of a step counts."""
    remedies: str | None
    """What is done against drift and contradictions, such as `keep,anchor=5,rollback=2,audit=1`."""
    sheets: bool | None
    """Whether assets that are described, and have no image, are drawn first, as references."""
    identity: str | None
    """A model that says whether assets are still themselves, such as `transformers:facebook/dinov2-small`."""
    seed: int


def generate(
    request: Requestable,
    *,
    out: str | Path | None = None,
    hold_plan: bool = False,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Answer a request and return the finished run; blocks until it ends.

    With `hold_plan` it ends with its plan and the status `held`: `release_plan` and `resume` then draw it.
    Raises what ended the run when a model failed for good; the folder is kept and can be continued.
    """

    async def follow() -> RunResult:
        run = open_run(Request.of(request), out=out, hold_plan=hold_plan, **options)
        return await _last(run.stream())

    return _unless_failed(_blocking(follow()))


async def agenerate(
    request: Requestable,
    *,
    out: str | Path | None = None,
    hold_plan: bool = False,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Answer a request and return the finished run, as `generate` does, without blocking the event loop.

    Cancelling it cancels the call under way and keeps all that is done: the folder can be continued.
    """
    return _unless_failed(await _last(stream(request, out=out, hold_plan=hold_plan, **options)))


async def stream(
    request: Requestable,
    *,
    out: str | Path | None = None,
    hold_plan: bool = False,
    **options: Unpack[RunOptions],
) -> AsyncGenerator[Event]:
    """Answer a request and yield its events as they happen; the last one is `RunResult`."""
    for _ in range(3):  # an abandoned stream needs this many turns of the event loop to release its folder
        await asyncio.sleep(0)
    run = await _opened(lambda: open_run(Request.of(request), out=out, hold_plan=hold_plan, **options))
    async with aclosing(run.stream()) as events:
        async for event in events:
            yield event


def open_run(
    request: Request,
    *,
    out: str | Path | None = None,
    redraw: bool = False,
    hold_plan: bool = False,
    **options: Unpack[RunOptions],
) -> Run:
    """Check all that can be checked, load the models and open the run folder; nothing is called yet."""
    chosen, limits = split_choices(dict(options))
    config, pack = resolve(chosen)
    request = adapted_request(request, config)
    folder = Path(out) if out is not None else new_run_folder(request)

    def load() -> Models:
        others = decided_generators(folder)
        typed = [permission.text for permission in required_permissions(config)]
        refuse_unallowed(folder, config, typed, generators=others)
        return load_models(config, pack, chosen, others)

    return Run.open(
        folder,
        request,
        config,
        limits,
        load,
        redraw=redraw,
        hold_plan=hold_plan,
        write_document=write_document,
    )


def resume(
    folder: str | Path,
    *,
    allow: Iterable[str] = (),
    redraw: bool = False,
    **limits: Unpack[LimitOptions],
) -> RunResult:
    """Continue a run as its folder says and return it finished; blocks until it ends.

    A person's decisions about it are made before, with `redraw_step` and its like.
    `allow` permits what a folder may not do by itself: `"NAME@https://host"` sends the key in NAME there.
    Raises `RunError` that names a missing permission, and what ended the run when a model failed for good.
    """

    async def follow() -> RunResult:
        run = reopen_run(Path(folder), split_choices(dict(limits))[1], allow=allow, redraw=redraw)
        return await _last(run.stream())

    return _unless_failed(_blocking(follow()))


async def aresume(
    folder: str | Path,
    *,
    allow: Iterable[str] = (),
    redraw: bool = False,
    **limits: Unpack[LimitOptions],
) -> RunResult:
    """Continue a run as `resume` does, without blocking the event loop."""
    return _unless_failed(await _last(stream_resume(folder, allow=allow, redraw=redraw, **limits)))


async def stream_resume(
    folder: str | Path,
    *,
    allow: Iterable[str] = (),
    redraw: bool = False,
    **limits: Unpack[LimitOptions],
) -> AsyncGenerator[Event]:
    """Continue a run as `resume` does and yield its events, those of its recorded part first."""
    chosen = split_choices(dict(limits))[1]
    run = await _opened(lambda: reopen_run(Path(folder), chosen, allow=allow, redraw=redraw))
    async with aclosing(run.stream()) as events:
        async for event in events:
            yield event


def reopen_run(
    folder: Path,
    limits: Limits,
    *,
    allow: Iterable[str] = (),
    redraw: bool = False,
    decision: CheckedDecision | None = None,
) -> Run:
    """Open a run folder again; request and configuration are taken from the folder.

    A decision is recorded once its models are loaded: a refused one leaves the folder as it was.
    """
    record = read_record(folder)
    config, pack = _made_with(record)
    request = stored_request(folder, record)

    def load() -> Models:
        others = decision.run.steering.generators if decision else decided_generators(folder)
        refuse_unallowed(folder, config, allow, generators=others, decides=decision is not None)
        return load_models(config, pack, Choices(), others)

    try:
        return Run.open(
            folder,
            request,
            config,
            limits,
            load,
            redraw=redraw,
            decision=decision,
            write_document=write_document,
        )
    except (ConfigurationError, InputError, BackendError) as error:
        if decision is None and record.can_be_undone:
            add_advice(error, way_back(folder, config))
        raise


def open_branch(branch: CheckedBranch, limits: Limits, *, allow: Iterable[str] = ()) -> Run:
    """Load the models of a branch, then make its folder and open it."""
    folder, steering = branch.run.folder, branch.run.steering
    config, pack = _made_with(branch.run.record)
    request = stored_request(branch.parent, branch.run.record)
    refuse_unallowed(branch.parent, config, allow, generators=steering.generators, decides=True)
    models = load_models(config, pack, Choices(), steering.generators)
    refuse_unusable_models(models, request, config, limits, steering)
    branch.write()
    return Run.open(folder, request, config, limits, lambda: models, write_document=write_document)


def _made_with(record: RunRecord) -> tuple[RunConfig, PromptPack]:
    """The configuration of a run and its prompts; raises where it cannot be continued with them."""
    refuse_objects(record.config)
    return record.config, unchanged_pack(record.config)


def generate_many(
    requests: Iterable[Any],
    *,
    out: str | Path,
    concurrency: int = DEFAULT_CONCURRENCY,
    retry_failed: bool = False,
    skip_bad: bool = False,
    **options: Unpack[RunOptions],
) -> BatchSummary:
    """Answer many requests at once, each in a run folder of its own under `out`; blocks until all have ended.

    A request is what `generate` takes, or a pair of an id and a request. The same call on the same folder
    goes on with those that have not ended; `retry_failed=True` also tries those again that failed.

    A bad request, such as an empty text, raises `InputError` with its place, before anything is started if
    `requests` is a list. With `skip_bad=True` it counts as failed, with its reason, and the others go on; so
    it does each time, until it is put right.
    """
    from interleave.batches.requests import checked_requests, items_of

    async def follow() -> BatchSummary:
        checked = checked_requests(requests, skip_bad=skip_bad)
        batch = open_batch(Path(out), **options)
        items = items_of(checked, skip_bad=skip_bad)
        return await _counted(batch.run(items, concurrency=concurrency, retry_failed=retry_failed))

    return _blocking(follow())


async def agenerate_many(
    requests: Iterable[Any],
    *,
    out: str | Path,
    concurrency: int = DEFAULT_CONCURRENCY,
    retry_failed: bool = False,
    skip_bad: bool = False,
    **options: Unpack[RunOptions],
) -> BatchSummary:
    """Answer many requests as `generate_many` does, without blocking the event loop."""
    many = stream_many(
        requests, out=out, concurrency=concurrency, retry_failed=retry_failed, skip_bad=skip_bad, **options
    )
    return await _counted(many)


async def stream_many(
    requests: Iterable[Any],
    *,
    out: str | Path,
    concurrency: int = DEFAULT_CONCURRENCY,
    retry_failed: bool = False,
    skip_bad: bool = False,
    **options: Unpack[RunOptions],
) -> AsyncGenerator[Ended]:
    """Answer many requests as `generate_many` does and yield each as it ends."""
    from interleave.batches.requests import checked_requests, items_of

    checked = await asyncio.to_thread(checked_requests, requests, skip_bad=skip_bad)
    batch = await _opened(lambda: open_batch(Path(out), **options))
    items = items_of(checked, skip_bad=skip_bad)
    running = batch.run(items, concurrency=concurrency, retry_failed=retry_failed)
    async with aclosing(running) as all_ended:
        async for ended in all_ended:
            yield ended


def open_batch(folder: Path, *, watcher: Watcher | None = None, **options: Unpack[RunOptions]) -> Batch:
    """Check all that can be checked, load the models that all runs share, and open the folder."""
    from interleave.batches.assignment import Assignment
    from interleave.batches.batch import refuse_unusable_folder

    chosen, limits = split_choices(dict(options))
    config, pack = resolve(chosen)
    refuse_unusable_folder(folder, Assignment(config=config))
    models = load_models(config, pack, chosen)
    refuse_unpriced(limits, models.prices_known(planner_is_asked=config.plan is None))
    return batch_of(folder, config, limits, models, watcher)


def batch_of(
    folder: Path, config: RunConfig, limits: Limits, models: Models, watcher: Watcher | None = None
) -> Batch:
    """A batch whose runs all use the same models, in this process."""
    from interleave.batches.assignment import Assignment
    from interleave.batches.batch import Batch
    from interleave.batches.worker import Worker
    from interleave.runs.outage import OutageRetry

    assignment = Assignment(config=config)
    worker = Worker(folder, assignment, limits, {config.generator.identity: models}, watcher=watcher)
    return Batch(folder, assignment, worker, outage_retry=OutageRetry(limits.max_seconds), watcher=watcher)


def plan(request: Requestable, **options: Unpack[PlanOptions]) -> Plan:
    """Only the plan: ask the planner, draw nothing, write nothing."""
    chosen, _ = split_choices(dict(options))
    return _blocking(_plan(Request.of(request), chosen))


async def _plan(request: Request, chosen: Choices) -> Plan:
    config, pack = resolve(chosen, only_plans=True)
    request = adapted_request(request, config)
    backend = load_agent(chosen.planner, config.planner, "planner")
    planner = planner_from(backend, pack, max_steps=config.max_steps)
    return await planner.with_calls_through(lambda vlm: RetriedVlm("the planner", vlm)).plan(request)


def new_run_folder(request: Request) -> Path:
    """A folder that does not exist yet, named by the time and a few words of the request."""
    name = "-".join(filter(None, [time.strftime("%Y%m%d-%H%M%S"), slug(request.text)]))
    folder, copy = RUNS_FOLDER / name, 1
    while folder.exists():
        copy += 1
        folder = RUNS_FOLDER / f"{name}-{copy}"
    return folder


def _unless_failed(finished: RunResult) -> RunResult:
    if finished.status == "failed" and finished.error is not None:
        raise finished.error
    return finished


async def _last(events: AsyncGenerator[Event]) -> RunResult:
    finished = None
    async with aclosing(events):
        async for event in events:
            finished = event
    if not isinstance(finished, RunResult):
        raise AssertionError("a run always ends with RunResult")
    return finished


async def _counted(running: AsyncGenerator[Ended]) -> BatchSummary:
    from interleave.batches.batch import BatchSummary

    summary = BatchSummary()
    async with aclosing(running) as all_ended:
        async for ended in all_ended:
            summary.total += 1
            summary.count(ended)
    return summary


async def _opened(open_: Callable[[], Opened]) -> Opened:
    """Open a run or a batch in a thread, because loading models may take minutes.

    When this is cancelled, the thread goes on, and what it opens is closed again.
    """
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="interleave-open")
    opening = pool.submit(open_)
    pool.shutdown(wait=False)
    try:
        return await asyncio.wrap_future(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_opened)
        raise


def _close_opened(opening: Future[Opened]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also where an event loop is running already, as in a notebook."""
    if not _loop_is_running():
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
