"""The Python API, which the command line uses too: generate, plan, resume, edit, export, and async forms."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack

from interleave.agents.critic import Critic
from interleave.agents.loading import planner_from
from interleave.agents.planner import Planner, plan_for
from interleave.agents.prompts import PromptPack
from interleave.backends.protocols import ImageGenerator, VisionLanguageModel
from interleave.backends.retries import RetriedVlm
from interleave.config.run_config import DEFAULT_CONCURRENCY, Limits, RunConfig
from interleave.errors import BackendError, ConfigurationError, InputError, add_advice
from interleave.render.exports import ExportOptions, PageLayout, write_export
from interleave.render.html import write_document
from interleave.runs.branch import CheckedBranch, check_branch, check_new_step
from interleave.runs.decisions import (
    CheckedDecision,
    Decide,
    DecidedRun,
    MadeDecision,
    change_line,
    check_decision,
    choice_line,
    redraw_line,
    release_line,
    undo_line,
    write_decision,
)
from interleave.runs.folder import stored_request
from interleave.runs.models import Models, refuse_unpriced
from interleave.runs.permissions import permissions_of, refuse_unallowed, required_permissions, way_back
from interleave.runs.record import RunRecord, read_record, write_stored
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
from interleave.types import Asked, Part, Plan, Request

if TYPE_CHECKING:
    from PIL.Image import Image

    from interleave.batches.batch import Batch, BatchSummary, Ended, Watcher

T = TypeVar("T")
Opened = TypeVar("Opened", "Run", "Batch")
RUNS_FOLDER = Path("runs")
log = logging.getLogger(__name__)

Requestable = str | Request | Iterable["str | Path | Image | Part"]
"""A text, or texts and images (or paths of images) in order."""
RunFolder = str | Path | RunResult
"""The folder of a run, or its result."""


class LimitOptions(TypedDict, total=False):
    """Limits that end a run early. They do not change its content up to that point."""

    max_calls: int | None
    max_seconds: float | None
    max_cost: float | None
    """US dollars."""


class PlanOptions(TypedDict, total=False):
    """Options of `plan`. The profile sets the ones that are omitted."""

    profile: str | None
    """Name, or path of a `.toml` file. Default: `$INTERLEAVE_PROFILE`, else `mini`."""
    planner: str | VisionLanguageModel | Planner | None
    """Spec string or object, as for the other models."""
    critic: str | VisionLanguageModel | Critic | None
    prompts: str | None
    """Name of a prompt pack."""
    max_steps: int | None
    nearest: bool
    """Whether to exchange words that the planner does not know for their neighbours."""


class RunOptions(PlanOptions, LimitOptions, total=False):
    """Options of `generate`, `stream` and their forms for many requests."""

    generator: str | ImageGenerator | None
    plan: Plan | None
    """Plan to draw instead of asking a planner."""
    chapter_steps: int | None
    """Maximum steps per chapter. Each chapter is planned after the previous one is drawn."""
    max_attempts: int | None
    sources: str | None
    """Images that a step starts from: `previous` or `history`."""
    choose: str | None
    """Attempt of a step that is shown: `best`, `first-unless-better` or `last`."""
    drift_control: str | None
    """Measures against drift and contradictions, such as `keep,anchor=5,rollback=2,audit=1`."""
    reference_sheets: bool | None
    """Whether to draw a reference sheet first for each asset that has a description and no image."""
    identity: str | None
    """Model that measures the identity of assets, such as `transformers:facebook/dinov2-small`."""
    safety: Sequence[str]
    """Specs of checks that may refuse the request, the plan and images, such as `words:FILE.toml`."""
    seed: int


def generate(
    request: Requestable,
    *,
    out: str | Path | None = None,
    hold_plan: bool = False,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Answer a request and return the finished run. Blocks until the run ends.

    If the plan does not fit the request, raises `Asked` with a question and the plan.
    `edit(out).approve(plan)` then draws the edited plan.
    With `hold_plan`, the run ends after planning with the status `held`. `edit(run).approve()` draws it.
    If a model fails for good, raises its error. The folder is kept and can be resumed.
    """
    return _run(lambda: open_run(Request.of(request), out=out, hold_plan=hold_plan, **options))


async def agenerate(
    request: Requestable,
    *,
    out: str | Path | None = None,
    hold_plan: bool = False,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Answer a request like `generate`, without blocking the event loop.

    Cancelling it cancels the call in progress and keeps all finished work. The folder can be resumed.
    """
    return _unless_failed(await _last(stream(request, out=out, hold_plan=hold_plan, **options)))


async def stream(
    request: Requestable,
    *,
    out: str | Path | None = None,
    hold_plan: bool = False,
    **options: Unpack[RunOptions],
) -> AsyncGenerator[Event]:
    """Answer a request and yield its events as they happen. The last one is `RunResult`."""
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
    """Run all checks, load the models and open the run folder, without calling a model."""
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
    """Continue a run with the configuration in its folder and return it finished. Blocks until it ends.

    To change the run first, use `edit`. `redraw` generates missing or altered images again.
    `allow` lists permissions for the folder: `"NAME@https://host"` sends the key in NAME to that host.
    Raises `RunError` for a missing permission. If a model fails for good, raises its error.
    """
    chosen = split_choices(dict(limits))[1]
    return _run(lambda: reopen_run(Path(folder), chosen, allow=allow, redraw=redraw))


async def aresume(
    folder: str | Path,
    *,
    allow: Iterable[str] = (),
    redraw: bool = False,
    **limits: Unpack[LimitOptions],
) -> RunResult:
    """Continue a run like `resume`, without blocking the event loop."""
    return _unless_failed(await _last(stream_resume(folder, allow=allow, redraw=redraw, **limits)))


async def stream_resume(
    folder: str | Path,
    *,
    allow: Iterable[str] = (),
    redraw: bool = False,
    **limits: Unpack[LimitOptions],
) -> AsyncGenerator[Event]:
    """Continue a run like `resume` and yield its events, beginning with the recorded ones."""
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
    """Open an existing run folder, with the request and configuration stored in it.

    The decision is recorded after its models are loaded: a refused one leaves the folder unchanged.
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
    """Load the models of a branch, then create and open its folder."""
    folder, steering = branch.run.folder, branch.run.steering
    config, pack = _made_with(branch.run.record)
    request = stored_request(branch.parent, branch.run.record)
    refuse_unallowed(branch.parent, config, allow, generators=steering.generators, decides=True)
    models = load_models(config, pack, Choices(), steering.generators)
    refuse_unusable_models(models, request, config, limits, steering)
    branch.write()
    return Run.open(folder, request, config, limits, lambda: models, write_document=write_document)


def _made_with(record: RunRecord) -> tuple[RunConfig, PromptPack]:
    """Return the configuration and prompts of a run. Raises if it cannot be continued with them."""
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
    """Answer many requests concurrently, each in its own run folder under `out`. Blocks until all have ended.

    A request is what `generate` takes, or a pair of an id and a request. Repeating the call on the same
    folder continues the unfinished requests; `retry_failed=True` also retries the failed ones.

    A bad request, such as an empty text, raises `InputError` with its position. If `requests` is a list, it
    raises before anything is started. With `skip_bad=True`, a bad request counts as failed instead.
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
    """Answer many requests like `generate_many`, without blocking the event loop."""
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
    """Answer many requests like `generate_many` and yield each as it ends."""
    from interleave.batches.requests import checked_requests, items_of

    checked = await asyncio.to_thread(checked_requests, requests, skip_bad=skip_bad)
    batch = await _opened(lambda: open_batch(Path(out), **options))
    items = items_of(checked, skip_bad=skip_bad)
    running = batch.run(items, concurrency=concurrency, retry_failed=retry_failed)
    async with aclosing(running) as all_ended:
        async for ended in all_ended:
            yield ended


def open_batch(folder: Path, *, watcher: Watcher | None = None, **options: Unpack[RunOptions]) -> Batch:
    """Run all checks, load the models that all runs share, and open the folder."""
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
    """Return a batch whose runs share `models` in this process."""
    from interleave.batches.assignment import Assignment
    from interleave.batches.batch import Batch
    from interleave.batches.worker import Worker
    from interleave.runs.outage import OutageRetry

    assignment = Assignment(config=config)
    worker = Worker(folder, assignment, limits, {config.generator.identity: models}, watcher=watcher)
    return Batch(folder, assignment, worker, outage_retry=OutageRetry(limits.max_seconds), watcher=watcher)


def plan(request: Requestable, **options: Unpack[PlanOptions]) -> Plan:
    """Return the plan for a request, without drawing anything. Raises `Asked` if the plan does not fit."""
    chosen, _ = split_choices(dict(options))
    return _blocking(_plan(Request.of(request), chosen))


async def _plan(request: Request, chosen: Choices) -> Plan:
    config, pack = resolve(chosen, only_plans=True)
    request = adapted_request(request, config)
    backend = load_agent(chosen.planner, config.planner, "planner")
    planner = planner_from(backend, pack, max_steps=config.max_steps)
    asked = planner.with_calls_through(lambda vlm: RetriedVlm("the planner", vlm))
    return await plan_for(asked, request)


def read_run(folder: str | Path) -> RunResult:
    """Return a run as its folder records it, finished or not, without changing it."""
    return RunResult(read_record(folder), Path(folder))


def export(
    run: RunFolder,
    to: str = "pdf",
    *,
    out: str | Path | None = None,
    paper: str = "",
    layout: PageLayout = "print",
    languages: Iterable[str] = (),
    texts: Iterable[str | Path] = (),
    bleed: bool = False,
    details: bool = False,
    sign: str = "",
    sign_prompts: Literal["no", "hash", "text"] = "no",
    ai_notice: bool = False,
) -> Path:
    """Write the document of a run in the format `to` and return the path of the file.

    Formats are `pdf`, `epub`, `pptx`, `cbz`, `zip` (Markdown and images), `html`, `texts` (the words, to be
    translated) and those of installed packages. `out` defaults to `document.FORMAT` in the run folder.
    `texts` are files with the words in other languages, and `languages` those to show together.
    With `details`, `html` and `zip` have the prompts, attempts and verdicts too.
    `sign` is a PEM file with a key, or `self` for a key made on first use; `sign_prompts` says what signed
    statements tell of the prompts. With `ai_notice`, a line below the title says that AI made the document.
    """
    options = ExportOptions(
        paper,
        layout,
        tuple(languages),
        tuple(map(Path, texts)),
        bleed,
        details,
        sign,
        sign_prompts,
        ai_notice,
    )
    return write_export(_folder_of(run), to, Path(out) if out is not None else None, options)


def edit(
    run: RunFolder,
    *,
    by: str = "",
    draw: bool = True,
    allow: Iterable[str] = (),
    **limits: Unpack[LimitOptions],
) -> RunEditor:
    """Return an editor for a run: `edit(run).redraw(2, prompt="A red fox")`.

    `by` is the person recorded with each change. With `draw=False`, changes are only recorded, and `resume`
    generates the images. `allow` and limits are those of `resume`.
    """
    return RunEditor(_folder_of(run), by, draw, tuple(allow), split_choices(dict(limits))[1])


@dataclass(frozen=True)
class RunEditor:
    """Changes to a finished, stopped or held run. `edit` returns one.

    Each method checks its change, records it in the run folder, generates the images that follow from it and
    returns the run. A change that is refused raises and leaves the folder unchanged. `words`, and undoing it,
    call no model.
    """

    folder: Path
    by: str = ""
    draw: bool = True
    allow: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def redraw(
        self,
        step: int,
        *,
        prompt: str | None = None,
        seed: int | None = None,
        generator: str | None = None,
        only_step: bool = False,
    ) -> RunResult:
        """Redraw a step, and the later steps whose images follow from it unless `only_step` is set.

        Without `seed`, a seed not used for this step before is chosen.
        """

        def decide(run: DecidedRun) -> MadeDecision:
            return redraw_line(
                run, step, prompt=prompt, seed=seed, generator=generator, only_step=only_step, by=self.by
            )

        return self._apply(decide, generator)

    def choose(self, step: int, attempt: int, *, only_step: bool = False) -> RunResult:
        """Show another attempt of a step, and redraw later steps that follow from it unless `only_step`."""
        return self._apply(lambda run: choice_line(run, step, attempt, only_step=only_step, by=self.by))

    def change_generator(self, generator: str) -> RunResult:
        """Draw all unfinished steps with another generator, named by its spec."""
        return self._apply(lambda run: change_line(run, generator, by=self.by), generator)

    def approve(self, plan: Plan | None = None) -> RunResult:
        """Draw the plan of a held run, or `plan` instead."""
        return self._apply(lambda run: release_line(run, plan, by=self.by))

    def words(
        self,
        step: int | None = None,
        *,
        title: str | None = None,
        name: str | None = None,
        text: str | None = None,
        alt: str | None = None,
        hidden: bool | None = None,
        order: Iterable[int] = (),
        keep: Iterable[int] = (),
        document: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """Change what the document shows and exports, but not its plan or images.

        `name` (the heading), `text`, `alt` (the alternative text of the image) and `hidden` are about `step`.
        An empty `alt` is the text of the step. `order` lists the first steps to show, and `keep` the steps
        whose text fits their redrawn image. `document` has the same as JSON, for many steps at once:
        `{"title": …, "order": […], "steps": [{"number": 1, "text": …}], "keep": […]}`.
        """
        from interleave.runs.words import words_given, words_line

        of_step = {"name": name, "text": text, "alt": alt, "hidden": hidden}
        given = words_given(document, step, of_step, title=title, order=[*order], keep=[*keep])
        return self._apply(lambda run: words_line(run, given, by=self.by))

    def undo(self) -> RunResult:
        """Undo the last edit that is still in effect. Repeated calls undo earlier ones."""
        return self._apply(lambda run: undo_line(run, by=self.by))

    def branch(
        self,
        step: int,
        out: str | Path,
        *,
        prompt: str | None = None,
        seed: int | None = None,
        generator: str | None = None,
    ) -> RunResult:
        """Copy the run to the folder `out` and redraw the copy from `step` on. This run stays unchanged."""
        branch = check_branch(
            self.folder, out, step, prompt=prompt, seed=seed, generator=generator, by=self.by
        )
        return self._branched(branch, generator)

    def add_step(
        self, after: int, out: str | Path, *, prompt: str, text: str = "", name: str = ""
    ) -> RunResult:
        """Copy the run to the folder `out` with one more step, shown after step `after`; 0 for before all.

        Its image starts from the one before it. The other images, and this run, stay unchanged.
        """
        return self._branched(
            check_new_step(self.folder, out, after, prompt=prompt, text=text, name=name, by=self.by)
        )

    def _branched(self, branch: CheckedBranch, generator: str | None = None) -> RunResult:
        if self.draw:
            return _run(lambda: open_branch(branch, self.limits, allow=self._allowed(generator)))
        branch.write()
        return read_run(branch.run.folder)

    def _apply(self, decide: Decide, generator: str | None = None) -> RunResult:
        decision, allow = check_decision(self.folder, decide), self._allowed(generator)
        if decision.is_about_words:
            return write_words(decision)
        if not self.draw:
            return RunResult(write_decision(decision), self.folder)
        return _run(lambda: reopen_run(self.folder, self.limits, allow=allow, decision=decision))

    def _allowed(self, generator: str | None) -> tuple[str, ...]:
        """Return the permissions, with those of a generator that the caller named."""
        return (*self.allow, *(permissions_of(generator) if generator else ()))


def write_words(decision: CheckedDecision) -> RunResult:
    """Record an edit of words and write the files that follow from it, without a model."""

    def write_pages(folder: Path, record: RunRecord) -> None:
        if record.status == "running":  # its process died: this one holds the lock
            record = record.model_copy(update={"status": "interrupted"})
        write_stored(folder, record)
        write_document(folder, record)

    write_decision(decision, write_pages)
    return read_run(decision.run.folder)


def _folder_of(run: RunFolder) -> Path:
    return run.folder if isinstance(run, RunResult) else Path(run)


def new_run_folder(request: Request) -> Path:
    """Return a folder that does not exist yet, named after the time and the first words of the request."""
    name = "-".join(filter(None, [time.strftime("%Y%m%d-%H%M%S"), slug(request.text)]))
    folder, copy = RUNS_FOLDER / name, 1
    while folder.exists():
        copy += 1
        folder = RUNS_FOLDER / f"{name}-{copy}"
    return folder


def _run(open_: Callable[[], Run]) -> RunResult:
    """Open a run and follow it to its end."""

    async def follow() -> RunResult:
        return await _last(open_().stream())

    return _unless_failed(_blocking(follow()))


def _unless_failed(finished: RunResult) -> RunResult:
    """Return a run that ended as asked for; raise the error or the question that ended it otherwise."""
    if finished.record.question is not None and finished.record.plan is not None:
        raise Asked(finished.record.question, finished.record.plan)
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

    On cancellation the thread continues, and closes what it has opened.
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
    """Run a coroutine to its end, even if an event loop is already running, as in a notebook."""
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
