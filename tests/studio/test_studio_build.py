"""The one file that the studio is: small, complete in itself, and what its source builds."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "studio"
BUILT = ROOT / "src" / "interleave" / "studio" / "static" / "studio.html"
MOST_BYTES = 350_000
NODE = shutil.which("node") and shutil.which("npm")

needs_packages = pytest.mark.skipif(
    not NODE or not (SOURCE / "node_modules").exists(), reason="no Node.js, or no npm ci in studio/ yet"
)


def test_it_is_small() -> None:
    assert BUILT.stat().st_size <= MOST_BYTES


def test_it_loads_nothing_from_elsewhere() -> None:
    page = BUILT.read_text()
    loaded = re.findall(
        r"""(?:src|href)=["']?([^"'\s>]+)""", re.sub(r"<script.*?</script>", "", page, flags=re.S)
    )
    assert [each for each in loaded if not each.startswith(("data:", "#"))] == []
    assert re.findall(r"url\((?![\"']?data:)[^)]*\)", page) == []
    assert re.findall(r"@import|\bimport\s*\(|\bimportScripts|sourceMappingURL", page) == []
    names = {
        "http://www.w3.org",
        "https://svelte.dev",
    }  # of namespaces, and of pages about errors: not loaded
    assert set(re.findall(r"https?://[\w.-]+", page)) <= names


def test_a_policy_by_hashes_can_hold() -> None:
    page = BUILT.read_text()
    outside = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.S)
    assert not re.search(r"\son\w+=|\sstyle=|javascript:", outside)
    assert re.findall(r"<script[^>]*>", page) == ["<script>", "<script>"]


def test_one_can_type_before_most_of_it_has_arrived() -> None:
    """What a slow line must bring, compressed as it is sent, until the field is there, and until it works."""
    page = BUILT.read_text()
    field, program, all_ = page.index("</form>"), page.rindex("</script>"), len(page)
    arrived = [len(gzip.compress(page[:end].encode())) for end in (field, program, all_)]
    assert arrived[0] <= 20_000
    assert arrived[1] <= 110_000
    assert arrived[2] <= 160_000
    assert page.index("@font-face") > program  # covers and the typeface follow


@pytest.mark.parametrize("file", sorted((SOURCE / "src").rglob("*.svelte")), ids=lambda file: file.name)
def test_no_text_becomes_html(file: Path) -> None:
    words = file.read_text()
    assert "{@html" not in words and "innerHTML" not in words
    assert not re.search(r"\sstyle=", words)  # the policy forbids it


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((SOURCE / "package-lock.json").read_text())

    def addresses(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for name, each in value.items():
                if name != "funding":  # where to thank the authors
                    yield from addresses(each)
        elif isinstance(value, list):
            for each in value:
                yield from addresses(each)
        elif isinstance(value, str) and "://" in value:
            yield value

    assert list(addresses(lock)) == []
    assert "omit-lockfile-registry-resolved=true" in (SOURCE / ".npmrc").read_text()


def run(*command: str) -> str:
    ended = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.slow
@needs_packages
def test_a_build_equals_what_is_committed(tmp_path: Path) -> None:
    run("npx", "vite", "build", "--outDir", str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == [BUILT.name]
    assert (tmp_path / BUILT.name).read_bytes() == BUILT.read_bytes()


@pytest.mark.slow
@needs_packages
def test_its_own_tests_and_types_hold() -> None:
    run("npm", "run", "--silent", "test")
    run("npm", "run", "--silent", "check")
