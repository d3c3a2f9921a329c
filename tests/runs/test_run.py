"""A run in its folder: journalled, continued from any point, ended in order."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import interleave
from interleave.agents.critic import CriticInput
from interleave.api import reopen_run
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.config.run_config import Limits
from interleave.errors import BackendError, InputError, ReplyError, RunError
from interleave.events import StepFinished
from interleave.runs.journal import Called, Drawn, Journal, Replied, read_journal
from interleave.runs.run import RunResult
from interleave.types import Outcome, Plan, PlanStep, Request, Verdict

REQUEST = "How a frog grows up, in four pictures"


SMALL = "solid?size=64"


def stream(out: str = "run", **choices: Any) -> AsyncGenerator[Any]:
    return interleave.stream(REQUEST, out=out, **{"generator": SMALL, **choices})


def generate(out: Path | str = "run", request: Any = REQUEST, **choices: Any) -> RunResult:
    return interleave.generate(request, out=out, **{"generator": SMALL, **choices})


def stop_after(events: int, out: str) -> None:
    """Work on a run until so many events have come, then walk away."""

    async def some() -> None:
        async with aclosing(stream(out)) as coming:
            for _ in range(events):
                await anext(coming)

    asyncio.run(some())


def script(name: str, *replies: str) -> str:
    Path(name).write_text("".join(json.dumps({"text": reply}) + "\n" for reply in replies))
    return f"scripted:./{name}"


class Flaky:
    """A generator that fails at its n-th call."""

    capabilities = GeneratorCapabilities(price_per_image=0.02)

    def __init__(self, fail_at: int = 0, *, transient: bool = False) -> None:
        self.calls = 0
        self.fail_at = fail_at
        self.transient = transient

    async def generate(self, request: ImageRequest) -> Image.Image:
        self.calls += 1
        if self.calls == self.fail_at:
            raise BackendError("out of paint", transient=self.transient, retry_after=0)
        return Image.new("RGB", (32, 32), (request.seed % 256, self.calls, 0))


def test_a_run_leaves_a_journal_images_a_record_and_a_document() -> None:
    run = generate()
    assert run.status == "done"
    assert {path.name for path in run.folder.iterdir()} == {
        "journal.jsonl", "images", "run.json", "document.html"
    }  # fmt: skip
    assert json.loads((run.folder / "run.json").read_text())["status"] == "done"


def test_a_finished_run_is_shown_again_without_a_call_and_without_loading_a_model() -> None:
    first = generate(generator="solid")
    lines = (first.folder / "journal.jsonl").read_bytes()
    again = generate(generator="solid")
    assert again.record == first.record
    assert (first.folder / "journal.jsonl").read_bytes() == lines


@pytest.mark.parametrize("events", range(1, 18))
def test_A01_a_run_stopped_after_any_event_ends_as_an_undisturbed_one(events: int) -> None:
    whole = generate("whole")
    stop_after(events, "stopped")
    stopped = interleave.read_record(Path("stopped"))
    assert stopped.status == "interrupted"
    resumed = generate("stopped")
    assert resumed.status == "done"
    assert interleave.comparable(Path("stopped")) == interleave.comparable(Path("whole"))
    assert resumed.record.calls.repeated == 0
    assert resumed.record.calls == whole.record.calls


def test_A01_resume_takes_everything_from_the_folder() -> None:
    generate("whole", seed=7, max_attempts=2)

    async def some() -> None:
        async with aclosing(stream("stopped", seed=7, max_attempts=2)) as coming:
            for _ in range(5):
                await anext(coming)

    asyncio.run(some())

    async def resume() -> None:
        async with aclosing(reopen_run(Path("stopped"), Limits()).stream()) as events:
            async for _ in events:
                pass

    asyncio.run(resume())
    assert interleave.comparable(Path("stopped")) == interleave.comparable(Path("whole"))


def test_every_call_is_journalled_before_the_next_is_made() -> None:
    entries = read_journal(generate().folder)
    open_calls = 0
    for entry in entries:
        if isinstance(entry, Called):
            assert open_calls == 0
            open_calls += 1
        elif isinstance(entry, Replied | Drawn):
            open_calls -= 1
    assert open_calls == 0


def test_a_timeout_that_an_own_generator_raises_is_retried_and_journalled() -> None:
    class Slow:
        capabilities = GeneratorCapabilities()
        calls = 0

        async def generate(self, request: ImageRequest) -> Image.Image:
            self.calls += 1
            if self.calls == 1:
                raise TimeoutError
            return Image.new("RGB", (16, 16))

    finished = interleave.generate("A frog in 1 picture", out="run", generator=Slow())
    assert finished.status == "done"
    assert "the generator timed out (TimeoutError without a message)" in finished.record.errors[0]


def test_images_say_what_made_them_and_nothing_about_the_run() -> None:
    run = generate()
    step = run.record.steps[1]
    assert step.attempt is not None
    with Image.open(run.folder / "images" / step.attempt.image) as image:
        assert image.info == {
            "Software": "interleave",
            "step": "2",
            "attempt": "2",
            "prompt": step.attempt.prompt,
            "seed": str(step.attempt.seed),
            "generator": SMALL,
        }


def test_equal_runs_have_equal_image_files() -> None:
    one, two = generate("one"), generate("two")
    names = [sorted(path.name for path in (run.folder / "images").iterdir()) for run in (one, two)]
    assert names[0] == names[1]


def test_another_configuration_is_refused_with_what_differs() -> None:
    generate()
    with pytest.raises(RunError, match=r"max_attempts is 5 there and 3 here; seed is 0 there and 1 here"):
        generate(max_attempts=3, seed=1)


def test_another_plan_is_refused_and_not_printed_twice() -> None:
    first, second = (
        Plan(steps=(PlanStep(number=1, caption=said, prompt=said),)) for said in ("A cat", "A dog")
    )
    generate(plan=first)
    with pytest.raises(RunError, match="plan differs"):
        generate(plan=second)


def test_how_many_calls_a_model_takes_at_once_may_differ_from_time_to_time() -> None:
    generate(generator="solid?concurrency=2&size=64")
    assert generate(generator="solid?concurrency=8&size=64").status == "done"
    with pytest.raises(RunError, match="generator is 'solid\\?size=64' there and 'solid' here"):
        generate(generator="solid?concurrency=2")


def test_another_request_is_refused_and_leaves_the_folder_as_it_was() -> None:
    run = generate()
    before = sorted(run.folder.rglob("*"))
    with pytest.raises(RunError, match="a different request"):
        generate(request=["something else", Image.new("RGB", (8, 8))])
    assert sorted(run.folder.rglob("*")) == before


def test_a_folder_with_other_things_is_refused_and_not_touched(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "holiday.txt").write_text("mine")
    with pytest.raises(RunError, match="other files"):
        generate(folder)
    assert [path.name for path in folder.iterdir()] == ["holiday.txt"]


def test_an_empty_folder_is_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert generate(tmp_path / "empty").status == "done"


def test_B16_a_second_writer_is_refused() -> None:
    stop_after(2, "run")
    journal = Journal(Path("run/journal.jsonl"))
    with pytest.raises(RunError, match="another process"):
        generate("run")
    journal.close()
    assert generate("run").status == "done"


def test_B07_a_torn_last_line_is_dropped_wherever_it_was_cut() -> None:
    whole = interleave.comparable(generate("whole").folder)
    stop_after(4, "run")
    data = Path("run/journal.jsonl").read_bytes()
    last = data.rstrip(b"\n").rfind(b"\n") + 1
    for cut in range(last, len(data), 25):
        Path("run/journal.jsonl").write_bytes(data[:cut])
        assert generate("run").status == "done"
        assert interleave.comparable(Path("run")) == whole


def test_B08_damage_elsewhere_is_refused_with_file_and_line() -> None:
    run = generate()
    path = run.folder / "journal.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2][:40]
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(RunError, match=r"journal\.jsonl:3 is damaged"):
        generate()


@pytest.mark.parametrize("damage", ["missing", "altered"])
def test_B11_a_missing_or_altered_image_is_noticed(damage: str) -> None:
    stop_after(4, "run")
    (image,) = Path("run/images").iterdir()
    if damage == "missing":
        image.unlink()
    else:
        data = bytearray(image.read_bytes())
        data[-20] ^= 1
        image.write_bytes(data)
    with pytest.raises(RunError, match=damage):
        generate("run")


def test_a_failed_call_ends_the_run_with_its_cause_and_it_can_be_continued() -> None:
    with pytest.raises(BackendError, match="out of paint"):
        generate(generator=Flaky(fail_at=3))
    record = interleave.read_record(Path("run"))
    assert (record.status, record.reason) == ("failed", "out of paint")
    assert record.errors == ("generator: out of paint",)
    painter = Flaky()
    assert generate(generator=painter).status == "done"
    assert painter.calls == 4  # two of six images were in the journal


def test_a_transient_failure_is_tried_again_and_counted() -> None:
    run = generate(generator=Flaky(fail_at=2, transient=True))
    assert run.status == "done"
    assert run.record.calls.repeated == 1
    assert run.record.calls.generator == 6


def test_D02_an_unreadable_planner_ends_the_run_before_the_first_image() -> None:
    with pytest.raises(ReplyError):
        generate(planner=script("bad.jsonl", *["no"] * 8))
    record = interleave.read_record(Path("run"))
    assert record.status == "failed"
    assert record.calls.planner == 4
    assert record.calls.generator == 0
    assert record.planner_bad_replies == ("no",) * 4


def test_an_unreadable_planner_is_asked_anew_when_the_run_is_continued() -> None:
    good = '{"execution_plan": [{"step_number": 1, "prompt": "a frog", "instruction": "x"}]}'
    planner = script("slow-start.jsonl", *["no"] * 5, good)
    with pytest.raises(ReplyError):
        generate(request="a frog", planner=planner)
    run = generate(request="a frog", planner=planner)
    assert run.status == "done"
    assert run.record.calls.planner == 6


def test_a_script_goes_on_where_it_was_when_a_run_is_continued() -> None:
    verdicts = [json.dumps({"success": False, "refine_prompt": f"try {n}"}) for n in range(1, 5)]
    critic = script("critic.jsonl", *verdicts, *['{"success": true}'] * 9)
    whole = generate("whole", critic=critic)

    async def some() -> None:
        async with aclosing(stream("stopped", critic=critic)) as coming:
            for _ in range(5):
                await anext(coming)

    asyncio.run(some())
    assert generate("stopped", critic=critic).record.calls == whole.record.calls
    assert interleave.comparable(Path("stopped")) == interleave.comparable(Path("whole"))


def test_past_the_end_of_a_script_the_run_fails_for_good() -> None:
    with pytest.raises(BackendError, match="past its end"):
        generate(critic=script("short.jsonl", '{"success": true}'))
    assert interleave.read_record(Path("run")).status == "failed"


def test_E05_an_unreadable_critic_leaves_the_attempt_unjudged_and_keeps_its_replies() -> None:
    critic = script("critic.jsonl", *["hm"] * 4, *['{"success": true}'] * 9)
    run = generate(critic=critic)
    first, second = run.record.steps[0].attempts
    assert first.verdict is not None
    assert first.verdict.outcome is Outcome.UNREADABLE
    assert first.bad_replies == ("hm",) * 4
    assert second.verdict is not None
    assert second.verdict.accepted
    assert not run.record.steps[0].forced


def test_forced_steps_are_marked_never_called_accepted() -> None:
    refuse = '{"success": false, "refined_prompt": "again"}'
    run = generate(critic=script("critic.jsonl", *[refuse] * 40), max_attempts=2)
    assert run.record.forced_steps == (1, 2, 3, 4)
    assert not any(step.accepted for step in run.record.steps)


def test_a_plan_given_by_hand_is_drawn_without_asking_a_planner() -> None:
    plan = Plan(steps=(PlanStep(number=1, prompt="a cat"), PlanStep(number=2, caption="The end.")))
    run = generate(plan=plan)
    assert run.record.calls.planner == 0
    assert [step.text for step in run.steps] == ["", "The end."]


def test_agents_that_are_no_models_are_journalled_too() -> None:
    class Teacher:
        calls = 0

        async def plan(self, request: Request) -> Plan:
            self.calls += 1
            return Plan(steps=(PlanStep(number=1, prompt="a cat"), PlanStep(number=2, prompt="a hat")))

        async def judge(self, seen: CriticInput) -> Verdict:
            self.calls += 1
            return Verdict(outcome=Outcome.ACCEPTED, reasoning=f"step {seen.slot.step}")

    teacher = Teacher()
    with pytest.raises(BackendError):
        generate(planner=teacher, critic=teacher, generator=Flaky(fail_at=2))
    assert teacher.calls == 2
    run = generate(planner=teacher, critic=teacher, generator=Flaky())
    assert run.status == "done"
    assert teacher.calls == 3
    assert (run.record.calls.planner, run.record.calls.critic) == (1, 2)


def test_a_run_made_with_objects_is_not_resumed_from_its_folder_alone() -> None:
    with pytest.raises(BackendError):
        generate(generator=Flaky(fail_at=1))
    with pytest.raises(RunError, match="Flaky"):
        reopen_run(Path("run"), Limits())


def test_the_request_comes_back_from_the_folder_with_its_images() -> None:
    given = Image.new("RGB", (64, 48), "teal")
    run = generate(request=["Once upon a time", given, "and then? two more pictures, in 2 steps"])
    part = run.record.request[1]
    assert part.image is not None
    with Image.open(run.folder / "images" / part.image) as stored:
        assert stored.size == (64, 48)
        assert stored.getpixel((0, 0)) == (0, 128, 128)


@pytest.mark.parametrize(
    "text",
    [
        "قصة عن ضفدع", "סיפור על צפרדע", "👨‍👩‍👧‍👦 at the zoo", "กบตัวน้อย", "Z̵̡̢͇̈́̒ä̶͚l̷̰̈g̵̣̈́o̷̱͌",
        "<image> {text_input} {{prompt}} %s $HOME `id` <answer>{}</answer>", "tab\tand\nnewline", "x",
    ],
)  # fmt: skip
def test_I05_I06_any_text_is_kept_byte_for_byte(text: str) -> None:
    run = generate(request=text)
    assert run.status == "done"
    assert run.record.request[0].text == text
    assert json.loads((run.folder / "run.json").read_text("utf-8"))["request"][0]["text"] == text


@pytest.mark.parametrize("text", ["", "  \n ", "a\x00b", "half \ud800 a pair", "x" * 5_000_000])
def test_I05_unusable_requests_are_refused_and_nothing_is_written(text: str) -> None:
    with pytest.raises(InputError):
        generate(request=text)
    assert not Path("run").exists()


def test_events_come_in_order_and_end_with_finished() -> None:
    async def collect() -> list[str]:
        return [type(event).__name__ async for event in stream()]

    names = asyncio.run(collect())
    assert names[0] == "Planned"
    assert names[-1] == "RunResult"
    assert names.count("StepFinished") == 4
    assert names.count("Drawn") == names.count("Judged") == 6


def test_generate_works_where_an_event_loop_is_running() -> None:
    async def notebook() -> RunResult:
        return generate()

    assert asyncio.run(notebook()).status == "done"


def test_a_default_folder_is_new_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.strftime", lambda _: "20260101-000000")
    folders = [interleave.generate("Größe, in 1 picture").folder for _ in range(2)]
    assert [folder.name for folder in folders] == [
        "20260101-000000-groe-in-1-picture",
        "20260101-000000-groe-in-1-picture-2",
    ]


class Broken:
    """A user's own generator, with a mistake in it."""

    capabilities = GeneratorCapabilities()

    def __init__(self, result: object) -> None:
        self.result = result

    async def generate(self, request: ImageRequest) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def test_a_mistake_in_a_users_own_model_is_recorded_and_leaves_the_folder_free() -> None:
    with pytest.raises(ValueError, match="boom"):
        generate(generator=Broken(ValueError("boom")))
    record = interleave.read_record("run")
    assert (record.status, record.reason) == ("failed", "ValueError: boom")
    assert generate(generator=Broken(Image.new("RGB", (8, 8)))).status == "done"


@pytest.mark.parametrize("result", [b"png", "a path", None], ids=repr)
def test_what_a_users_own_generator_returns_must_be_an_image(result: object) -> None:
    with pytest.raises(BackendError, match=f"the generator returned a {type(result).__name__}, not a Image"):
        generate(generator=Broken(result))


class NotAsync:
    capabilities = GeneratorCapabilities()

    def generate(self, request: ImageRequest) -> Image.Image:
        return Image.new("RGB", (8, 8))


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({"generator": NotAsync()}, "async def generate"),
        ({"generator": Broken}, "the class Broken, not an object of it"),
        ({"generator": object()}, "this is a object"),
        ({"planner": object()}, "async def plan"),
        ({"critic": NotAsync()}, "async def judge"),
        ({"generater": "solid"}, "Did you mean 'generator'"),
    ],
    ids=["not async", "a class", "no generator", "no planner", "no critic", "typo"],
)
def test_objects_that_are_no_models_are_refused_in_words(choices: dict[str, Any], expected: str) -> None:
    with pytest.raises(interleave.ConfigurationError, match=expected):
        generate(**choices)
    assert not Path("run").exists()


@pytest.mark.parametrize("request_", [None, 7, {"request": "x"}, b"x", ["a", 7]], ids=repr)
def test_a_request_that_is_none_is_refused_in_words(request_: Any) -> None:
    with pytest.raises(InputError, match="request is"):
        generate(request=request_)


def test_a_path_in_a_request_is_an_image() -> None:
    Image.new("RGBA", (64, 64), (0, 128, 128, 128)).save("a.png")
    run = generate(request=[Path("a.png"), "Add a hat, in 1 step"])
    assert run.record.request[0].image


def test_a_stream_that_was_walked_away_from_lets_go_of_its_folder() -> None:
    async def twice() -> str:
        async for _ in stream():
            break
        async for event in stream():
            last = event
        return type(last).__name__

    assert asyncio.run(twice()) == "RunResult"


def test_A05_a_run_that_is_cancelled_while_its_end_waits_for_a_thread_lets_go_of_its_folder() -> None:
    async def cancelled() -> None:
        loop, free, drawn = asyncio.get_running_loop(), threading.Event(), asyncio.Event()
        loop.set_default_executor(ThreadPoolExecutor(1))

        async def watch() -> None:
            async for event in stream():
                if isinstance(event, StepFinished) and event.step.number == 4:
                    loop.run_in_executor(None, free.wait)  # the only thread: the run's end has to queue
                    drawn.set()

        watching = asyncio.create_task(watch())
        await drawn.wait()
        await asyncio.sleep(0.1)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        free.set()

    asyncio.run(cancelled())
    assert generate().status == "done"


def test_a_page_says_only_what_is_true_of_its_models() -> None:
    plan = Plan(steps=(PlanStep(number=1, prompt="a cat"),))
    page = generate(plan=plan).document.read_text("utf-8")
    assert "The plan comes from" not in page
    assert "The verdicts come from the built-in fake" in page


def test_a_child_that_was_started_meanwhile_does_not_keep_the_folder_locked(tmp_path: Path) -> None:
    first = Journal(tmp_path / "journal.jsonl")
    child = subprocess.Popen(["sleep", "600"], pass_fds=[first._file])  # it has a copy of the open file
    try:
        first.close()
        Journal(tmp_path / "journal.jsonl").close()
    finally:
        child.kill()
        child.wait()
