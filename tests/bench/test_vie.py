"""Reading the replies to VIEScore's questions, without ever making up a score."""

from __future__ import annotations

from pathlib import Path

import pytest

from interleave.bench.base import Unparsed
from interleave.bench.benchmarks import vie
from interleave.bench.prompts import official_prompts, reworded_prompts


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        ('{"score": [7, 9], "reasoning": "fine"}', [7, 9]),
        ('||V^=^V||\n{"score": [7, 9],\n"reasoning": "fine"}\n||V^=^V||', [7, 9]),
        ('Here it is:\n```json\n{"score": [0, 10]}\n```', [0, 10]),
        ('<think>{"score": [1, 1]}</think>{"score": [2, 3]}', [2, 3]),
        ('{score: [4, 5], reasoning: "no quotes"}', [4, 5]),
        ("{'score': [4, 5], 'reasoning': 'it's single quotes'}", [4, 5]),
        ("[6, 0]", [6, 0]),
        ("Scores: [6, 0].", [6, 0]),
        ('{"score": [8.5, 9]}', [8.5, 9]),
        ('{"score": ["8", "9"]}', [8, 9]),
    ],
)
def test_what_can_be_read(reply: str, scores: list[float]) -> None:
    assert vie.read_scores(reply, 2) == scores


def test_one_score_may_stand_alone() -> None:
    for reply in ('{"score": 7}', '{"score": [7]}', "7", " 7\n", "[7]", "{score: 7, reasoning: x}"):
        assert vie.read_scores(reply, 1) == [7]


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I cannot judge this picture.",
        "Perhaps 7 out of 10, or 8.",
        '{"score": [7, 11]}',
        '{"score": [-1, 5]}',
        '{"score": []}',
        '{"score": [7]}',
        '{"score": [7, 8, 9]}',
        '{"score": [true, 5]}',
        '{"score": [NaN, 5]}',
        '{"scores": [7, 8]}',
        '{"score": "high"}',
        "[1, 2] or [3, 4]",
        "{score: [1, 2]} {score: [3, 4]}",
        '{"score": [7, 8',
    ],
)
def test_what_cannot_be_read_has_no_score(reply: str) -> None:
    with pytest.raises(Unparsed):
        vie.read_scores(reply, 2)


def test_the_lowest_score_counts() -> None:
    assert vie.three_scores([4, 9], [9, 9]) == {"SC": 4, "PQ": 9, "O": 6}
    assert vie.three_scores([0, 9], [9, 9])["O"] == 0
    assert vie.three_scores(None, [9, 9]) == {"SC": None, "PQ": None, "O": None}


def test_templates_are_found_in_a_checkout(tmp_path: Path) -> None:
    places = vie.official_places("viescore/vie_prompts.py")
    names = sorted({place.name or "" for place in places.values()})
    file = tmp_path / "viescore" / "vie_prompts.py"
    file.parent.mkdir()
    file.write_text(
        "\n".join(f'{name} = """{name} <prompt><instruction><subject> {{"score": 1}}"""' for name in names)
    )
    found = official_prompts(tmp_path, places)
    assert set(found.templates) == set(reworded_prompts("viescore").templates)
    assert found.fill("sc_sdie", asked="a cat").startswith("_prompts_0shot_sdie_rule_SC a cat")
    assert found.fill("sc_sdie", asked="a cat").endswith('{"score": 1}')


def test_every_question_has_words_of_ours() -> None:
    viescore, gedit = reworded_prompts("viescore").templates, reworded_prompts("gedit").templates
    assert {f"sc_{task}" for task in vie.RULES} | {f"rule_{task}" for task in vie.RULES} <= set(viescore)
    assert all(viescore[name] == words for name, words in gedit.items())
