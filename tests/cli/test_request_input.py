"""`--from FILE.md`: which images a document shows, and which of them are taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from interleave.errors import InputError
from interleave.request_files import read_markdown


@pytest.fixture
def story() -> Path:
    """A folder with a document to be written, images beside it and below, and one outside."""
    folder = Path("story")
    (folder / "images").mkdir(parents=True)
    for name in ("a.png", "a b.png", "it's (1).png", "images/c.png", "../outside.png"):
        Image.new("RGB", (8, 8), "red").save(folder / name)
    return folder / "story.md"


def parts(story: Path, text: str) -> list[str]:
    story.write_text(text, "utf-8")
    found = read_markdown(story)
    return [part if isinstance(part, str) else f"<{part.relative_to(story.parent)}>" for part in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Once.\n\n![](a.png)\n\nThen.", ["Once.", "<a.png>", "Then."]),
        ("![a](a.png)![c](images/c.png)", ["<a.png>", "<images/c.png>"]),
        ('![a]( a.png "A title (1)" )', ["<a.png>"]),
        ("![a](a.png 'it is')", ["<a.png>"]),
        ("![a](a b.png)", ["<a b.png>"]),
        ("![a](a%20b.png)", ["<a b.png>"]),
        ("![a](<a b.png>)", ["<a b.png>"]),
        ("![a](it's (1).png)", ["<it's (1).png>"]),
        ("![a \\[b\\] \\](a.png)](a.png)", ["<a.png>"]),
        ("![a [b] c](a.png)", ["<a.png>"]),
        ("![two\nlines](a.png)", ["<a.png>"]),
        ("[![a](a.png)](http://example.com)", ["[", "<a.png>", "](http://example.com)"]),
        ("a ![b\n\nc](a.png)", ["a ![b\n\nc](a.png)"]),
        ("\\![b](a.png", ["\\![b](a.png"]),
        ("![]( )", ["![]( )"]),
        ("![](", ["![]("]),
        ("[link](a.png)", ["[link](a.png)"]),
    ],
)
def test_text_and_images_are_found_in_order(story: Path, text: str, expected: list[str]) -> None:
    assert parts(story, text) == expected


@pytest.mark.parametrize("text", ["![](" + " " * 2_000, "![" * 2_000, "![](<" * 1_000, '![](a "' * 1_000])
def test_what_only_begins_like_an_image_is_text(story: Path, text: str) -> None:
    assert parts(story, text) == [text.strip()]


@pytest.mark.parametrize(
    "name", ["../outside.png", "{absolute}", "link.png", "images/../../outside.png", "%2e%2e/outside.png"]
)
def test_images_from_outside_the_folder_are_refused_with_the_way_to_give_them(story: Path, name: str) -> None:
    (story.parent / "link.png").symlink_to(Path("outside.png").absolute())
    name = name.format(absolute=Path("outside.png").absolute())
    with pytest.raises(
        InputError, match=r"is outside its folder .*: copy it there, or add '.*outside\.png' to the request"
    ):
        parts(story, f"![]({name})")


def test_a_link_inside_the_folder_and_an_absolute_path_into_it_are_taken(story: Path) -> None:
    (story.parent / "link.png").symlink_to("a.png")
    inside = (story.parent / "a.png").absolute()
    story.write_text(f"![](link.png)![]({inside})", "utf-8")
    assert [part.resolve() for part in read_markdown(story) if isinstance(part, Path)] == [
        inside.resolve()
    ] * 2


@pytest.mark.parametrize(
    "address",
    [
        "http://e.example/a.png",
        "HTTPS://e.example/a.png",
        "//e.example/a.png",
        "file:///etc/x.png",
        "data:image/png;base64,AA",
        "ftp://e/a.png",
    ],
)
def test_nothing_is_fetched(story: Path, address: str) -> None:
    with pytest.raises(InputError, match="images must be files, nothing is fetched from the web"):
        parts(story, f"![]({address})")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("none.png", "which does not exist"),
        ("images", "which does not exist"),
        ("a" * 5_000, "cannot be read"),
        ("a\x00.png", "cannot be read|there is no such file"),
        ("circle.png", "cannot be read|there is no such file"),
    ],
)
def test_an_image_that_cannot_be_read_is_named(story: Path, name: str, problem: str) -> None:
    (story.parent / "circle.png").symlink_to("circle.png")
    with pytest.raises(InputError, match=problem):
        parts(story, f"![]({name})")
