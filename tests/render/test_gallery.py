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
    titles = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    assert titles == [text.replace("<", "&lt;").replace(">", "&gt;") for text in texts]
    links = re.findall(r'<a href="([^"]+)"', page)
    assert len(links) == 3
    assert all((index.parent / link).is_file() for link in links)
    assert page.count("<img") == 2 + 6 + 1  # of a long one the first and the last
    assert "built-in double" in page


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
    assert "--gallery go with --requests" in capsys.readouterr().err
