"""More words from a model: believed only when they fit, journalled before they are used, asked for once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from interleave.agents.prompts import load_pack
from interleave.backends.protocols import Message, Reply, Sampling, VlmCapabilities
from interleave.cli.main import run
from interleave.errors import BackendError, ReplyError, RunError
from interleave.train.data.manifest import read_manifest
from interleave.train.data.prompts.expand import expand, read_replies, read_reply, unfit_request, unfit_word
from interleave.train.data.prompts.taxonomy import Taxonomy, read_taxonomy

TAXONOMY = '''
name = "toys"
templates = """
Show how {hero} finds {thing} in {n} pictures.
Draw {hero} and {thing}.
"""
[[subcategory]]
name = "bears"
[subcategory.banks]
hero = """
a small bear
a big bear
"""
thing = """
a ball
a drum
"""
[[subcategory]]
name = "ducks"
[subcategory.banks]
hero = """
a small duck
a big duck
"""
thing = """
a pond
a boat
"""
'''
GOOD = {
    "words": {
        "hero": ["a brave bear", "Brave Bear", "a small bear", "the bear."],
        "thing": ["a kite", "a kite"],
    },
    "requests": [
        "How does a bear sleep through the winter? Show it in four pictures.",
        "no",
        "Draw {hero} now.",
    ],
}


@pytest.fixture
def taxonomy(tmp_path: Path) -> Taxonomy:
    (tmp_path / "world").mkdir()
    (tmp_path / "world" / "toys.toml").write_text(TAXONOMY)
    return read_taxonomy(tmp_path / "world")


class Model:
    """A model that answers as it is told, and counts how often it is asked."""

    capabilities = VlmCapabilities(concurrency=1)

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        self.asked.append(messages[0].text)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Reply(answer)


def test_words_that_fit_join_their_bank_and_the_others_are_counted(
    taxonomy: Taxonomy, tmp_path: Path
) -> None:
    model = Model(json.dumps(GOOD), json.dumps({"words": {"colour": ["red"]}, "requests": []}))
    found = expand(taxonomy, model, tmp_path / "x.jsonl", pack=load_pack("default"))
    assert found.words[("toys", "bears")] == {"hero": ("a brave bear",), "thing": ("a kite",)}
    assert found.requests[("toys", "bears")] == (GOOD["requests"][0],)
    assert len(found.refused) == 3 + 1 + 2 + 1
    assert any("no bank 'colour'" in each for each in found.refused)
    bears = found.apply_to(taxonomy).subcategories[0]
    assert bears.banks["hero"] == ("a small bear", "a big bear", "a brave bear")
    assert "bears" in model.asked[0] and "a small bear" in model.asked[0]


def test_a_killed_command_goes_on_without_asking_again(taxonomy: Taxonomy, tmp_path: Path) -> None:
    journal, pack = tmp_path / "x.jsonl", load_pack("default")
    with pytest.raises(BackendError):
        expand(taxonomy, Model(json.dumps(GOOD), BackendError("gone")), journal, pack=pack)
    assert len(read_replies(journal)) == 1
    with open(journal, "ab") as file:
        file.write(b'{"half": ')  # what a kill in the middle of a line leaves
    second = Model(json.dumps(GOOD))
    whole = expand(taxonomy, second, journal, pack=pack)
    assert len(second.asked) == 1 and "ducks" in second.asked[0]
    assert whole.request_count == 2
    third = Model()
    assert expand(taxonomy, third, journal, pack=pack) == whole
    assert not third.asked


def test_a_reply_that_stays_unreadable_is_recorded_and_nothing_is_made_up(
    taxonomy: Taxonomy, tmp_path: Path
) -> None:
    model = Model("hm", "hm", "hm", "hm", json.dumps(GOOD))
    found = expand(taxonomy, model, tmp_path / "x.jsonl", pack=load_pack("default"))
    assert len(found.unreadable) == 1 and "toys / bears" in found.unreadable[0]
    assert ("toys", "bears") not in found.words
    assert expand(taxonomy, Model(), tmp_path / "x.jsonl", pack=load_pack("default")) == found


def test_a_bad_reply_is_told_what_was_wrong(taxonomy: Taxonomy, tmp_path: Path) -> None:
    model = Model("no idea", json.dumps(GOOD), json.dumps(GOOD))
    assert not expand(taxonomy, model, tmp_path / "x.jsonl", pack=load_pack("default")).unreadable
    assert len(model.asked) == 3


def test_a_damaged_journal_is_refused(taxonomy: Taxonomy, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("not a line\n")
    with pytest.raises(RunError, match=r"x\.jsonl:1"):
        expand(taxonomy, Model(), tmp_path / "x.jsonl", pack=load_pack("default"))


@pytest.mark.parametrize(
    "reply",
    ["", "words", '{"words": [1]}', '{"words": {"a": "b"}}', '{"requests": [3]}', '{"words": {"a": ["b"]}'],
)
def test_replies_in_another_form_are_refused(reply: str) -> None:
    with pytest.raises(ReplyError):
        read_reply(Reply(reply))


def test_a_reply_that_was_cut_off_is_never_used() -> None:
    with pytest.raises(ReplyError, match="cut off"):
        read_reply(Reply(json.dumps(GOOD), finish_reason="length"))


@pytest.mark.parametrize(
    ("word", "fits"),
    [
        ("a tall cat", True),
        ("an owl", False),  # the bank has only "a …"
        ("A cat", False),
        ("a cat.", False),
        ("a {cat}", False),
        ("a\nb", False),
        ("", False),
        ("a " + "very " * 20 + "long cat", False),
        ("a Small, bear", False),
        ("a \x00", False),
    ],
)
def test_what_fits_a_bank(word: str, fits: bool) -> None:
    assert (unfit_word(word, ("a small bear", "a big bear")) is None) == fits


@pytest.mark.parametrize(
    ("request_text", "fits"),
    [
        ("Show how rain is made.", True),
        ("Rain.", False),
        ("show me how rain is made", False),
        ("Show it in 40 pictures, please.", False),
        ("word " * 100 + ".", False),
    ],
)
def test_what_is_a_request(request_text: str, fits: bool) -> None:
    assert (unfit_request(request_text) is None) == fits


def test_the_command_asks_the_model_and_says_what_came_of_it(tmp_path: Path, taxonomy: Taxonomy) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps({"text": text}) + "\n" for text in (json.dumps(GOOD), "no")))
    command = [
        "data",
        "prompts",
        "--source",
        "world",
        "--taxonomy",
        "world",
        "--expand",
        f"scripted:./{script.name}",
    ]
    assert run([*command, "--items", "6", "--out", "r.jsonl"]) == 0
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [row["template"] for row in rows].count("model") == 1
    counts = read_manifest(tmp_path / "r.manifest.json").counts
    assert counts["words from the model"] == 2 and counts["unreadable replies"] == 1
    script.unlink()  # nothing is asked again, whatever is made of the same answers
    before = (tmp_path / "r.jsonl").read_bytes()
    (tmp_path / "r.jsonl").unlink()
    script.write_text('{"text": "never asked"}\n')
    assert run([*command, "--items", "6", "--out", "r.jsonl"]) == 0
    assert (tmp_path / "r.jsonl").read_bytes() == before
