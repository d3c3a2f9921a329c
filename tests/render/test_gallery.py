"""Many runs on one page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from interleave.cli.main import run

Captured = pytest.CaptureFixture[str]


def answer(folder: Path, *texts: str) -> list[str]:
    lines = [json.dumps({"id": f"n{number}", "request": text}) for number, text in enumerate(texts)]
    (folder / "requests.jsonl").write_text("\n".join(lines), "utf-8")
    return ["generate", "--requests", str(folder / "requests.jsonl"), "--dry-run", "--gallery", "--out"]


def test_every_run_has_a_strip_in_the_order_of_the_file_and_a_document(
    tmp_path: Path, capsys: Captured
) -> None:
    texts = ("A boat in 2 pictures", "<b>Zebras</b> in 8 pictures", "An ant in 1 picture")
    assert run([*answer(tmp_path, *texts), str(tmp_path / "many")]) == 0
    index = Path(capsys.readouterr().out.strip())
    assert index == tmp_path / "many" / "index.html"
    page = index.read_text("utf-8")
    titles = re.findall(r"<h2[^>]*><a[^>]*>(.*?)</a></h2>", page)
    assert titles == [text.replace("<", "&lt;").replace(">", "&gt;") for text in texts]
    links = re.findall(r'<h2[^>]*><a href="([^"]+)"', page)
    assert len(links) == 3
    assert all((index.parent / link).is_file() for link in links)
    assert page.count("<img") == 2 + 6 + 1  # of a long one the first and the last
    assert page.count("2 more</li>") == 1
    assert all(f'alt="Part {number} of 2' in page for number in (1, 2))
    assert "built-in fake" in page


def test_the_same_command_again_makes_the_same_page(tmp_path: Path) -> None:
    command = [*answer(tmp_path, "A boat in 2 pictures"), str(tmp_path / "many")]
    assert run(command) == 0
    index = tmp_path / "many" / "index.html"
    before = index.read_bytes()
    index.unlink()
    assert run(command) == 0
    assert index.read_bytes() == before


def test_a_gallery_is_of_many(capsys: Captured) -> None:
    assert run(["generate", "A boat in 1 picture", "--dry-run", "--gallery"]) == 2
    assert "--gallery need --requests" in capsys.readouterr().err


def test_a_request_that_was_refused_stands_in_its_place_with_the_reason_and_what_to_try(
    tmp_path: Path,
) -> None:
    texts = ("A unicorn rides a motorbike", "How a frog grows up, step by step, in four pictures")
    command = [word for word in answer(tmp_path, *texts) if word != "--dry-run"]
    assert run([*command, str(tmp_path / "many"), "--profile", "oracle"]) == 2
    page = (tmp_path / "many" / "index.html").read_text("utf-8")
    assert "<h1>1 document, 1 request without one</h1>" in page
    assert page.index("A unicorn rides a motorbike") < page.index(
        "How a frog grows up, step by step, in four"
    )
    assert "does not know" in page
    assert "Reword it under a new id" in page


def test_a_run_that_failed_is_shown_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"text": "{\\"success\\": true}"}\n')
    command = answer(tmp_path, "A boat in 2 pictures")
    critic = ["--critic", f"scripted:{tmp_path / 'c.jsonl'}"]
    assert run([*command, str(tmp_path / "many"), *critic]) == 3
    page = (tmp_path / "many" / "index.html").read_text("utf-8")
    assert page.count("<img") == 1
    assert "past its end" in page
    assert "--retry-failed" in page
