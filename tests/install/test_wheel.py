"""The wheels without any extra: every command that needs no model answers, and what is missing is named."""

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
    folder = tmp_path_factory.mktemp("wheel")
    return wheels.unpacked(wheels.build_wheel(folder), folder / "site", bare_python())


@pytest.fixture(scope="module")
def with_miniature(bare: wheels.Installed, tmp_path_factory: pytest.TempPathFactory) -> wheels.Installed:
    """The miniature's wheel beside it, without its dependencies."""
    folder = tmp_path_factory.mktemp("mini")
    mini = wheels.unpacked(wheels.build_wheel(folder, ROOT / "mini"), folder / "site", bare.python)
    return wheels.Installed(mini.wheel, bare.python, f"{bare.path}:{mini.path}")


def bare_python() -> Path:
    python = Path(sys.prefix) / "bare" / "bin" / "python"
    if not python.exists():
        pytest.skip("no environment without extras: make setup")
    return python


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


def test_the_miniature_without_onnxruntime_answers_and_names_what_is_missing(
    with_miniature: wheels.Installed, tmp_path: Path
) -> None:
    for words in (("mini", "--help"), ("bench", "mini", "--help")):
        ended = with_miniature.run(*words, folder=tmp_path)
        assert (ended.returncode, ended.stderr) == (0, ""), f"{words}: {ended.stderr}"
    for words in (("generate", "a frog"), ("mini", "label", "--out", "labels")):
        ended = with_miniature.run(*words, folder=tmp_path)
        assert ended.returncode == 2, f"{words}: {ended.stderr}"
        assert ended.stderr.strip().endswith("Install it with: pip install onnxruntime")
    assert list(tmp_path.iterdir()) == []


def test_the_oracle_of_the_wheel_plans_the_benchmarks_requests_and_refuses_others(
    with_miniature: wheels.Installed, tmp_path: Path
) -> None:
    frog = "How a frog grows up, step by step, in four pictures"
    ended = with_miniature.run("plan", frog, "--profile", "oracle", folder=tmp_path)
    assert (ended.returncode, ended.stdout.count("tadpole") > 0) == (0, True), ended.stderr
    refused = with_miniature.run("plan", "a frog in space", "--profile", "oracle", folder=tmp_path)
    assert refused.returncode == 2
    assert "the oracle plans the requests of the benchmark, and this is none of them" in refused.stderr


def test_doctor_tells_what_a_bare_installation_lacks(bare: wheels.Installed, tmp_path: Path) -> None:
    report = json.loads(bare.run("doctor", "--json", folder=tmp_path).stdout)
    found = {(each["group"], each["name"]): each for each in report["findings"]}
    assert found["models", "profile mini"]["fix"] == "pip install . ./mini"
    extras = ("api", "books", "local", "ocr", "postgres", "provenance", "ray", "robots", "serve", "studio")
    for extra in extras:
        assert found["extras", extra]["status"] == "missing"
        assert found["extras", extra]["fix"] == f'pip install "interleavethinker[{extra}]"'


def test_the_wheel_holds_the_product_and_nothing_else(
    bare: wheels.Installed, with_miniature: wheels.Installed
) -> None:
    for wheel, package, source in (
        (bare.wheel, "interleave", "src"),
        (with_miniature.wheel, "interleave_mini", "mini/src"),
    ):
        names = zipfile.ZipFile(wheel).namelist()
        tops = {name.partition("/")[0] for name in names}
        assert {top for top in tops if not top.endswith(".dist-info")} == {package}
        assert f"{package}/py.typed" in names
        tracked = subprocess.run(["git", "ls-files", source], cwd=ROOT, capture_output=True, text=True)
        if tracked.returncode == 0:
            there = [line for line in tracked.stdout.splitlines() if (ROOT / line).exists()]
            assert {line.removeprefix(f"{source}/") for line in there} <= set(names)


def test_the_wheel_of_the_miniature_holds_no_grammar(with_miniature: wheels.Installed) -> None:
    names = zipfile.ZipFile(with_miniature.wheel).namelist()
    assert {"interleave_mini/weights/language.json", "interleave_mini/bench/tasks.jsonl.gz"} <= set(names)
    assert [name for name in names if name.endswith(".txt") and "dist-info" not in name] == []
    assert [name for name in names if "grammar" in name or "/train" in name or "recipes" in name] == []
