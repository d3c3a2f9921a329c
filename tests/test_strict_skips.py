"""`make test-all STRICT=1`: what is missing fails and is listed; what does not apply is still skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = """
import pytest

def test_package():
    pytest.importorskip("a_package_that_is_not_there")

@pytest.mark.skipif(True, reason="no Chromium on this machine")
def test_program():
    pass

@pytest.mark.skipif(True, reason="does not apply: no CUDA device")
def test_hardware():
    pass

@pytest.mark.xfail(reason="a known defect")
def test_defect():
    assert False
"""


@pytest.mark.parametrize(
    ("strict", "counts"), [("1", "1 failed, 1 skipped, 1 xfailed, 1 error"), ("", "3 skipped, 1 xfailed")]
)
def test_a_skip_for_something_missing_fails_where_it_is_wanted(
    tmp_path: Path, strict: str, counts: str
) -> None:
    (tmp_path / "conftest.py").write_text(
        "import skips\n\ndef pytest_configure(config):\n    skips.is_strict() and "
        "config.pluginmanager.register(skips.StrictSkips())\n"
    )
    (tmp_path / "test_needs.py").write_text(TESTS)
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(tmp_path),
            tmp_path,
        ],
        env={**os.environ, "STRICT": strict, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
    )
    assert counts in ran.stdout
    assert ("missing on this machine" in ran.stdout) == bool(strict)
    assert ("no Chromium on this machine (1)" in ran.stdout) == bool(strict)
