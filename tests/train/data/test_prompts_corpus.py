"""Corpora made elsewhere: each kind of bad line is named with its number, and nothing is lost in silence."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from interleave.batches.requests import read_requests
from interleave.cli.main import run
from interleave.errors import InputError
from interleave.train.data.manifest import read_manifest
from interleave.train.data.prompts.corpus import place_images, read_corpora

GOOD = '{"id": "good", "user_input": "Show how to bake bread."}'

BAD_LINES: list[tuple[str, bytes | str, str]] = [
    ("I07 not JSON", "{", "not JSON"),
    ("I07 prose", "Draw a cat.", "not JSON"),
    ("I07 a list", '["Draw a cat."]', "not a JSON object"),
    ("I07 a text", '"Draw a cat."', "not a JSON object"),
    ("I07 a number", "7", "not a JSON object"),
    ("I07 null", "null", "not a JSON object"),
    ("I07 trailing comma", '{"user_input": "Draw a cat.",}', "not JSON"),
    ("I07 single quotes", "{'user_input': 'Draw a cat.'}", "not JSON"),
    ("I07 NaN", '{"user_input": "Draw a cat.", "score": NaN}', "NaN is not a number"),
    ("I07 infinity", '{"user_input": "Draw a cat.", "score": Infinity}', "Infinity is not a number"),
    ("I07 UTF-16", '{"user_input": "Draw a cat."}'.encode("utf-16")[:-1], "not UTF-8"),
    ("I07 Latin-1", '{"user_input": "Draw a café."}'.encode("latin-1"), "not UTF-8"),
    ("I07 two objects", '{"user_input": "One."} {"user_input": "Two."}', "not JSON"),
    ("I07 cut off", '{"id": "x", "user_input": "Draw a c', "not JSON"),
    ("I07 deep", '{"user_input": ' + "[" * 100_000 + "]" * 100_000 + "}", "not JSON"),
    ("I07 too long", '{"user_input": "' + "a" * 1_000_001 + '"}', "more than 1,000,000 bytes"),
    ("I05 no request", '{"id": "x"}', "neither"),
    ("I05 both", '{"request": "Draw a cat.", "user_input": "Draw a dog."}', "both"),
    ("I05 empty", '{"user_input": ""}', "empty"),
    ("I05 only spaces", '{"user_input": "   "}', "empty"),
    ("I05 a number as text", '{"user_input": 7}', "must be a string"),
    ("I05 a null text", '{"user_input": null}', "must be a string"),
    ("I05 a NUL", '{"user_input": "Draw\\u0000a cat."}', "NUL"),
    ("I05 half a surrogate pair", '{"user_input": "Draw \\ud800 a cat."}', "surrogate"),
    ("I05 very long", '{"user_input": "' + "a" * 70_000 + '"}', "65,536"),
    ("I05 half a surrogate pair in an id", '{"id": "\\ud83d", "user_input": "Draw a cat."}', "surrogate"),
    ("I07 a key twice", '{"user_input": "Draw a cat.", "user_input": "Draw a dog."}', "occurs twice"),
    ("I07 a number too large", '{"user_input": "Draw a cat.", "score": -1e999}', "is too large"),
    ("I02 an id that is true", '{"id": true, "user_input": "Draw a cat."}', '"id" must be'),
    ("I02 an id that is 1.0", '{"id": 1.0, "user_input": "Draw a cat."}', '"id" must be'),
    ("I02 an id that is a list", '{"id": ["a"], "user_input": "Draw a cat."}', '"id" must be'),
    ("I01 a blank id", '{"id": " ", "user_input": "Draw a cat."}', "blank"),
    (
        "I03 an id that is taken",
        '{"id": "good", "user_input": "Draw a cat."}',
        "already names another request",
    ),
    (
        "I03 a request that is there",
        '{"id": "b", "user_input": "Show how to bake bread."}',
        "the same request",
    ),
    ("I08 a missing picture", '{"user_input": "Go on.", "user_input_image": "no.png"}', "missing"),
    ("I08 outside", '{"user_input": "Go on.", "user_input_image": "../secret.png"}', "outside"),
    ("I08 absolute", '{"user_input": "Go on.", "user_input_image": "/etc/passwd"}', "outside"),
    ("I08 an address", '{"user_input": "Go on.", "user_input_image": "http://x/y.png"}', "is a URL"),
    ("I08 a folder", '{"user_input": "Go on.", "user_input_image": "folder"}', "not a file"),
    ("I08 a pipe", '{"user_input": "Go on.", "user_input_image": "pipe"}', "not a file"),
    ("I08 a link out", '{"user_input": "Go on.", "user_input_image": "link.png"}', "outside"),
    ("I08 no bytes", '{"user_input": "Go on.", "user_input_image": "empty.png"}', "empty"),
    ("I08 not an image", '{"user_input": "Go on.", "user_input_image": "text.png"}', "not a PNG"),
    ("I08 cut off", '{"user_input": "Go on.", "user_input_image": "half.png"}', "damaged"),
    ("I08 a number", '{"user_input": "Go on.", "user_input_image": 3}', "must be a path"),
    ("I08 a blank path", '{"user_input": "Go on.", "user_input_image": ["a.png", " "]}', "must be a path"),
    ("I06 too few pictures", '{"user_input": "<image> then <image>", "user_input_image": "a.png"}', "marker"),
    ("a domain that is a list", '{"user_input": "Draw a cat.", "domain": ["x"]}', '"domain" must be'),
    ("a part of no kind", '{"request": [{"sound": "a.wav"}]}', "must be {"),
    ("a request that is an object", '{"request": {"text": "Draw a cat."}}', "text or a list"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.png").write_bytes(b"secret")
    folder = tmp_path / "corpus"
    folder.mkdir()
    Image.new("RGB", (8, 8), "red").save(folder / "a.png")
    Image.new("RGB", (8, 8), "blue").save(folder / "b.png")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "empty.png").touch()
    (folder / "text.png").write_text("no image")
    (folder / "half.png").write_bytes((folder / "a.png").read_bytes()[:40])
    return folder


def write(folder: Path, *lines: bytes | str) -> Path:
    path = folder / "prompts.jsonl"
    path.write_bytes(b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines))
    return path


@pytest.mark.parametrize(("name", "line", "said"), BAD_LINES, ids=[name for name, _, _ in BAD_LINES])
def test_a_bad_line_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, line: bytes | str, said: str
) -> None:
    path = write(folder, GOOD, "", line)
    assert run(["data", "prompts", "--from", str(path), "--out", "out/r.jsonl"]) == 2
    error = capsys.readouterr().err
    assert "prompts.jsonl:3:" in error and said in error, error
    assert not Path("out").exists()
    assert run(["data", "prompts", "--from", str(path), "--skip-bad", "--out", "out/r.jsonl"]) == 0
    assert [item.id for item in read_requests(Path("out/r.jsonl"))[0]] == ["good"]
    manifest = read_manifest(Path("out/r.manifest.json"))
    assert manifest.counts["bad lines left out"] == 1
    assert said in manifest.notes[0]


def test_there_are_thirty_kinds_of_bad_lines_and_all_are_reported_at_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(BAD_LINES) >= 30
    path = write(folder, GOOD, *(line for _, line, _ in BAD_LINES))
    corpus, _ = read_corpora([path], threshold=None)
    numbers = {int(found[1]) for bad in corpus.bad if (found := re.match(r".*?\.jsonl:(\d+): ", bad))}
    utf16 = next(place for place, (name, _, _) in enumerate(BAD_LINES, start=2) if "UTF-16" in name)
    assert numbers >= {*range(2, len(BAD_LINES) + 2)} - {utf16}
    assert len(corpus.rows) == 1
    assert run(["data", "prompts", "--from", str(path), "--out", "r.jsonl"]) == 2
    assert f"{len(corpus.bad)} bad lines, nothing was written" in capsys.readouterr().err


def test_I07_a_compressed_file_is_not_taken_for_text(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "packed.jsonl"
    path.write_bytes(gzip.compress(GOOD.encode() * 50))
    assert run(["data", "prompts", "--from", str(path), "--out", "r.jsonl"]) == 2
    assert "not UTF-8" in capsys.readouterr().err


def test_I07_blank_lines_a_mark_at_the_front_and_carriage_returns_are_fine(folder: Path) -> None:
    path = write(
        folder, b"\xef\xbb\xbf" + GOOD.encode() + b"\r", "", "   ", '{"id": 2, "user_input": "Draw a cat."}\r'
    )
    assert run(["data", "prompts", "--from", str(path), "--out", "r.jsonl"]) == 0
    assert [item.id for item in read_requests(Path("r.jsonl"))[0]] == ["good", "2"]


ODD_IDS = [
    "../../x",
    "/etc/x",
    "..",
    ".",
    "CON",
    "a/b",
    "%2e%2e",
    "a／b",
    "x.",
    "x ",
    "line\nbreak",
    "y" * 10_000,
]


def test_I01_odd_ids_are_data_and_nothing_is_written_outside(folder: Path, tmp_path: Path) -> None:
    lines = [
        json.dumps({"id": each, "user_input": f"Draw a cat number {n}."}) for n, each in enumerate(ODD_IDS)
    ]
    path = write(folder, *lines)
    before = {each for each in tmp_path.rglob("*") if "out" not in each.parts}
    assert run(["data", "prompts", "--from", str(path), "--near", "1.0", "--out", "out/r.jsonl"]) == 0
    assert {each for each in tmp_path.rglob("*") if "out" not in each.parts} == before
    assert [json.loads(line)["id"] for line in Path("out/r.jsonl").read_text().splitlines()] == ODD_IDS


def test_I02_one_and_the_text_one_are_one_id_and_case_matters(folder: Path) -> None:
    path = write(
        folder,
        '{"id": 1, "user_input": "Draw a cat."}',
        '{"id": "1", "user_input": "Draw a dog."}',
        '{"id": "a", "user_input": "Draw a bird in a tree."}',
        '{"id": "A", "user_input": "Draw a fish in the sea."}',
    )
    corpus, _ = read_corpora([path], threshold=None)
    assert [row.id for row in corpus.rows] == ["1", "a", "A"]
    assert "already names another request" in corpus.bad[0]


def test_I03_a_line_that_stands_there_twice_counts_once_and_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["data", "prompts", "--from", str(write(folder, GOOD, GOOD)), "--out", "r.jsonl"]) == 0
    assert "lines that stood there twice: 1" in capsys.readouterr().err


def test_I04_a_missing_id_comes_from_the_content(folder: Path) -> None:
    path = write(folder, '{"user_input": "Draw a cat."}', '{"user_input": "Build a house."}')
    corpus, _ = read_corpora([path], threshold=0.8)
    assert len({row.id for row in corpus.rows}) == 2
    assert corpus.without_id == 2
    again, _ = read_corpora([path], threshold=0.8)
    assert again.rows == corpus.rows


ODD_TEXTS = [
    "é",
    "ارسم قطة صغيرة",
    "Draw \u202ea cat\u202c now",
    "Draw 👩‍👩‍👧‍👦 at the beach",
    "วาดรูปแมว",
    "Z̷̛̤a̶l̴g̵o",
    "a\tb\nc",
    "{text_input} %s {} {0.__class__} $HOME `ls` <answer> <|im_start|>",
    "<image> is just a word here",
]


def test_I05_I06_odd_texts_come_back_as_they_were(folder: Path) -> None:
    path = write(folder, *(json.dumps({"user_input": text}) for text in ODD_TEXTS))
    assert run(["data", "prompts", "--from", str(path), "--out", "r.jsonl"]) == 0
    kept = [json.loads(line)["request"] for line in Path("r.jsonl").read_text("utf-8").split("\n")[:-1]]
    assert kept == ODD_TEXTS
    assert [item.load().text for item in read_requests(Path("r.jsonl"))[0]] == ODD_TEXTS


def test_the_references_hint_about_how_to_answer_is_removed_from_its_requests_alone(folder: Path) -> None:
    hint = "How do I fold a boat both visually and textually?"
    path = write(folder, json.dumps({"user_input": hint}), json.dumps({"request": hint}))
    corpus, _ = read_corpora([path], threshold=None)
    assert [row.request for row in corpus.rows] == ["How do I fold a boat?", hint]


def test_images_are_copied_and_stand_where_the_text_says(folder: Path) -> None:
    path = write(
        folder,
        '{"id": 1, "user_input": "One <image> two <image>, go on.", "user_input_image": ["a.png", "b.png"]}',
        '{"id": 2, "user_input": "Go on from here.", "user_input_image": "a.png", "mine": {"x": 1}}',
    )
    assert run(["data", "prompts", "--from", str(path), "--out", "out/r.jsonl"]) == 0
    one, two = (item.load() for item in read_requests(Path("out/r.jsonl"))[0])
    assert [type(part).__name__ for part in one.parts] == ["Text", "ImagePart", "Text", "ImagePart", "Text"]
    assert one.images[1].getpixel((0, 0)) == (0, 0, 255)
    assert [type(part).__name__ for part in two.parts] == ["ImagePart", "Text"]
    assert len(list(Path("out/images").iterdir())) == 2
    assert json.loads(Path("out/r.jsonl").read_text().splitlines()[1])["mine"] == {"x": 1}


def test_requests_with_equal_words_and_other_images_are_two(folder: Path) -> None:
    line = '{{"user_input": "Go on.", "user_input_image": "{}.png"}}'
    corpus, _ = read_corpora([write(folder, line.format("a"), line.format("b"))], threshold=0.8)
    assert len(corpus.rows) == 2 and not corpus.bad and not corpus.near


def test_near_requests_are_left_out_and_named(folder: Path) -> None:
    path = write(folder, GOOD, '{"id": "2", "user_input": "show how to bake bread"}')
    assert run(["data", "prompts", "--from", str(path), "--out", "r.jsonl"]) == 0
    manifest = read_manifest(Path("r.manifest.json"))
    assert manifest.counts["near requests left out"] == 1
    assert re.search(r":2: almost the same as .*:1", manifest.notes[0])


def test_a_corpus_is_read_again_as_it_was_written_and_balanced(folder: Path) -> None:
    assert run(["data", "prompts", "--source", "world", "--items", "300", "--out", "w.jsonl"]) == 0
    assert run(["data", "prompts", "--from", "w.jsonl", "--out", "again.jsonl"]) == 0
    assert Path("again.jsonl").read_bytes() == Path("w.jsonl").read_bytes()
    assert run(["data", "prompts", "--from", "w.jsonl", "--items", "75", "--out", "part.jsonl"]) == 0
    counts: dict[str, Any] = read_manifest(Path("part.manifest.json")).counts
    assert {number for name, number in counts.items() if " / " in name} == {1}


def test_two_files_are_joined_and_clashes_between_them_are_found(folder: Path) -> None:
    one, two = folder / "1.jsonl", folder / "2.jsonl"
    one.write_text(GOOD + "\n")
    two.write_text(
        '{"id": "good", "user_input": "Draw a cat."}\n{"id": "c", "user_input": "Build a ship."}\n'
    )
    corpus, _ = read_corpora([one, two], threshold=0.8)
    assert [row.id for row in corpus.rows] == ["good", "c"]
    assert corpus.bad == ["2.jsonl:1: the id 'good' already names another request in 1.jsonl:1"]


def test_a_file_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "prompts", "--from", "no.jsonl", "--out", "r.jsonl"]) == 2
    assert "no.jsonl" in capsys.readouterr().err


def test_markers_without_images_stay_text_and_their_number_must_agree() -> None:
    assert place_images("a <image> b", ["x"]) == [{"text": "a"}, {"image": "x"}, {"text": "b"}]
    with pytest.raises(InputError, match="1 <image> marker"):
        place_images("a <image> b", ["x", "y"])


def test_I05_keys_of_ones_own_that_no_file_can_hold_are_kept_spelled_out(tmp_path: Path) -> None:
    line = {"user_input": "Draw a cat.", "domain": "d\ud83d", "own \ud83d": ["\ud83d", {"x": "\ud83d"}]}
    (tmp_path / "theirs.jsonl").write_text(json.dumps(line) + "\n")
    for _ in range(2):
        assert run(["data", "prompts", "--from", "theirs.jsonl", "--out", "ours/requests.jsonl"]) == 0
    (kept,) = [json.loads(line) for line in Path("ours/requests.jsonl").read_text().splitlines()]
    assert kept["domain"] == "d\\ud83d"
    assert kept["own \\ud83d"] == ["\\ud83d", {"x": "\\ud83d"}]


def test_I05_a_file_whose_name_is_no_text_makes_a_corpus_that_is_found_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    theirs = os.fsdecode(b"theirs\xff.jsonl")
    try:
        Path(theirs).write_text(f"{GOOD}\n{{\n")
    except OSError:
        pytest.skip("does not apply: this file system takes only names in UTF-8")
    command = ["data", "prompts", "--from", theirs, "--out", "ours/requests.jsonl", "--skip-bad"]
    assert run(command) == 0
    assert run(command) == 0
    assert "is there already" in capsys.readouterr().err


def test_a_blank_text_beside_an_image_is_no_empty_request(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (tmp_path / "r.jsonl").write_text('{"request": [{"image": "a.png"}, {"text": " "}]}\n')
    corpus, _ = read_corpora([tmp_path / "r.jsonl"], threshold=None)
    assert not corpus.bad
