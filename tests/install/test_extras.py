"""Each extra alone, installed from the wheel into an empty environment with pip."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import wheels

EXTRAS = ("api", "books", "local", "postgres", "provenance", "ray", "robots", "serve", "studio", "train")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_alone_is_enough_for_all_that_it_is_for(extra: str, wheel: Path, tmp_path: Path) -> None:
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    constraints = wheels.ROOT / "constraints.txt"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints]
    subprocess.run([*pip, f"interleavethinker[{extra}] @ file://{wheel}"], check=True, timeout=900)
    installed = wheels.Installed(wheel, python)
    for words in wheels.ANSWERS:
        ended = installed.run(*words, folder=tmp_path)
        assert (ended.returncode, ended.stderr.count("Traceback")) == (0, 0), f"{words}: {ended.stderr}"
    report = json.loads(installed.run("doctor", "--json", folder=tmp_path).stdout)
    found = {each["name"]: each["status"] for each in report["findings"] if each["group"] == "extras"}
    assert found[extra] == "ok"
    for words, needed in wheels.REFUSALS.items():
        if found[needed] == "missing":  # another extra may be named first: the studio needs models too
            ended = installed.run(*words, folder=tmp_path)
            assert (ended.returncode, "interleavethinker[" in ended.stderr) == (2, True), (
                f"{words}: {ended.stderr}"
            )
