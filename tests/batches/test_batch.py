"""Many requests at once: each in its folder, none lost, none done twice, none in the way of another."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import interleave
from clocks import SkippingLoop, run_skipping
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.backends.retries import IMAGE_DEADLINE_SECONDS
from interleave.batches.batch import read_index, run_folder
from interleave.batches.requests import MAX_LINE_BYTES, read_requests
from interleave.cli.main import run
from interleave.errors import BackendError, InputError, RunError

Captured = pytest.CaptureFixture[str]


@dataclass
class Painter:
    """A generator that counts what it does, and fails where it is told."""

    concurrency: int | None = None
    delay: float = 0.0
    fail_on: str = "nothing at all"
    calls: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    @property
    def capabilities(self) -> GeneratorCapabilities:
        return GeneratorCapabilities(concurrency=self.concurrency)

    async def generate(self, request: ImageRequest) -> Image.Image:
        self.calls.append(request.prompt)
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            await asyncio.sleep(self.delay)
        finally:
            self.at_once -= 1
        if self.fail_on in request.prompt:
            raise BackendError("out of paint")
        return Image.new("RGB", (16, 16), (request.seed % 256, 0, 0))


def requests(count: int, steps: int = 2) -> list[str]:
    return [f"Story {number}, in {steps} pictures" for number in range(count)]


def stop_after(ended: int, painter: Painter, *, concurrency: int) -> None:
    """Work on twelve requests until so many have ended, then walk away."""

    async def some() -> None:
        running = interleave.stream_many(requests(12), out="many", generator=painter, concurrency=concurrency)
        async with aclosing(running) as stream:
            for _ in range(ended):
                await anext(stream)

    asyncio.run(some())


def rows(path: str, *given: Any) -> Path:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in given))
    return Path(path)


def test_every_request_gets_a_run_folder_of_its_own() -> None:
    summary = interleave.generate_many(requests(5), out="many")
    assert (summary.total, summary.done, summary.failed) == (5, 5, 0)
    ended = read_index(Path("many"))
    assert len({e.folder for e in ended}) == 5
    for one in ended:
        assert interleave.read_record(Path("many", one.folder)).status == "done"


def test_a_run_of_a_batch_equals_a_run_alone() -> None:
    interleave.generate("Story 1, in 2 pictures", out="alone")
    interleave.generate_many(
        [("one", "Story 1, in 2 pictures"), ("two", "Story 2, in 2 pictures")], out="many"
    )
    assert interleave.comparable(Path("many", run_folder("one"))) == interleave.comparable(Path("alone"))


def test_the_same_call_again_makes_no_model_call() -> None:
    interleave.generate_many(requests(4), out="many", generator=Painter())
    painter = Painter()
    summary = interleave.generate_many(requests(4), out="many", generator=painter)
    assert summary.done == 4
    assert painter.calls == []


def test_A12_new_requests_join_and_order_does_not_matter() -> None:
    interleave.generate_many(requests(3), out="many", generator=Painter())
    painter = Painter()
    summary = interleave.generate_many(reversed(requests(5)), out="many", generator=painter)
    assert summary.done == 5
    assert Counter(prompt[:7] for prompt in painter.calls).keys() == {"Story 3", "Story 4", "Add par"}


def test_J01_calls_to_a_model_never_exceed_its_concurrency() -> None:
    painter = Painter(concurrency=3, delay=0.01)
    interleave.generate_many(requests(12), out="many", generator=painter, concurrency=12)
    assert painter.most_at_once == 3


def test_no_more_requests_are_open_than_asked_for() -> None:
    painter = Painter(delay=0.01)
    interleave.generate_many(requests(9), out="many", generator=painter, concurrency=2)
    assert painter.most_at_once <= 2


def test_requests_are_taken_one_by_one_as_there_is_room() -> None:
    taken = 0

    def endless() -> Any:
        nonlocal taken
        for number in range(1000):
            taken += 1
            yield f"Story {number}, in 1 picture"

    async def some() -> int:
        async with aclosing(interleave.stream_many(endless(), out="many", concurrency=3)) as ended:
            async for _ in ended:
                return taken
        return 0

    assert asyncio.run(some()) <= 8


def test_J09_a_short_request_does_not_wait_for_a_long_one() -> None:
    async def order() -> list[str]:
        asked = [
            ("long", "A story in 30 pictures"),
            *((f"s{n}", f"Story {n}, in 1 picture") for n in range(20)),
        ]
        painter = Painter(concurrency=1, delay=0.002)
        ended = interleave.stream_many(asked, out="many", generator=painter, concurrency=4)
        async with aclosing(ended) as all_ended:
            return [one.id async for one in all_ended]

    assert asyncio.run(order())[-1] == "long"


def test_a_failure_is_recorded_with_its_cause_and_the_others_go_on() -> None:
    summary = interleave.generate_many(requests(6), out="many", generator=Painter(fail_on="Story 3"))
    assert (summary.done, summary.failed) == (5, 1)
    (failure,) = [e for e in read_index(Path("many")) if e.status == "failed"]
    assert failure.reason == "out of paint"
    assert interleave.read_record(Path("many", failure.folder)).status == "failed"


def test_failed_requests_are_left_alone_until_they_are_asked_for() -> None:
    interleave.generate_many(requests(6), out="many", generator=Painter(fail_on="Story 3"))
    painter = Painter()
    assert interleave.generate_many(requests(6), out="many", generator=painter).failed == 1
    assert painter.calls == []
    again = interleave.generate_many(requests(6), out="many", generator=painter, retry_failed=True)
    assert (again.done, again.failed) == (6, 0)
    assert len(painter.calls) == 3  # the two steps of one story, the second drawn twice


def test_A19_fifty_failures_in_a_row_stop_the_batch() -> None:
    with pytest.raises(BackendError, match=r"5\d requests in a row"):
        interleave.generate_many(requests(500), out="many", generator=Painter(fail_on="Story"), concurrency=4)
    assert 50 <= len(read_index(Path("many"))) < 70


def test_a_bug_in_one_request_does_not_end_the_others(caplog: pytest.LogCaptureFixture) -> None:
    class Buggy(Painter):
        async def generate(self, request: ImageRequest) -> Image.Image:
            if "Story 2" in request.prompt:
                raise ZeroDivisionError("a bug")
            return await super().generate(request)

    summary = interleave.generate_many(requests(4), out="many", generator=Buggy())
    assert (summary.done, summary.failed) == (3, 1)
    assert "ZeroDivisionError" in read_index(Path("many"))[-1].reason or "ZeroDivisionError" in caplog.text


def test_A02_a_batch_that_is_stopped_goes_on_where_it_was() -> None:
    first, second = Painter(delay=0.002), Painter()
    stop_after(3, first, concurrency=4)
    assert interleave.generate_many(requests(12), out="many", generator=second).done == 12
    assert len(first.calls) + len(second.calls) - 36 <= 4  # at most one repeat for every open slot


def test_A02_what_has_ended_when_a_batch_is_stopped_is_in_its_index() -> None:
    stop_after(1, Painter(), concurrency=12)
    runs = [journal.parent for journal in Path("many").rglob("journal.jsonl")]
    done = {str(run.relative_to("many")) for run in runs if interleave.read_record(run).status == "done"}
    assert done  # how many end together depends on the machine: mostly several
    assert {ended.folder for ended in read_index(Path("many"))} == done


def test_requests_may_be_objects_as_a_file_has_them() -> None:
    Image.new("RGB", (64, 64), "red").save("a.png")
    given = [
        {"id": "a", "request": "A cat in 1 picture"},
        {"request": [{"image": "a.png"}, {"text": "Add a hat, in 1 step"}]},
    ]
    assert interleave.generate_many(given, out="many").done == 2
    assert interleave.read_record(f"many/{run_folder('a')}").title == "A cat in 1 picture"
    with pytest.raises(InputError, match="has no 'request'"):
        interleave.generate_many([{"prompt": "A cat"}], out="other")


BAD = ["Story 0, in 1 picture", "", "Story 2, in 1 picture", 7]


def test_a_bad_request_is_refused_with_its_place_before_anything_starts() -> None:
    with pytest.raises(InputError, match=r"2 bad requests, nothing .*requests\[1\]: .*empty.*requests\[3\]"):
        interleave.generate_many(BAD, out="many")
    with pytest.raises(InputError, match=r"skip_bad=True"):
        asyncio.run(interleave.agenerate_many(BAD, out="many"))
    assert not Path("many").exists()


def test_a_bad_request_is_skipped_with_its_reason_and_no_other_is_lost() -> None:
    summary = interleave.generate_many(iter(BAD), out="many", skip_bad=True)
    assert (summary.total, summary.done, summary.failed, summary.bad_requests) == (4, 2, 2, 2)
    assert [failure.id for failure in summary.failures] == ["requests[1]", "requests[3]"]
    assert "the request is empty" in summary.failures[0].reason
    mended = [*BAD[:1], "Story 1, in 1 picture", *BAD[2:]]
    again = asyncio.run(interleave.agenerate_many(mended, out="many", skip_bad=True))
    assert (again.done, again.failed) == (3, 1)


def test_parts_of_a_request_may_come_from_an_iterator() -> None:
    given = [iter(["Story 0,", "in 1 picture"]), ("b", iter(["Story 1, in 1 picture"]))]
    assert interleave.generate_many(given, out="many").done == 2


def test_A13_another_number_at_once_repeats_nothing_and_leaves_nothing_out() -> None:
    first, second = Painter(delay=0.001), Painter()
    stop_after(4, first, concurrency=8)
    done = interleave.generate_many(requests(12), out="many", generator=second, concurrency=3)
    assert done.done == 12
    assert len(first.calls) + len(second.calls) - 36 <= 8


def test_the_index_is_only_a_cache() -> None:
    interleave.generate_many(requests(3), out="many", generator=Painter())
    Path("many/index.jsonl").unlink()
    painter = Painter()
    assert interleave.generate_many(requests(3), out="many", generator=painter).done == 3
    assert painter.calls == []


def test_a_torn_or_damaged_index_is_no_loss() -> None:
    interleave.generate_many(requests(3), out="many", generator=Painter())
    index = Path("many/index.jsonl")
    lines = index.read_bytes().split(b"\n")
    index.write_bytes(b"\n".join([lines[0], b"\x00garbage", lines[2][:20]]))
    painter = Painter()
    assert interleave.generate_many(requests(3), out="many", generator=painter).done == 3
    assert painter.calls == []


HOSTILE_IDS = [
    "../../x", "/etc/x", "..", ".", "", " ", "a\nb", "x" * 10_000, "CON", "a/b", "%2e%2e", "\uff0f", "a. ",
    "é", "e\u0301", "ID", "id", "👨‍👩‍👧‍👦", "\u202eevil", "nul\x00",
]  # fmt: skip


def test_I01_I02_ids_never_become_paths_and_stay_distinct(tmp_path: Path) -> None:
    given = [(identity, f"Story {number}, in 1 picture") for number, identity in enumerate(HOSTILE_IDS)]
    before = set(tmp_path.parent.iterdir())
    summary = interleave.generate_many(given, out=tmp_path / "many")
    assert summary.done == len(HOSTILE_IDS)
    folders = [tmp_path / "many" / run_folder(identity) for identity in HOSTILE_IDS]
    assert len(set(folders)) == len(HOSTILE_IDS)
    assert all(folder.resolve().is_relative_to(tmp_path / "many" / "runs") for folder in folders)
    assert set(tmp_path.parent.iterdir()) == before
    assert {ended.id for ended in read_index(tmp_path / "many")} == set(HOSTILE_IDS)


def test_B17_run_folders_are_spread_over_many() -> None:
    spread = Counter(run_folder(str(number)).split("/")[1] for number in range(40_000))
    assert len(spread) == 256
    assert max(spread.values()) < 300


def test_I03_one_id_for_two_requests_is_refused_and_the_same_twice_is_one() -> None:
    assert interleave.generate_many(["A cat in 1 picture"] * 3, out="one").total == 1
    with pytest.raises(InputError, match="two different requests"):
        interleave.generate_many([("a", "A cat"), ("a", "A dog")], out="two")


def test_A12_an_id_that_stands_for_another_request_now_is_refused() -> None:
    interleave.generate_many([("a", "A cat in 1 picture")], out="many")
    with pytest.raises(RunError, match="another request"):
        interleave.generate_many([("a", "A dog in 1 picture")], out="many")


def test_A11_another_configuration_is_refused_with_what_differs() -> None:
    interleave.generate_many(requests(1), out="many")
    with pytest.raises(RunError, match="seed is 0 there and 5 here"):
        interleave.generate_many(requests(1), out="many", seed=5)


def test_B16_a_second_batch_on_the_folder_is_refused() -> None:
    async def both() -> None:
        first = interleave.stream_many(requests(5), out="many", concurrency=1)
        async with aclosing(first) as ended:
            await anext(ended)
            with pytest.raises(RunError, match="another process"):
                await anext(interleave.stream_many(requests(5), out="many"))

    asyncio.run(both())


def test_a_folder_with_other_things_or_a_single_run_is_refused() -> None:
    interleave.generate("A cat in 1 picture", out="run")
    with pytest.raises(RunError, match="other files"):
        interleave.generate_many(requests(1), out="run")
    Path("mine").mkdir()
    Path("mine/thesis.tex").write_text("x")
    with pytest.raises(RunError, match="other files"):
        interleave.generate_many(requests(1), out="mine")


def test_the_command_line_answers_a_file_of_requests(capsys: Captured) -> None:
    rows(
        "r.jsonl", {"id": 1, "request": "A cat in 2 pictures"}, {"request": "A dog in 1 picture", "tag": "x"}
    )
    assert run(["generate", "--requests", "r.jsonl", "--out", "many", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["total"], result["done"], result["already"], result["status"]) == (2, 2, 0, "done")
    assert run(["generate", "--requests", "r.jsonl", "--out", "many", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["already"] == 2
    assert "2 done, 0 short, 0 failed" in err


def test_the_command_line_says_what_failed_and_how_to_retry(capsys: Captured) -> None:
    verdict = json.dumps({"text": '{"success": true}'}) + "\n"
    Path("critic.jsonl").write_text(verdict)
    rows(
        "r.jsonl",
        {"id": "short", "request": "A cat in 1 picture"},
        {"id": "long", "request": "A dog in 3 pictures"},
    )
    arguments = ["generate", "--requests", "r.jsonl", "--out", "many", "--critic", "scripted:./critic.jsonl"]
    assert run(arguments) == 3
    out, err = capsys.readouterr()
    assert out == "many\n"
    assert "failed: long: the script" in err
    assert "--retry-failed" in err
    Path("critic.jsonl").write_text(verdict * 9)
    assert run(arguments) == 3
    assert run([*arguments, "--retry-failed"]) == 0


def test_show_and_resume_know_a_folder_of_many_runs(capsys: Captured) -> None:
    interleave.generate_many(requests(4), out="many", generator=Painter(fail_on="Story 3"))
    assert run(["show", "many"]) == 0
    out, err = capsys.readouterr()
    assert out == "many\n"
    assert "3 done, 0 short, 1 failed" in err
    assert "out of paint" in err
    assert run(["show", "many", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failed"] == 1
    assert run(["resume", "many"]) == 2
    assert "generate --requests" in capsys.readouterr().err


def test_show_makes_the_page_of_a_run_of_a_batch(capsys: Captured) -> None:
    interleave.generate_many([("a", "A cat in 1 picture")], out="many")
    assert run(["show", f"many/{run_folder('a')}"]) == 0
    assert Path(capsys.readouterr().out.strip()).is_file()


def test_a_batch_that_ends_short_exits_with_1(capsys: Captured) -> None:
    rows("r.jsonl", {"request": "A cat in 3 pictures"})
    assert run(["generate", "--requests", "r.jsonl", "--out", "many", "--max-calls", "4", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["short"] == 1


def test_images_of_a_row_are_read_beside_the_file() -> None:
    Path("set").mkdir()
    Image.new("RGB", (64, 64), "red").save("set/a.png")
    rows("set/r.jsonl", {"id": "a", "request": [{"image": "a.png"}, {"text": "Add a hat, in 1 step"}]})
    assert run(["generate", "--requests", "set/r.jsonl", "--out", "many"]) == 0
    record = interleave.read_record(Path("many", run_folder("a")))
    assert [bool(part.image) for part in record.request] == [True, False]


BAD_LINES = {
    "not JSON": b"{",
    "trailing comma": b'{"request": "x",}',
    "a list": b"[]",
    "a number": b"7",
    "no request": b'{"id": "a"}',
    "empty request": b'{"request": ""}',
    "blank request": b'{"request": "  "}',
    "request of a number": b'{"request": 7}',
    "empty parts": b'{"request": []}',
    "odd part": b'{"request": [{"video": "x"}]}',
    "part with more": b'{"request": [{"text": "x", "image": "y"}]}',
    "NaN": b'{"request": "x", "weight": NaN}',
    "UTF-16": '{"request": "x"}'.encode("utf-16-le"),
    "Latin-1": b'{"request": "caf\xe9"}',
    "gzip": b"\x1f\x8b\x08\x00\x00",
    "lone surrogate": b'{"request": "\\ud800"}',
    "lone surrogate beside an image": b'{"request": [{"image": "a.png"}, {"text": "\\ud800"}]}',
    "lone surrogate in an id": b'{"id": "\\ud83d", "request": "x"}',
    "lone surrogate in a picture's name": b'{"request": [{"image": "\\ud83d.png"}]}',
    "33 pictures": b'{"request": [' + b", ".join([b'{"image": "a.png"}'] * 33) + b"]}",
    "a key twice": b'{"request": "x", "request": "y"}',
    "a key twice below": b'{"request": [{"text": "x", "text": "y"}]}',
    "a number that is none here": b'{"request": "x", "weight": 1e999}',
    "a number of 5,000 digits": b'{"id": ' + b"9" * 5000 + b', "request": "x"}',
    "boolean id": b'{"id": true, "request": "x"}',
    "fractional id": b'{"id": 1.5, "request": "x"}',
    "deep": b"[" * 100_000,
    "too long": b'{"request": "' + b"x" * MAX_LINE_BYTES + b'"}',
    "missing picture": b'{"request": [{"image": "no.png"}]}',
    "picture outside": b'{"request": [{"image": "../../etc/passwd"}]}',
    "absolute picture": b'{"request": [{"image": "/etc/passwd"}]}',
    "picture from the web": b'{"request": [{"image": "http://127.0.0.1/x.png"}]}',
    "folder as picture": b'{"request": [{"image": "."}]}',
    "NUL in a path": b'{"request": [{"image": "a\\u0000.png"}]}',
}


@pytest.mark.parametrize("bad", BAD_LINES)
def test_I07_I08_a_bad_line_is_refused_with_its_number_before_anything_starts(
    bad: str, capsys: Captured
) -> None:
    Image.new("RGB", (8, 8)).save("a.png")
    Path("r.jsonl").write_bytes(b'{"request": "fine"}\n\n' + BAD_LINES[bad] + b'\n{"request": "also fine"}\n')
    assert run(["generate", "--requests", "r.jsonl", "--out", "many"]) == 2
    err = capsys.readouterr().err
    assert "r.jsonl:3:" in err
    assert len(err.splitlines()) <= 2
    assert not Path("many").exists()


NOT_UTF8 = os.fsdecode(b"f\xff")
"""A name that a file can have, and that is no text."""


@pytest.fixture
def odd_folder() -> Path:
    folder = Path(NOT_UTF8)
    try:
        folder.mkdir()
    except OSError:  # macOS
        pytest.skip("does not apply: this file system takes only names in UTF-8")
    return folder


@pytest.mark.parametrize("command", [["generate", "--requests"], ["data", "collect"]], ids=" ".join)
def test_I05_a_damaged_image_in_a_folder_that_is_no_text_fails_its_request_alone(
    command: list[str], odd_folder: Path, capsys: Captured
) -> None:
    (odd_folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    broken = {"id": "a", "request": [{"image": "a.png"}, {"text": "Add a hat, in 1 step"}]}
    fine = {"id": "b", "request": "A cat in 1 picture", "note \ud83d": "\ud83d"}
    requests = str(rows(f"{NOT_UTF8}/r.jsonl", broken, fine))
    for _ in range(2):
        assert run([*command, requests, "--out", "many", "--json"]) == 2
        told = json.loads(capsys.readouterr().out)
        assert (told["done"], told["failed"], told["bad_requests"]) == (1, 1, 1)
    failure, done = sorted(read_index(Path("many")), key=lambda ended: ended.id)
    assert (failure.status, done.status) == ("failed", "done")
    assert failure.reason.startswith("f\\udcff/a.png: the image is damaged")
    assert failure.reason == told["failures"][0]["reason"]


def test_I05_a_folder_of_runs_may_have_a_name_that_is_no_text(odd_folder: Path, capsys: Captured) -> None:
    rows("r.jsonl", {"id": "a", "request": "A cat in 1 picture"})
    many = str(odd_folder / "many")
    assert run(["generate", "--requests", "r.jsonl", "--out", many, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["out"] == many
    assert run(["generate", "--requests", "r.jsonl", "--out", many]) == 0
    assert run(["show", many]) == 0


def test_I05_text_that_no_file_can_hold_stops_no_batch(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(Painter):
        async def generate(self, request: ImageRequest) -> Image.Image:
            if "Story 1" in request.prompt:
                raise ZeroDivisionError("a bug \ud83d")
            if "Story 2" in request.prompt:
                raise BackendError("out of paint \ud83d")
            return await super().generate(request)

    summary = interleave.generate_many(requests(5), out="many", generator=Odd())
    assert (summary.done, summary.failed) == (3, 2)
    reasons = {ended.reason for ended in read_index(Path("many")) if ended.status == "failed"}
    assert reasons == {"ZeroDivisionError: a bug \\ud83d", "out of paint \\ud83d"}
    for ended in read_index(Path("many")):
        assert interleave.read_record(Path("many", ended.folder)).reason == ended.reason


def test_a_file_that_goes_away_while_it_is_worked_on_fails_its_requests_by_name() -> None:
    path = rows("r.jsonl", {"id": "a", "request": "A cat in 1 picture"})
    (item,), _ = read_requests(path)
    path.unlink()
    with pytest.raises(InputError, match=r"r\.jsonl: cannot be read again \(No such file"):
        item.load()


def test_I07_bad_lines_are_left_out_and_counted_if_asked_for(capsys: Captured) -> None:
    Path("r.jsonl").write_bytes(b'\xef\xbb\xbf{"request": "fine, in 1 picture"}\r\n{\n')
    assert run(["generate", "--requests", "r.jsonl", "--out", "many", "--skip-bad", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["total"] == 1
    assert "left out: r.jsonl:2" in err


def test_I03_clashing_ids_in_a_file_are_refused_with_both_lines(capsys: Captured) -> None:
    rows("r.jsonl", {"id": "a", "request": "x"}, {"id": "b", "request": "y"}, {"id": "a", "request": "z"})
    assert run(["generate", "--requests", "r.jsonl", "--out", "many"]) == 2
    err = capsys.readouterr().err
    assert "r.jsonl:3" in err
    assert "line 1" in err


def test_I04_a_missing_id_comes_from_the_content() -> None:
    items, _ = read_requests(rows("r.jsonl", {"request": "x"}, {"request": "x"}, {"request": "y"}))
    assert len(items) == 2
    again, _ = read_requests(rows("s.jsonl", {"request": "y"}, {"request": "x"}))
    assert {item.id for item in items} == {item.id for item in again}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--requests", "no.jsonl", "--out", "many"], "cannot be read"),
        (["--requests", "empty.jsonl", "--out", "many"], "has no requests"),
        (["--requests", "r.jsonl"], "--out DIR"),
        (["A cat", "--requests", "r.jsonl", "--out", "many"], "cannot be combined with REQUEST"),
        (["--requests", "r.jsonl", "--out", "many", "--concurrency", "0"], "concurrency"),
    ],
)
def test_a_batch_that_cannot_start_says_why(arguments: list[str], expected: str, capsys: Captured) -> None:
    Path("empty.jsonl").write_text("\n\n")
    rows("r.jsonl", {"request": "x"})
    assert run(["generate", *arguments]) == 2
    assert expected in capsys.readouterr().err


def test_waiting_for_a_turn_does_not_count_against_the_deadline() -> None:
    loop = SkippingLoop()

    class Slow(Painter):
        """Each image takes a hundred seconds, on the clock of the loop."""

        async def generate(self, request: ImageRequest) -> Image.Image:
            image = await super().generate(request)
            loop.ahead += 100
            await asyncio.sleep(0)
            return image

    async def all_of_them() -> list[str]:
        asked = requests(20, steps=1)
        ended = interleave.stream_many(asked, out="many", generator=Slow(concurrency=1), concurrency=20)
        async with aclosing(ended) as stream:
            return [each.status async for each in stream]

    assert 4 * IMAGE_DEADLINE_SECONDS < 20 * 100
    assert run_skipping(loop, all_of_them()) == ["done"] * 20
