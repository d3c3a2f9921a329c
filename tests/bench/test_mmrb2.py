"""MMRB2: its two layouts, both orders, what is missing, and our critic on each edit alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from critic_data import Asked, Critic, ask, cell, image, judged, outcome, scorable, values, verdict
from judge_server import judge_server

from interleave.backends.protocols import Reply
from interleave.bench.benchmarks.mmrb2 import Mmrb2Edit, Mmrb2EditCritic, Mmrb2Interleaved
from interleave.bench.records import by_item
from interleave.bench.stages import open_workspace
from interleave.cli.main import run
from interleave.errors import InputError
from interleave.runs.folder import open_journal

LEVELS = {"p0": ("A", 200, 100), "p1": ("B", 100, 200), "p2": ("A", 150, 50), "p3": ("B", 60, 160)}
"""By pair: which was chosen, and the greys of both answers. The brighter one is always chosen."""


def pairs(levels: dict[str, tuple[str, int, int]] = LEVELS) -> list[dict[str, Any]]:
    return [
        {
            "id": name,
            "prompt_content": [["text", f"Make {name} brighter"], ["image", "input_images/in.png"]],
            "prompt_source": "emu-edit" if name < "p2" else "hq-edit",
            "prompt_metadata": {},
            "response_a": {"model_name": "m", "response_content": [["image", f"images/{a}.png"]]},
            "response_b": {"model_name": "n", "response_content": [["image", f"images/{b}.png"]]},
            "chosen": chosen,
            "human_annotations": [6, 6, 5],
        }
        for name, (chosen, a, b) in levels.items()
    ]


@pytest.fixture(autouse=True)
def _narrow_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are tested elsewhere; a thousand resamples take longer than all the rest here."""
    monkeypatch.setattr("interleave.bench.statistics.RESAMPLES", 20)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    folder = tmp_path / "mmrb2"
    for name in ("images", "input_images"):
        (folder / name).mkdir(parents=True)
    (folder / "input_images" / "in.png").write_bytes(image(10))
    for _, a, b in LEVELS.values():
        for level in (a, b):
            (folder / "images" / f"{level}.png").write_bytes(image(level))
    (folder / "edit.json").write_text(json.dumps({"pairs": pairs()}))
    return folder


def letter(letter: str) -> str:
    return json.dumps({"reasoning": "seen", "better_response": letter})


def brighter(asked: Asked) -> str:
    _, first, second = asked.levels
    return letter("A" if first > second else "B")


def test_a_good_judge_is_right_in_both_orders(built: Path, tmp_path: Path) -> None:
    benchmark = Mmrb2Edit()
    data = benchmark.read(built)
    assert data.notes == (
        "4 pairs from 2 sources",
        "CC BY-NC 4.0, for benchmarking only",
        "the whole task has 1,000 pairs",
    )
    work, critic = judged(benchmark, data, tmp_path / "out"), Critic(brighter)
    records = ask(work, critic)
    assert len(records) == 8
    assert {asked.levels[1:] for asked in critic.questions} >= {(200, 100), (100, 200)}
    text = critic.questions[0].text
    assert text.index("[ORIGINAL PROMPT") < text.index("Make p") < text.index("[RESPONSE A:]")
    assert values(work) == {
        "accuracy": 100.0,
        "accuracy_single_source": 100.0,
        "right_in_both_orders": 100.0,
        "forward_accuracy": 100.0,
        "reverse_accuracy": 100.0,
        "names_the_first": 50.0,
    }
    assert outcome(work).by_group["hq-edit"][0].value == 100.0


def test_a_judge_that_always_names_the_first_is_half_right(built: Path, tmp_path: Path) -> None:
    work = judged(Mmrb2Edit(), Mmrb2Edit().read(built), tmp_path / "out")
    ask(work, Critic(lambda _: letter("A")))
    found = values(work)
    assert (found["accuracy"], found["right_in_both_orders"], found["names_the_first"]) == (50.0, 0.0, 100.0)


def test_failures_are_kept_apart_and_counted_by_each_rule(built: Path, tmp_path: Path) -> None:
    def says(asked: Asked) -> str | Reply:
        if "p0" in asked.text:
            return "B is better, no: A"
        if "p1" in asked.text:
            return Reply("", "content_filter")
        if "p2" in asked.text:
            return Reply(brighter(asked), "length") if asked.levels[1] == 150 else brighter(asked)
        return letter("both") if asked.levels[1] == 60 else brighter(asked)

    work = judged(Mmrb2Edit(), Mmrb2Edit().read(built), tmp_path / "out")
    records = ask(work, Critic(says))
    statuses = {f"{item}/{key}": record.status for (item, key), record in records.items()}
    assert statuses == {
        "p0/forward": "unparsed",
        "p0/reverse": "unparsed",
        "p1/forward": "refused",
        "p1/reverse": "refused",
        "p2/forward": "unparsed",
        "p2/reverse": "ok",
        "p3/forward": "unparsed",
        "p3/reverse": "ok",
    }
    zero, drop, official = (outcome(work, missing) for missing in ("zero", "drop", "official"))
    assert [each.numbers[0].value for each in (zero, drop, official)] == [25.0, 100.0, 100.0]
    assert [each.numbers[0].items for each in (zero, drop)] == [4, 2]
    assert zero.coverage == 0.0
    assert [n.value for n in drop.numbers if n.name == "right_in_both_orders"] == [None]


def test_an_image_that_is_damaged_costs_its_own_questions_only(built: Path, tmp_path: Path) -> None:
    (built / "images" / "200.png").write_bytes(b"no image")  # the answer A of p0, and B of p1
    work = judged(Mmrb2Edit(), Mmrb2Edit().read(built), tmp_path / "out")
    records = ask(work, Critic(brighter))
    assert {item for (item, _), record in records.items() if record.status == "unparsed"} == {"p0", "p1"}
    assert "cannot show" in records[("p0", "forward")].reason


def test_prompts_with_several_sources_are_told_apart(built: Path, tmp_path: Path) -> None:
    several = pairs()
    several[0]["prompt_content"].append(["image", "input_images/in.png"])
    several[1]["prompt_content"] = several[0]["prompt_content"]
    (built / "edit.json").write_text(json.dumps({"pairs": several}))
    benchmark = Mmrb2EditCritic()
    work = judged(benchmark, benchmark.read(built), tmp_path / "out")
    ask(work, Critic(lambda asked: verdict(True, 0.01 + asked.levels[1] / 255 * (asked.levels[1] > 120))))
    assert values(work)["pair_acc"] == 100.0
    assert scorable(work).table().columns["single_pairs"].tolist()[2:] == [1.0, 1.0]
    assert scorable(work).item_measures["p0"]["single_pairs"] is None


def test_both_ways_read_the_same_data(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built.rename(tmp_path / "mmrb2-edit")
    monkeypatch.setenv("INTERLEAVE_BENCH_DATA", str(tmp_path))
    ways = [open_workspace(made, tmp_path / "out").dataset for made in (Mmrb2Edit(), Mmrb2EditCritic())]
    assert len(ways[0].items) == 4 and ways[0].revision == ways[1].revision
    assert ways[0].first(2).items[1].group == "hq-edit"


def test_upstreams_judgements_are_read(built: Path, tmp_path: Path) -> None:
    benchmark = Mmrb2Edit()
    data = benchmark.read(built)
    said = {
        "p0": {
            "forward": [{"judgement": "A", "evaluator": "x", "metadata": {}}],
            "reverse": [{"judgement": "A"}],
        },
        "p1": {"forward": [{"judgement": "tie"}], "reverse": []},
        "p2": {"forward": [{"judgement": None}]},
        "elsewhere": {"forward": [{"judgement": "A"}], "reverse": []},
    }
    path = tmp_path / "said.json"
    path.write_text(json.dumps(said))
    work = judged(benchmark, data, tmp_path / "out")
    keep(work, benchmark.import_judgements(data, path))
    # p0: right and wrong; p1: "tie" is wrong, the other order is not there; p2 and p3 have nothing
    found = outcome(work, "official")
    assert found.numbers[0].value == pytest.approx(33.333333)
    assert found.numbers[0].items == 2
    path.write_text("{}")
    with pytest.raises(InputError, match="no judgements of pairs"):
        list(benchmark.import_judgements(data, path))


def keep(work: Any, records: Any) -> None:
    journal = open_journal(work.path.parent, work.path.name)
    for each in by_item(records).values():
        for record in each.values():
            journal.append(record)
    journal.sync()
    journal.close()


def test_the_tables_of_the_hub_hold_the_same(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "hub" / "interleaved"
    folder.mkdir(parents=True)
    row = {
        "pair_id": "i0",
        "prompt_text": "Draw two steps like <image_0> shows",
        "prompt_images": [cell(10)],
        "prompt_source": "isgbench",
        "prompt_metadata": "{}",
        "response_a_text": "First.<image_0>Second.<image_1>",
        "response_a_images": [cell(20), cell(30)],
        "response_a_model": "m",
        "response_b_text": "Only text",
        "response_b_images": [cell(40)],
        "response_b_model": "n",
        "chosen": "a",
        "human_annotations": "[1, 2, 1]",
    }
    parquet.write_table(arrow.Table.from_pylist([row]), folder / "test-00000-of-00001.parquet")
    benchmark = Mmrb2Interleaved()
    data = benchmark.read(tmp_path / "hub")
    assert data.items[0].facts["chosen"] == "A"
    critic = Critic(lambda asked: letter("A" if asked.levels[1] == 20 else "B"))
    work = judged(benchmark, data, tmp_path / "out")
    ask(work, critic)
    assert {asked.levels for asked in critic.questions} == {(10, 20, 30, 40), (10, 40, 20, 30)}
    assert "First.Second." in critic.questions[0].text  # an image stands between them
    assert values(work)["accuracy"] == 100.0


def test_what_is_no_data_is_refused(built: Path) -> None:
    with pytest.raises(InputError, match=r"neither interleaved\.json"):
        Mmrb2Interleaved().read(built)
    bad = pairs()
    bad[1]["chosen"] = "C"
    (built / "edit.json").write_text(json.dumps({"pairs": bad}))
    with pytest.raises(InputError, match="pair 2: 'chosen' is 'C'"):
        Mmrb2Edit().read(built)
    bad = pairs()
    bad[0]["response_a"]["response_content"] = [["image", "../../secret.png"]]
    (built / "edit.json").write_text(json.dumps({"pairs": bad}))
    with pytest.raises(InputError, match="neither a text nor an image below"):
        Mmrb2Edit().read(built)


def test_the_official_words_come_from_a_checkout(built: Path, tmp_path: Path) -> None:
    place = tmp_path / "checkout/evaluate/generate_judgements/evaluator_apis/llm_judges"
    place.mkdir(parents=True)
    (place / "evaluation_prompts.py").write_text(
        'def get_image_edit_prompt() -> str:\n    """Doc."""\n    return """Their words {x}"""\n'
    )
    work = judged(Mmrb2Edit(), Mmrb2Edit().read(built), tmp_path / "out", tmp_path / "checkout")
    critic = Critic(brighter)
    ask(work, critic)
    assert critic.questions[0].text.startswith("Their words {x}\n[ORIGINAL PROMPT")
    assert work.prompts.identity.startswith("official-")


def test_our_critic_sees_each_edit_alone(built: Path, tmp_path: Path) -> None:
    confidences = {200: 0.9, 100: 0.6, 150: 0.7, 50: 0.7, 60: 0.3, 160: 0.2}
    """p0 right, p1 right, p2 a tie, p3 wrong; above one half is accepted."""

    def says(asked: Asked) -> Reply:
        confidence = confidences[asked.levels[1]]
        return verdict(confidence > 0.5, confidence)

    benchmark = Mmrb2EditCritic()
    work, critic = judged(benchmark, benchmark.read(built), tmp_path / "out"), Critic(says)
    records = ask(work, critic)
    assert records[("p0", "a")].value == {"accepted": True, "confidence": pytest.approx(0.9)}
    assert {asked.levels[0] for asked in critic.questions} == {10}  # the source, then the edit
    assert all(sampling.token_probabilities and sampling.schema for sampling in critic.samplings)
    assert work.prompts.identity.startswith("pack-default-")
    assert values(work) == {
        "pair_acc": 50.0,
        "pair_acc_single_source": 50.0,
        "pair_acc_half_ties": 62.5,
        "accepts_chosen": 75.0,
        "accepts_rejected": 75.0,
        "verdict_acc": 50.0,
        "verdict_acc_of_always_true": 50.0,
        "margin": pytest.approx((0.3 + 0.3 + 0.0 - 0.1) / 4),
    }


def test_a_critic_that_always_says_true_is_the_baseline(built: Path, tmp_path: Path) -> None:
    benchmark = Mmrb2EditCritic()
    work = judged(benchmark, benchmark.read(built), tmp_path / "out")
    ask(work, Critic(lambda _: verdict(True)))
    found = values(work)
    assert found["pair_acc"] == 0.0 and found["pair_acc_half_ties"] == 50.0
    assert (found["accepts_chosen"], found["accepts_rejected"]) == (100.0, 100.0)
    assert found["verdict_acc"] == found["verdict_acc_of_always_true"] == 50.0
    assert found["margin"] is None  # no backend, no probabilities


def test_a_verdict_that_is_missing_never_helps(built: Path, tmp_path: Path) -> None:
    def says(asked: Asked) -> str | Reply:
        return "no verdict" if asked.levels[1] in (100, 150) else verdict(asked.levels[1] > 120, None)

    benchmark = Mmrb2EditCritic()
    work = judged(benchmark, benchmark.read(built), tmp_path / "out")
    records = ask(work, Critic(says))
    assert records[("p0", "b")].status == "unparsed" and records[("p2", "a")].status == "unparsed"
    zero, drop = values(work, "zero"), values(work, "drop")
    # without the rejected of p0 and p1 and the chosen of p2, only p3 is a whole pair
    assert (zero["pair_acc"], drop["pair_acc"]) == (25.0, 100.0)
    assert (zero["accepts_chosen"], drop["accepts_chosen"]) == (75.0, 100.0)
    assert (zero["accepts_rejected"], drop["accepts_rejected"]) == (50.0, 0.0)


def test_the_command_asks_the_critic_given_as_judge(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.chdir(tmp_path)
    with judge_server(lambda *_: letter("A")) as judge:
        arguments = ["--data", str(built), "--out", "pairs", "--judge", judge.spec, "--json"]
        assert run(["bench", "mmrb2-edit", *arguments]) == 0
        scored = json.loads(capsys.readouterr().out)
        assert judge.images == [3] * 8
    assert scored["outcome"]["numbers"][0]["value"] == 50.0
    assert scored["description"]["system"] == "critic"
    said = verdict(False).text
    with judge_server(lambda *_: said) as judge:
        arguments = ["--data", str(built), "--out", "alone", "--judge", judge.spec]
        assert run(["bench", "mmrb2-edit-critic", *arguments]) == 0
        assert judge.images == [2] * 8
    printed = capsys.readouterr().err
    assert "accepts_rejected" in printed and "not comparable" not in printed
    assert run(["bench", "mmrb2-edit-critic", *arguments, "--judge-prompts", str(built)]) != 0
    assert "--prompts PACK" in capsys.readouterr().err


@pytest.mark.parametrize(("benchmark", "number"), [(Mmrb2Edit, 55.5), (Mmrb2Interleaved, 57.5)])
def test_the_sample_judgements_of_a_checkout_come_to_what_its_readme_says(
    benchmark: Any, number: float, tmp_path: Path
) -> None:
    root = os.environ.get("INTERLEAVE_BENCH_DATA")
    checkout = Path(root or "", "MMRB2")
    if not root or not checkout.is_dir():
        pytest.skip("INTERLEAVE_BENCH_DATA has no MMRB2, a checkout of facebookresearch/MMRB2")
    made = benchmark()
    data = made.read(checkout)
    assert "1,000 pairs have no prompt here: their judgements can only be imported" in data.notes
    samples = checkout / "evaluate/generate_judgements/outputs"
    work = judged(made, data, tmp_path / "out")
    keep(work, made.import_judgements(data, next(samples.glob(f"sample_task*_{made.task}.json"))))
    found = outcome(work, "official")
    assert (found.numbers[0].value, found.numbers[0].items, found.coverage) == (number, 1000, 1.0)
