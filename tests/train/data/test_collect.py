"""`data collect`: every request in a run folder of its own, with the generator and seed that are its due."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import aclosing
from pathlib import Path

import pytest
from collections_made import MIXED, OTHER, SMALL, collect, comparables, write_requests, write_rows
from PIL import Image

import interleave
from interleave.backends.fakes import SolidGenerator
from interleave.backends.protocols import ImageRequest
from interleave.batches.assignment import WHOLE, Assignment, Shard, Share
from interleave.batches.batch import Batch, Ended, read_index, run_folder
from interleave.batches.requests import Item
from interleave.cli.main import run
from interleave.config.run_config import RoleConfig
from interleave.errors import RunError
from interleave.runs.folder import open_journal
from interleave.train.data.collect import CollectConfig, Workload, write_collection_manifest
from interleave.train.data.manifest import COLLECTION_MANIFEST, file_digest, read_manifest
from interleave.train.data.trajectories import run_names
from work import HANGS_AFTER

Captured = pytest.CaptureFixture[str]
IDS = [f"request-{number}" for number in range(4000)]
ASSIGNMENT = CollectConfig({}, (SMALL, OTHER)).assignment()


def mixed_assignment(seed: int = 0) -> Assignment:
    return CollectConfig({"seed": seed}, (SMALL, OTHER), (1.0, 3.0)).assignment()


def drawn_by(assignment: Assignment, ids: list[str]) -> Counter[str]:
    return Counter(assignment.assign(ids).values())


def test_a_file_of_requests_becomes_a_collection(capsys: Captured) -> None:
    requests = write_requests(5)
    assert collect(requests, "made", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["total"], told["done"], told["already"], told["status"]) == (5, 5, 0, "done")
    assert told["calls"] == 5 * 7
    assert len(run_names(Path("made"))) == 5
    manifest = read_manifest(Path("made", COLLECTION_MANIFEST))
    assert manifest.inputs == {"requests.jsonl": file_digest(Path(requests))}
    assert manifest.counts["done"] == manifest.counts["requests"] == 5
    assert manifest.options["generators"] == {SMALL: 1.0}
    assert "solid" in " ".join(manifest.notes)


def test_the_same_command_again_calls_nothing_and_changes_nothing(capsys: Captured) -> None:
    requests = write_requests(4)
    collect(requests, "made")
    before = {path: path.read_bytes() for path in Path("made").rglob("*") if path.is_file()}
    assert collect(requests, "made", "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["already"] == 4
    assert {path: path.read_bytes() for path in Path("made").rglob("*") if path.is_file()} == before


def test_a_mixture_has_the_right_shares() -> None:
    shares = drawn_by(mixed_assignment(), IDS)
    assert shares == {SMALL: 1000, OTHER: 3000}


@pytest.mark.parametrize(("generators", "requests"), [(2, 12), (4, 12), (3, 10), (4, 3)])
def test_equal_shares_differ_by_one_at_most(generators: int, requests: int) -> None:
    assignment = CollectConfig(
        {}, tuple(f"solid?size={64 + number}" for number in range(generators))
    ).assignment()
    shares = drawn_by(assignment, IDS[:requests])
    each = [shares[config.generator.identity] for config in assignment.configs]
    assert sum(each) == requests
    assert max(each) - min(each) <= 1


def test_three_generators_of_very_different_weight_have_theirs() -> None:
    roles = [RoleConfig(spec=f"solid?size={size}") for size in (64, 65, 66)]
    shares = tuple(
        Share(generator=role, weight=weight) for role, weight in zip(roles, (0.01, 2, 0.5), strict=True)
    )
    assignment = mixed_assignment().model_copy(update={"mixture": shares})
    counts = drawn_by(assignment, IDS)
    assert counts == {"solid?size=64": 16, "solid?size=65": 3187, "solid?size=66": 797}


def test_the_seed_decides_who_draws_and_nothing_else_does() -> None:
    one, again, other = (
        mixed_assignment().assign(IDS),
        mixed_assignment().assign(reversed(IDS)),
        mixed_assignment(seed=7).assign(IDS),
    )
    assert one == again
    moved = sum(one[each] != other[each] for each in IDS)
    assert 0.3 < moved / len(IDS) < 0.45  # 2 · 1/4 · 3/4


def test_a_shard_has_its_part_of_every_generator() -> None:
    assignment = mixed_assignment()
    for number in range(1, 5):
        part = [drawn for identity, drawn in assignment.assign(IDS).items() if Shard(number, 4).has(identity)]
        assert abs(part.count(SMALL) / len(part) - 0.25) < 0.06


def test_every_request_has_a_seed_of_its_own() -> None:
    assignment = mixed_assignment()
    assert len({assignment.config_for(identity, SMALL).seed for identity in IDS}) == len(IDS)


def test_equal_requests_with_different_ids_give_different_images() -> None:
    rows = [{"id": name, "request": "A cat in 1 picture"} for name in ("a", "b")]
    collect(write_rows("requests.jsonl", *rows), "made")
    first, second = comparables("made").values()
    assert first["plan"] == second["plan"]
    assert first["steps"][0]["attempts"][0]["image"] != second["steps"][0]["attempts"][0]["image"]


def test_the_runs_of_a_mixture_say_who_drew_them(capsys: Captured) -> None:
    assert collect(write_requests(12), "made", *MIXED) == 0
    said = Counter(
        interleave.read_record(Path("made", name)).config.generator.spec for name in run_names(Path("made"))
    )
    assert said == drawn_by(
        CollectConfig({}, (SMALL, OTHER), (1.0, 2.0)).assignment(), [f"r{number}" for number in range(12)]
    )
    assert len(said) == 2
    counts = read_manifest(Path("made", COLLECTION_MANIFEST)).counts
    assert {counts[f"drawn by {spec}"] for spec in said} == set(said.values())


def test_the_shares_are_told(capsys: Captured) -> None:
    assert collect(write_requests(12), "made", *MIXED, "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["generators"] == {SMALL: 4, OTHER: 8}
    assert f"runs by generator: {SMALL} 4, {OTHER} 8" in err


def test_A12_what_has_been_begun_keeps_its_generator_when_requests_join() -> None:
    equal = ["--generator", SMALL, "--generator", OTHER]
    collect(write_requests(5), "made", *equal, "--max-calls", "3")  # so that all of them end short
    before = {name: run["config"]["generator"] for name, run in comparables("made").items()}
    assert collect(write_requests(40), "made", *equal, "--retry-failed") == 0
    after = {name: run["config"]["generator"] for name, run in comparables("made").items()}
    assignment = CollectConfig({}, (SMALL, OTHER)).assignment()
    ids = [f"r{number}" for number in range(40)]
    assert any(assignment.assign(ids[:5])[each] != assignment.assign(ids)[each] for each in ids[:5])
    assert before.items() <= after.items()


FOREIGN = "A photograph of the harbour of Lisbon at dawn"


def test_a_request_that_cannot_be_carried_out_is_no_failure_of_a_model(capsys: Captured) -> None:
    rows = [{"id": "foreign", "request": FOREIGN}]
    models = ["--planner", "oracle", "--critic", "oracle", "--generator", "world"]
    write_rows("requests.jsonl", *rows)
    assert run(["data", "collect", "requests.jsonl", "--out", "made", *models, "--json"]) == 2
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["failed"], told["bad_requests"], told["calls"]) == (1, 1, 0)
    assert "--retry-failed" not in err
    assert "1 request cannot be carried out as asked" in err
    assert f"failed: foreign: {told['failures'][0]['reason']}" in err  # to its end, which is the advice
    assert run(["data", "collect", "requests.jsonl", "--out", "made", *models]) == 2


def test_a_line_of_the_index_says_of_failures_only_what_is_true() -> None:
    collect(write_requests(1), "made")
    line = json.loads(Path("made", "index.jsonl").read_text())
    assert line["status"] == "done" and line["generator"] == SMALL
    assert not {"passing", "bad_request"} & set(line)


def test_a_folder_that_cannot_be_used_is_refused_before_models_are_loaded(capsys: Captured) -> None:
    requests = write_requests(1)
    Path("mine").mkdir()
    Path("mine/thesis.tex").write_text("x")
    collect(requests, "other", "--seed", "5")
    collect(requests, "busy")
    lock = open_journal(Path("busy"), "index.jsonl")
    capsys.readouterr()
    for folder, why in (("mine", "other files"), ("other", "seed is 5"), ("busy", "another process")):
        assert collect(requests, folder) == 2
        err = capsys.readouterr().err
        assert why in err and "loading" not in err
    lock.close()


def test_the_models_of_a_mixture_share_planner_critic_turns_and_disk() -> None:
    one, other = CollectConfig({}, (SMALL, OTHER)).worker(Path("made")).models.values()
    assert one.planner is other.planner
    assert one.limits["critic"] is other.limits["critic"]
    assert one.limits["generator"] is not other.limits["generator"]
    assert one.disk is other.disk
    assert one.retries is other.retries


def test_K13_shards_one_after_another_equal_one_process() -> None:
    requests = write_requests(10)
    collect(requests, "whole", *MIXED)
    for number in (3, 1, 2):
        assert collect(requests, "made", *MIXED, "--shard", f"{number}/3") == 0
    assert comparables("made") == comparables("whole")
    assert Path("made", COLLECTION_MANIFEST).read_bytes() == Path("whole", COLLECTION_MANIFEST).read_bytes()


@pytest.mark.parametrize("of", [1, 2, 3, 7, 64])
def test_K13_shards_are_disjoint_and_complete(of: int) -> None:
    shards = [Shard(number, of) for number in range(1, of + 1)]
    owners = [[shard.number for shard in shards if shard.has(identity)] for identity in IDS[:1000]]
    assert {len(each) for each in owners} == {1}
    assert len({each[0] for each in owners}) == of


def parts(requests: str, of: int) -> list[Batch]:
    """Batches of one folder that are open at the same time."""
    recipe = CollectConfig({}, (SMALL, OTHER))
    return [
        Batch(Path("made"), recipe.assignment(), recipe.worker(Path("made")), shard=Shard(number, of))
        for number in range(1, of + 1)
    ]


async def ended_of(batch: Batch, items: list[Item], concurrency: int = 4) -> list[Ended]:
    async with aclosing(batch.run(items, concurrency=concurrency)) as all_ended:
        return [ended async for ended in all_ended]


def test_J04_shards_at_the_same_time_make_one_collection() -> None:
    requests = write_requests(9)

    async def all_at_once() -> None:
        batches = parts(requests, 3)
        works = [Workload.read(Path(requests), ASSIGNMENT, shard=Shard(number, 3)) for number in (1, 2, 3)]
        await asyncio.gather(
            *(ended_of(batch, work.items) for batch, work in zip(batches, works, strict=True))
        )

    asyncio.run(all_at_once())
    collect(requests, "whole", "--generator", SMALL, "--generator", OTHER)
    write_collection_manifest(Path("made"), Workload.read(Path(requests), ASSIGNMENT))
    assert comparables("made") == comparables("whole")
    assert Path("made", COLLECTION_MANIFEST).read_bytes() == Path("whole", COLLECTION_MANIFEST).read_bytes()


def test_B16_what_another_process_is_at_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = write_requests(6)
    recipe = CollectConfig({}, (SMALL,))
    work = Workload.read(Path(requests), recipe.assignment())
    draw, seen_by_the_second = SolidGenerator.generate, asyncio.Event()

    async def held(self: SolidGenerator, request: ImageRequest) -> Image.Image:
        await seen_by_the_second.wait()
        return await draw(self, request)

    monkeypatch.setattr(SolidGenerator, "generate", held)

    async def during() -> list[Ended]:
        first = Batch(Path("made"), recipe.assignment(), recipe.worker(Path("made")))
        second = Batch(Path("made"), recipe.assignment(), recipe.worker(Path("made")), shard=Shard(1, 2))
        one = asyncio.create_task(ended_of(first, work.items, concurrency=6))
        while len(list(Path("made").glob("runs/*/*/journal.jsonl"))) < 6:
            await asyncio.sleep(0.01)  # until all six are under way
        seen = await ended_of(second, work.items)
        seen_by_the_second.set()
        await one
        return seen

    assert {ended.status for ended in asyncio.run(during())} == {"busy"}
    assert [ended.status for ended in read_index(Path("made"))] == ["done"] * 6


def test_two_whole_collections_at_once_are_refused() -> None:
    recipe = CollectConfig({}, (SMALL,))
    batch = Batch(Path("made"), recipe.assignment(), recipe.worker(Path("made")))
    with pytest.raises(RunError, match="another process"):
        Batch(Path("made"), recipe.assignment(), recipe.worker(Path("made")))
    batch.index.close()


def test_only_the_first_so_many_requests_are_taken(capsys: Captured) -> None:
    requests = write_requests(8)
    collect(requests, "made", "--limit", "3")
    assert {ended.id for ended in read_index(Path("made"))} == {"r0", "r1", "r2"}
    collect(requests, "made", "--json")
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["total"], told["already"]) == (8, 3)


def test_shards_of_the_first_so_many_are_parts_of_these() -> None:
    requests = Path(write_requests(20))
    taken = [
        item.id
        for number in (1, 2)
        for item in Workload.read(requests, ASSIGNMENT, limit=7, shard=Shard(number, 2)).items
    ]
    assert sorted(taken) == [f"r{number}" for number in range(7)]


def test_requests_with_images_are_collected() -> None:
    Path("set").mkdir()
    Image.new("RGB", (64, 64), "red").save("set/a.png")
    parts = [{"text": "Continue this in 1 picture"}, {"image": "a.png"}]
    collect(write_rows("set/requests.jsonl", {"id": "a", "request": parts}), "made")
    record = interleave.read_record(Path("made", run_folder("a")))
    assert record.status == "done"
    assert [bool(part.image) for part in record.request] == [False, True]


def test_what_failed_is_taken_up_again_if_asked_for(capsys: Captured) -> None:
    verdict = json.dumps({"text": '{"success": true}'}) + "\n"
    Path("critic.jsonl").write_text(verdict)
    requests = write_requests(3)
    critic = ["--critic", "scripted:./critic.jsonl"]
    assert collect(requests, "made", *critic) == 3
    assert read_manifest(Path("made", COLLECTION_MANIFEST)).counts["failed"] == 3
    assert "--retry-failed" in capsys.readouterr().err
    Path("critic.jsonl").write_text(verdict * 9)
    assert collect(requests, "made", *critic) == 3
    assert collect(requests, "made", *critic, "--retry-failed") == 0
    assert read_manifest(Path("made", COLLECTION_MANIFEST)).counts["done"] == 3


def test_a_failure_mended_by_another_shard_is_done_for_all() -> None:
    Path("critic.jsonl").write_text(json.dumps({"text": '{"success": true}'}) + "\n")
    requests = write_requests(4)
    options = ["--critic", "scripted:./critic.jsonl"]
    assert collect(requests, "made", *options) == 3
    Path("critic.jsonl").write_text((json.dumps({"text": '{"success": true}'}) + "\n") * 9)
    for part in ("1/2", "2/2"):
        assert collect(requests, "made", *options, "--retry-failed", "--shard", part) == 0
    assert collect(requests, "made", *options) == 0
    assert {ended.status for ended in read_index(Path("made"))} == {"done"}


def test_requests_of_another_file_join_and_both_files_are_named() -> None:
    collect(write_requests(2), "made")
    collect(write_rows("more.jsonl", {"id": "new", "request": "A cat in 1 picture"}), "made")
    manifest = read_manifest(Path("made", COLLECTION_MANIFEST))
    assert set(manifest.inputs) == {"requests.jsonl", "more.jsonl"}
    assert manifest.counts["requests"] == 3


HOSTILE_IDS = [
    "../../x",
    "/etc/x",
    "..",
    "",
    " ",
    "a\nb",
    "x" * 10_000,
    "a/b",
    "\uff0f",
    "ID",
    "id",
    "\u202ee",
]


def test_I01_I02_ids_never_become_paths_and_stay_distinct(tmp_path: Path) -> None:
    rows = [{"id": name, "request": "A cat in 1 picture"} for name in HOSTILE_IDS]
    before = set(tmp_path.parent.iterdir())
    assert collect(write_rows("requests.jsonl", *rows), "made") == 0
    assert len(run_names(Path("made"))) == len(HOSTILE_IDS)
    assert set(tmp_path.parent.iterdir()) == before
    assert {path.name for path in tmp_path.iterdir()} == {"made", "requests.jsonl"}


ODD_REQUESTS = [
    "<image> of a cat, in 1 picture", "{text_input} {0.__class__} %s $HOME `ls`, in 1 picture",
    "<answer>{}</answer> <|im_end|>, in 1 picture", "قصة قطة, in 1 picture", "👨‍👩‍👧‍👦 Z̷a̷l̷g̷o̷, in 1 picture",
    "\u202eevil\ttabs, in 1 picture", "é e\u0301, in 1 picture",
]  # fmt: skip


def test_I05_I06_odd_requests_are_kept_to_the_letter() -> None:
    rows = [{"id": str(number), "request": text} for number, text in enumerate(ODD_REQUESTS)]
    assert collect(write_rows("requests.jsonl", *rows), "made") == 0
    for number, text in enumerate(ODD_REQUESTS):
        record = interleave.read_record(Path("made", run_folder(str(number))))
        assert [part.text for part in record.request] == [text]


@pytest.mark.slow
def test_I10_a_bare_environment_will_do() -> None:
    requests = write_rows("requests.jsonl", {"id": "é", "request": "قطة 🐈, in 1 picture"})
    bare = {"LC_ALL": "C", "TZ": "Nowhere/Odd", "TMPDIR": "/no/such/folder", "PATH": os.environ["PATH"]}
    python_path = {key: value for key, value in os.environ.items() if key == "PYTHONPATH"}
    command = ["data", "collect", requests, "--out", "made", "--dry-run", "--generator", SMALL]
    done = subprocess.run(
        [sys.executable, "-m", "interleave", *command],
        env=bare | python_path,
        capture_output=True,
        timeout=HANGS_AFTER,
    )
    assert done.returncode == 0, done.stderr
    assert [ended.id for ended in read_index(Path("made"))] == ["é"]


def test_I03_I07_bad_lines_and_clashes_are_refused_before_anything_starts(capsys: Captured) -> None:
    Path("requests.jsonl").write_text('{"id": 1, "request": "x"}\n{\n{"id": "1", "request": "y"}\n')
    assert collect("requests.jsonl", "made") == 2
    err = capsys.readouterr().err
    assert "2 bad lines" in err and "requests.jsonl:2" in err and "requests.jsonl:3" in err
    assert not Path("made").exists()


def test_I07_one_bad_line_is_one(capsys: Captured) -> None:
    Path("requests.jsonl").write_text("{\n")
    assert collect("requests.jsonl", "made") == 2
    assert "1 bad line, nothing was started" in capsys.readouterr().err


def test_I07_lines_that_are_left_out_stand_in_the_manifest() -> None:
    Path("requests.jsonl").write_text('{"request": "A cat in 1 picture"}\n{\n')
    assert collect("requests.jsonl", "made", "--skip-bad") == 0
    assert "left out: requests.jsonl:2" in " ".join(read_manifest(Path("made", COLLECTION_MANIFEST)).notes)


def test_A11_a_folder_of_another_mixture_is_refused_with_what_differs(capsys: Captured) -> None:
    requests = write_requests(2)
    collect(requests, "made", *MIXED)
    assert collect(requests, "made", *MIXED[:-1], "5") == 2
    assert "'solid?size=80' ×2 there" in capsys.readouterr().err
    assert collect(requests, "made") == 2
    assert "the generators are" in capsys.readouterr().err
    assert collect(requests, "made", *MIXED, "--seed", "5") == 2
    assert "seed is 0 there and 5 here" in capsys.readouterr().err


def test_options_that_only_change_the_speed_may_change() -> None:
    requests = write_requests(2)
    collect(requests, "made", "--generator", "solid?size=64&concurrency=1")
    assert collect(requests, "made", "--generator", "solid?size=64&concurrency=9", "--concurrency", "2") == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--generator", SMALL, "--generator", OTHER, "--weight", "1"], "give one --weight per"),
        (["--weight", "1", "--weight", "2"], "give one --weight per"),
        (["--generator", SMALL, "--generator", OTHER, "--weight", "1", "--weight", "0"], "above 0"),
        (["--generator", SMALL, "--generator", OTHER, "--weight", "1", "--weight", "nan"], "above 0"),
        (["--generator", SMALL, "--generator", SMALL], "given twice"),
        (["--generator", SMALL, "--generator", "sold"], "no image generator named 'sold'"),
        (["--shard", "0/4"], "--shard 1/4"),
        (["--shard", "5/4"], "--shard 1/4"),
        (["--shard", "one of two"], "--shard 1/4"),
        (["--engine", "rai"], "Did you mean 'ray'"),
        (["--workers", "2"], "for --engine ray"),
        (["--limit", "0"], "limit"),
    ],
)
def test_I09_what_cannot_work_is_refused_with_the_option(
    options: list[str], expected: str, capsys: Captured
) -> None:
    assert collect(write_requests(1), "made", *options) == 2
    assert expected in capsys.readouterr().err
    assert not Path("made").exists()


def test_a_missing_ray_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert collect(write_requests(1), "made", "--engine", "ray") == 2
    assert 'pip install "interleavethinker[ray]"' in capsys.readouterr().err


def test_a_limit_ends_runs_short_and_the_collection_with_1(capsys: Captured) -> None:
    assert collect(write_requests(2), "made", "--max-calls", "4", "--json") == 1
    assert json.loads(capsys.readouterr().out)["short"] == 2


def test_show_tells_how_a_collection_of_shards_stands(capsys: Captured) -> None:
    requests = write_requests(5)
    collect(requests, "made", "--shard", "1/2")
    collect(requests, "made", "--shard", "2/2")
    assert run(["show", "made"]) == 0
    assert "5 requests have ended: 5 done" in capsys.readouterr().err


def test_show_counts_what_the_index_does_not_know(capsys: Captured) -> None:
    collect(write_requests(4), "made", *MIXED)
    capsys.readouterr()
    for killed in sorted(Path("made").glob("runs/*/*"))[:3]:  # as a kill leaves them
        lines = (killed / "journal.jsonl").read_bytes().splitlines(keepends=True)
        (killed / "journal.jsonl").write_bytes(b"".join(lines[:-1]))
        (killed / "run.json").unlink()
    Path("made", "index.jsonl").unlink()
    assert run(["show", "made"]) == 0
    told = capsys.readouterr()
    assert "1 request has ended: 1 done, 0 short, 0 failed\nnot ended: 3 interrupted\n" in told.err
    assert run(["show", "made", "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["total"], counts["interrupted"], counts["status"]) == (1, 3, "interrupted")
    journal = open_journal(sorted(Path("made").glob("runs/*/*"))[0])
    assert run(["show", "made"]) == 0
    assert "not ended: 1 running, 2 interrupted" in capsys.readouterr().err
    journal.close()


def test_show_tells_the_same_of_a_finished_collection_without_its_index(capsys: Captured) -> None:
    collect(write_requests(3), "made", *MIXED)
    capsys.readouterr()
    run(["show", "made", "--json"])
    Path("made", "index.jsonl").unlink()
    run(["show", "made", "--json"])
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == second
    assert first["done"] == 3


def test_the_whole_is_a_shard_with_everything() -> None:
    assert all(WHOLE.has(identity) for identity in IDS)
    assert WHOLE.label == ""
    assert Shard(2, 8).label == ".2-of-8"
