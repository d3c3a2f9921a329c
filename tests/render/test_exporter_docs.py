"""Formats of other packages: the one of the how-to, installed as it says, and ones that are broken."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from example_packages import example_package, put_on_path
from interleave.books import formats
from interleave.cli.main import run
from interleave.errors import ConfigurationError, MissingDependency
from interleave.render.exports import export_run, format_names, known_formats
from interleave.render.exports.formats import find_format
from interleave.runs.record import read_record

PAGE = example_package("how-to/add-an-exporter.md")
BROKEN = """
[interleave.exporters]
gone = comic_broken.nowhere:FORMAT
number = comic_broken:NUMBER
pdf = comic_broken:NUMBER
Up/per = comic_broken:FORMAT
lacking = comic_broken:LACKING
unfinished = comic_broken:UNFINISHED
bytes = comic_broken:BYTES
"""
BROKEN_MODULE = """
from dataclasses import replace
from interleave.render.exports import Format

NUMBER = 7
FORMAT = Format("x", "X", "text/x", "comic_broken:make")
LACKING = replace(FORMAT, needs=("no_such_package", "PIL"))
UNFINISHED = replace(FORMAT, made_by="comic_broken:nothing")
BYTES = replace(FORMAT, made_by="comic_broken:make")

def make(folder, record, options):
    return b"x"
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return PAGE.build(tmp_path_factory.mktemp("comic"))


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = tmp_path / "broken"
    about = site / "comic_broken-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: comic-broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(BROKEN)
    (site / "comic_broken.py").write_text(BROKEN_MODULE)
    put_on_path(site, "comic_broken", monkeypatch)
    return site


@pytest.fixture
def made() -> Path:
    assert run(["generate", "A frog in 1 picture", "--dry-run", "--out", "run"]) == 0
    return Path("run")


def test_the_exporter_of_the_page_works_as_printed(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(built, "comic_export", monkeypatch)
    for command in PAGE.commands:
        assert run(command) == 0, command
    with tarfile.open("frog/document.cbt") as archive:
        first, *_ = names = archive.getnames()
        assert [name[:5] for name in names] == ["0001-", "0002-", "0003-"]
        image = archive.extractfile(first)
        assert image and image.read().startswith(b"\x89PNG")


LISTED = """
import sys
from interleave.cli.main import run
from interleave.render.exports import format_names
run(["export", "--help"])
assert "comic_export" not in sys.modules
from interleave.service.documents.openapi import openapi
print(*openapi()["paths"]["/v1/documents/{id}/document.cbt"]["get"]["responses"]["200"]["content"])
assert "comic_export.cbt" not in sys.modules
"""


def test_it_is_listed_by_the_command_and_the_service_without_importing_its_function(built: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(built)}
    listed = subprocess.run(
        [sys.executable, "-c", LISTED], env=environment, capture_output=True, text=True, timeout=120
    )
    assert listed.returncode == 0, listed.stderr
    assert "cbt" in listed.stdout and "fixed-epub" in listed.stdout
    assert listed.stdout.endswith("application/vnd.comicbook+tar\n")


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone", r"the exporter 'gone' of the package comic-broken cannot be loaded from 'comic_broken.nowh"),
        ("number", "'comic_broken:NUMBER' of comic-broken is not a Format"),
        ("Up/per", "needs another name"),
        ("lacking", "X files need the package 'no_such_package', .* pip install no_such_package$"),
        ("unfinished", "the exporter 'unfinished' cannot be loaded from 'comic_broken:nothing'"),
        ("bytes", "'comic_broken:make' must return an Exported, not b'x'"),
        ("byte", "no format 'byte'. Known: .* Did you mean 'bytes'?"),
    ],
)
def test_a_broken_exporter_is_one_error_where_it_is_asked_for(name: str, said: str, made: Path) -> None:
    with pytest.raises((ConfigurationError, MissingDependency), match=said):
        export_run(made, read_record(made), name)
    assert run(["export", "run", "--to", name]) == 2
    assert run(["export", "run", "--to", "html"]) == 0


@pytest.mark.usefixtures("broken")
def test_broken_exporters_are_left_out_of_the_lists_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    ours = [name for name in format_names() if hasattr(formats, name.upper().replace("-", "_"))]
    known_formats.cache_clear()
    try:
        assert sorted(known_formats()) == sorted([*ours, "lacking", "unfinished", "bytes"])
    finally:
        known_formats.cache_clear()
    assert len(caplog.records) == 3 and "'gone' of the package comic-broken" in caplog.text
    assert find_format("pdf") == formats.PDF and format_names().count("pdf") == 1
