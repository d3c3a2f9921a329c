"""EditScore's EditReward-Bench: marks, pairs by type and dimension, upstream's cache, our critic."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from critic_data import Asked, Critic, ask, cell, judged, scorable, values, verdict

from interleave.backends.protocols import Reply
from interleave.bench.benchmarks.editscore_bench import (
    CATEGORIES,
    TYPES,
    EditScoreBench,
    EditScoreBenchCritic,
)
from interleave.bench.published import published_rows
from interleave.bench.records import by_item
from interleave.bench.scoring import Scorable
from interleave.errors import InputError

arrow = pytest.importorskip("pyarrow")

ROWS = [
    # type, dimension, better, worse: the greys of images are their marks
    ("subject-add", "prompt_following", 20, 10),
    ("subject-add", "consistency", 20, 10),
    ("subject-add", "overall", 20, 10),
    ("subject-add", "overall", 20, 12),
    ("subject-add", "overall", 15, 15),  # a tie is wrong
    ("subject-add", "overall", 11, 14),
    ("compose", "overall", 24, 23),
    ("compose", "prompt_following", 3, 4),
]


def rows() -> list[dict[str, Any]]:
    made = []
    for number, (kind, dimension, better, worse) in enumerate(ROWS):
        suffix = f"x{number}" if better == worse else ""
        made.append(
            {
                "key": [f"{kind}-{better}", f"{kind}-{worse}{suffix}"],
                "instruction": f"Do {kind}",
                "input_image": cell(200, (32, 16)),
                "output_images": [cell(better), cell(worse)],
                "task_type": kind,
                "dimension": dimension,
            }
        )
    return made


def write(folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    table = arrow.Table.from_pylist(rows)
    with arrow.ipc.new_stream(folder / "data-00000-of-00001.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "data", rows())


def marks(first: float, second: float) -> str:
    return json.dumps({"reasoning": "seen", "score": [first, second]})


def by_grey(asked: Asked) -> str:
    return marks(asked.levels[-1], asked.levels[-1])


def test_pairs_that_share_images_are_one_item_and_an_image_is_asked_about_once(
    data: Path, tmp_path: Path
) -> None:
    benchmark = EditScoreBench()
    found = benchmark.read(data)
    assert found.notes[:2] == ("8 pairs of 11 images, 2 edit types", "Apache-2.0")
    assert {item.id: len(item.facts["pairs"]) for item in found.items} == {
        "subject-add-20": 4,
        "subject-add-15": 1,
        "subject-add-11": 1,
        "compose-24": 1,
        "compose-3": 1,
    }
    work, critic = judged(benchmark, found, tmp_path / "out"), Critic(by_grey)
    ask(work, critic)
    assert len(critic.questions) == 2 * 11
    semantics = [asked for asked in critic.questions if len(asked.levels) == 2]
    assert len(semantics) == 11 and all("Do " in asked.text for asked in semantics)
    assert {asked.sizes[-1] for asked in critic.questions} == {(32, 16)}  # in the size of the source
    numbers = values(work)
    # overall: subject-add 2 of 4, compose 1 of 1; following: 1 of 1 and 0 of 1; consistency: 1 of 1
    assert numbers["overall"] == 75.0
    assert numbers["prompt_following"] == 50.0
    assert numbers["consistency"] == 100.0
    assert (numbers["subject_overall"], numbers["advanced_overall"]) == (50.0, 100.0)
    assert numbers["scene_overall"] is None


def test_overall_is_the_root_of_the_lower_marks_and_equal_products_are_a_tie(tmp_path: Path) -> None:
    one = [{**rows()[0], "dimension": "overall"}]
    benchmark = EditScoreBench()
    found = benchmark.read(write(tmp_path / "data", one))

    def says(asked: Asked) -> str:
        better, alone = asked.levels[-1] == 20, len(asked.levels) == 1
        if alone:
            return marks(4, 24) if better else marks(25, 3)
        return marks(6, 20) if better else marks(8, 8)

    work = judged(benchmark, found, tmp_path / "out")
    ask(work, Critic(says))  # 6 x 4 against 8 x 3
    assert values(work)["overall"] == 0.0


def test_a_mark_that_cannot_be_read_is_never_made_up(data: Path, tmp_path: Path) -> None:
    replies: dict[int, str | Reply] = {
        10: "score: 10 and 10",
        12: marks(12, 26),
        14: json.dumps({"score": [14]}),
        23: Reply(marks(1, 1), "length"),
        4: Reply("", "content_filter"),
    }
    benchmark = EditScoreBench()
    work = judged(benchmark, benchmark.read(data), tmp_path / "out")
    records = ask(work, Critic(lambda asked: replies.get(asked.levels[-1], by_grey(asked))))
    failed = {record.status for record in records.values()}
    assert failed == {"ok", "unparsed", "refused"}
    assert all(record.value is None for record in records.values() if record.status != "ok")
    # the rejected images of four pairs have no marks: those pairs are wrong, never won
    assert values(work, "zero")["overall"] == 0.0
    dropped = values(work, "drop")
    assert dropped["overall"] == 0.0  # what is left is the tie
    assert dropped["prompt_following"] is None
    with pytest.raises(InputError, match="gives no number"):
        _ = scorable(work, "official").item_measures


def test_the_cache_of_upstreams_script_is_read(data: Path, tmp_path: Path) -> None:
    benchmark = EditScoreBench()
    found = benchmark.read(data)
    lines = []
    for item in found.items:
        for edited in item.facts["pictures"]:
            grey = int("".join(filter(str.isdigit, edited.key.split("x")[0])))
            result = {
                "prompt_following": grey / 2.5,
                "consistency": grey / 2.5,
                "perceptual_quality": grey / 2.5,
                "overall": 10 - grey / 2.5,  # the mean over passes is not that of the means
                "SC_reasoning": "",
                "PQ_reasoning": "",
            }
            lines.append(
                json.dumps({"key": hashlib.sha256(edited.key.encode()).hexdigest(), "result": result})
            )
    path = tmp_path / "openai_gpt.jsonl"
    path.write_text("\n".join(lines))
    records = by_item(benchmark.import_judgements(found, path))
    work = judged(benchmark, found, tmp_path / "out")
    keys = {item.id: work.keys(item) for item in found.items}
    measured = Scorable(benchmark, found.items, keys, records, "official").item_measures
    assert measured["subject-add-20"]["prompt_following_right"] == 1.0
    assert measured["subject-add-20"]["overall_right"] == 0.0
    assert measured["subject-add-11"]["overall_right"] == 1.0
    path.write_text("{}")
    with pytest.raises(InputError, match="is not a line of upstream's cache"):
        list(benchmark.import_judgements(found, path))


def test_official_words_are_composed_as_upstream_composes_them(data: Path, tmp_path: Path) -> None:
    place = tmp_path / "checkout" / "editscore"
    place.mkdir(parents=True)
    (place / "vie_prompts.py").write_text(
        '_context_no_delimit_reasoning_first = """Context, 10 words"""\n'
        '_prompts_0shot_two_image_edit_rule = """Two"""\n'
        '_prompts_0shot_tie_rule_SC = """From 0 to 10: <instruction>"""\n'
        '_prompts_0shot_rule_PQ = """Looks, 0 to 10"""\n'
    )
    benchmark = EditScoreBench()
    work = judged(benchmark, benchmark.read(data), tmp_path / "out", tmp_path / "checkout")
    critic = Critic(by_grey)
    ask(work, critic)
    assert {
        asked.text for asked in critic.questions if "compose" in asked.text or len(asked.levels) == 1
    } == {
        "Context, 10 words\nTwo\nFrom 0 to 25: Do compose",
        "Context, 10 words\nLooks, 0 to 25",
    }


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    benchmark = EditScoreBench()
    with pytest.raises(InputError, match=r"no \.arrow"):
        benchmark.read(tmp_path)
    for name, value, said in [
        ("task_type", "painting", "unknown edit type 'painting'"),
        ("dimension", "beauty", "unknown dimension 'beauty'"),
        ("key", ["a"], "not two different names"),
    ]:
        with pytest.raises(InputError, match=said):
            benchmark.read(write(tmp_path / name, [{**rows()[0], name: value}]))


def test_our_critic_gives_one_verdict_on_each_image(data: Path, tmp_path: Path) -> None:
    benchmark = EditScoreBenchCritic()
    work = judged(benchmark, benchmark.read(data), tmp_path / "out")
    critic = Critic(lambda asked: verdict(asked.levels[1] > 12, asked.levels[1] / 25))
    ask(work, critic)
    assert len(critic.questions) == 11
    assert {asked.levels[0] for asked in critic.questions} == {200}
    numbers = values(work)
    assert (numbers["overall"], numbers["prompt_following"], numbers["consistency"]) == (75.0, 50.0, 100.0)
    # over the five pairs of the dimension overall: chosen 20, 20, 15, 11, 24; rejected 10, 12, 15, 14, 23
    assert (numbers["pair_acc"], numbers["accepts_chosen"], numbers["accepts_rejected"]) == (60.0, 80.0, 60.0)
    assert numbers["verdict_acc"] == 60.0


def test_published_averages_are_those_of_thirteen_types() -> None:
    rows = published_rows("editscore-bench")
    assert len(rows) == 16 and len(TYPES) == 13
    for row in rows:
        total = sum(row.numbers[f"{name}_overall"] * len(types) for name, types in CATEGORIES.items())
        assert row.numbers["overall"] == pytest.approx(total / len(TYPES), abs=0.1), row.system
