"""Our taxonomy of the real world: readable, balanced, and good for 40,000 different requests offline."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from interleave.batches.requests import read_requests
from interleave.cli.main import run
from interleave.errors import ConfigurationError, InputError
from interleave.step_counts import named_step_count
from interleave.train.data.manifest import file_digest, read_manifest
from interleave.train.data.prompts.corpus import RequestRow
from interleave.train.data.prompts.near_duplicates import NearDuplicates, normalized, shingles
from interleave.train.data.prompts.sampler import RequestSampler
from interleave.train.data.prompts.stage import coverage_of
from interleave.train.data.prompts.taxonomy import NUMBERS, SLOT, Taxonomy, bank_of, fill, read_taxonomy

SMALL = 3_000


@pytest.fixture(scope="module")
def taxonomy() -> Taxonomy:
    return read_taxonomy()


@pytest.fixture(scope="module")
def rows(taxonomy: Taxonomy) -> list[RequestRow]:
    return RequestSampler(taxonomy, seed=3, threshold=0.8).sample(SMALL)


def test_the_taxonomy_is_as_large_as_the_papers(taxonomy: Taxonomy) -> None:
    assert len(taxonomy.domains) == 8
    assert len(taxonomy.subcategories) == 75
    assert len(taxonomy.templates) >= 100
    words = {word for each in taxonomy.subcategories for bank in each.banks.values() for word in bank}
    assert len(words) > 1_900


def test_every_bank_is_used_by_a_template(taxonomy: Taxonomy) -> None:
    for each in taxonomy.subcategories:
        used = {bank_of(slot) for template in each.templates for slot in SLOT.findall(template)}
        assert set(each.banks) <= used, each.key


def test_requests_are_sentences(rows: list[RequestRow]) -> None:
    for row in rows:
        text = row.text
        assert text[0].isupper() or text[0] in "“A", text
        assert text[-1] in ".?!", text
        assert "  " not in text and "{" not in text and " ." not in text and " ," not in text, text


def test_a_number_of_images_is_read_as_it_was_meant(rows: list[RequestRow]) -> None:
    """A planner is held to the number a request names: one read wrongly would have right plans refused."""
    values = {word: number for number, word in enumerate(NUMBERS, start=3)}
    for row in rows:
        named = named_step_count(row.text)
        if "{n}" not in (row.template or ""):
            assert named is None, row.text
        elif named is not None:
            words = [word for word in normalized(row.text).split() if word in values]
            assert named in {values[word] for word in words}, row.text


def test_requests_are_balanced_over_the_subcategories(taxonomy: Taxonomy, rows: list[RequestRow]) -> None:
    counts = coverage_of(rows)
    assert set(counts) == {each.key for each in taxonomy.subcategories}
    assert max(counts.values()) - min(counts.values()) <= 1
    first = coverage_of(rows[:75])
    assert set(first.values()) == {1}  # any first part is balanced too
    assert {row.domain for row in rows[:8]} == set(taxonomy.domains)


def test_requests_use_every_word_of_a_subcategory(taxonomy: Taxonomy, rows: list[RequestRow]) -> None:
    said = " ".join(normalized(row.text) for row in rows)
    missing = [
        word
        for each in taxonomy.subcategories
        for slot in each.own
        for word in each.banks[slot]
        if normalized(word) not in said
    ]
    assert len(missing) < 30, missing[:10]


def test_no_two_requests_are_near_each_other(rows: list[RequestRow]) -> None:
    """By brute force, within each sub-category: what the fast search promises."""
    by_key: dict[tuple[str | None, str | None], list[RequestRow]] = {}
    for row in rows:
        by_key.setdefault((row.domain, row.subcategory), []).append(row)
    for group in by_key.values():
        pairs = {row.id: shingles(row.text) for row in group}
        for one, two in combinations(group, 2):
            shared = len(pairs[one.id] & pairs[two.id])
            assert shared < 0.8 * len(pairs[one.id] | pairs[two.id]), (one.text, two.text)


@pytest.mark.slow
def test_the_search_for_near_texts_finds_just_what_comparing_all_finds(taxonomy: Taxonomy) -> None:
    texts = [row.text for row in RequestSampler(taxonomy, seed=1).sample(750)]
    for threshold in (0.5, 0.7, 0.9):
        near, kept = NearDuplicates(threshold, sample=texts[:100]), []
        for text in texts:
            ours = shingles(text)
            like = [
                place
                for place, other in enumerate(kept)
                if len(ours & other) >= threshold * len(ours | other)
            ]
            assert near.add(text) == (like[0] if like else None)
            if not like:
                kept.append(ours)


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.6, 0.75, 0.8, 1.0])
def test_the_search_misses_none_of_many_short_texts(threshold: float) -> None:
    rng = Random(threshold)
    texts = [" ".join(rng.choices("abcd", k=rng.randint(1, 6))) for _ in range(500)]
    near, kept = NearDuplicates(threshold, sample=texts[:50]), []
    for text in texts:
        ours = shingles(text)
        like = [n for n, other in enumerate(kept) if len(ours & other) >= threshold * len(ours | other)]
        assert near.add(text) == (like[0] if like else None)
        if not like:
            kept.append(ours)


@pytest.mark.parametrize(
    ("one", "two", "near"),
    [
        ("Show in four pictures how to bake a cake.", "Show in six pictures how to bake a cake", True),
        ("Show me how to bake a cake!", "show me how to bake a CAKE", True),
        ("Show step by step how to bake a cake.", "Show step by step how to tie a tie.", False),
        ("", "Draw a cat.", False),
    ],
)
def test_what_is_near(one: str, two: str, near: bool) -> None:
    search = NearDuplicates(0.8)
    search.add(one)
    assert (search.add(two) is not None) == near


def test_K13_the_same_seed_gives_the_same_requests_and_another_seed_others(
    taxonomy: Taxonomy, rows: list[RequestRow]
) -> None:
    again = RequestSampler(read_taxonomy(), seed=3, threshold=0.8).sample(SMALL)
    assert [row.line() for row in again] == [row.line() for row in rows]
    other = RequestSampler(taxonomy, seed=4, threshold=0.8).sample(300)
    assert len({row.id for row in other} & {row.id for row in rows[:300]}) < 30


@pytest.mark.slow
def test_forty_thousand_requests_offline(tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert run(["data", "prompts", "--source", "world", "--out", f"{name}/requests.jsonl"]) == 0
    assert (tmp_path / "one/requests.jsonl").read_bytes() == (tmp_path / "two/requests.jsonl").read_bytes()
    items, problems = read_requests(tmp_path / "one/requests.jsonl")
    assert len(items) == 40_000 and not problems
    assert len({item.digest for item in items}) == 40_000


def test_the_command_writes_a_corpus_that_collecting_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["data", "prompts", "--source", "world", "--items", "150", "--out", "c/requests.jsonl"]
    assert run(command) == 0
    out = capsys.readouterr()
    assert out.out.strip() == "c/requests.jsonl"
    assert "requests: 150" in out.err
    corpus = tmp_path / "c/requests.jsonl"
    assert len(read_requests(corpus)[0]) == 150
    manifest = read_manifest(tmp_path / "c/requests.manifest.json")
    assert manifest.counts["requests"] == 150
    assert manifest.counts["art / watercolour"] == 2
    digest = file_digest(corpus)
    assert run(command) == 0
    assert "there already" in capsys.readouterr().err
    assert file_digest(corpus) == digest


def test_another_corpus_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["data", "prompts", "--source", "world", "--items", "80", "--out", "requests.jsonl"]
    assert run(command) == 0
    before = (tmp_path / "requests.jsonl").read_bytes()
    assert run([*command, "--seed", "5"]) == 2
    assert "seed differ" in capsys.readouterr().err
    (tmp_path / "requests.manifest.json").unlink()
    assert run(command) == 2
    assert (tmp_path / "requests.jsonl").read_bytes() == before


def test_asking_for_too_many_says_how_many_there_are(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(
        'name = "d"\ntemplates = "Draw {thing}."\n[[subcategory]]\nname = "s"\n'
        '[subcategory.banks]\nthing = """\na cat\na dog\na bird in a tree\n"""\n'
    )
    with pytest.raises(InputError, match="yields 3 different requests, not 10"):
        RequestSampler(read_taxonomy(tmp_path)).sample(10)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "name"),
        ("name = ", "not TOML"),
        ('name = "d"\nsurprise = 1\n[[subcategory]]\nname = "s"\n', "surprise"),
        ('name = "d"\n[[subcategory]]\nname = "s"\n', "has no templates"),
        ('name = "d"\ntemplates = "Draw {x}."\n[[subcategory]]\nname = "s"\n', "no bank 'x'"),
        ('name = "d"\ntemplates = "Draw {."\n[[subcategory]]\nname = "s"\n', "brace"),
        ('name = "d"\ntemplates = "Draw {x}."\n[banks]\nx = "a\\na"\n[[subcategory]]\nname = "s"\n', "twice"),
        (
            'name = "d"\ntemplates = "Draw {x}."\n[banks]\nx = "a."\n[[subcategory]]\nname = "s"\n',
            "punctuation",
        ),
        (
            'name = "d"\ntemplates = "Go."\n[[subcategory]]\nname = "s"\n[[subcategory]]\nname = "s"\n',
            "already",
        ),
    ],
)
def test_I09_a_bad_taxonomy_is_refused_with_the_file_and_the_place(
    tmp_path: Path, content: str, said: str
) -> None:
    (tmp_path / "d.toml").write_text(content)
    with pytest.raises(ConfigurationError, match=said) as caught:
        read_taxonomy(tmp_path)
    assert "d.toml" in str(caught.value)


def test_a_folder_without_a_taxonomy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no taxonomy"):
        read_taxonomy(tmp_path)


def test_a_capital_slot_begins_with_a_capital() -> None:
    assert fill("{a} sat. {A} left.", {"a": "the cat"}) == "The cat sat. The cat left."


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--source mini"),
        (["--source", "wrold"], "Did you mean 'world'"),
        (["--source", "mini", "--from", "x.jsonl"], "say where"),
        (["--source", "world", "--suite", "story"], "--suite goes with --source mini"),
        (["--source", "mini", "--expand", "scripted"], "--expand goes with --source world"),
        (["--source", "world", "--skip-bad"], "--skip-bad goes with --from"),
        (["--source", "mini", "--near", "0.5"], "--near goes with"),
        (["--source", "mini", "--suite", "tale"], "no suite named 'tale'"),
        (["--source", "mini", "--split", "all"], "no split named 'all'"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert run(["data", "prompts", "--out", "r.jsonl", *options]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "r.jsonl").exists()


def test_the_name_of_the_file_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "prompts", "--source", "world", "--out", "corpus"]) == 2
    assert ".jsonl" in capsys.readouterr().err


def test_json_tells_the_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "prompts", "--source", "world", "--items", "75", "--out", "r.jsonl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["requests"] == 75


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert run(["data", "prompts", "--source", "world", "--items", "5", "--out", "file/r.jsonl"]) == 2
    assert "choose another file with --out" in capsys.readouterr().err
