"""Releases: wheels that build to the same bytes, and lists of what they need."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def deploy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "deploy"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    yield
    for name in ("release", "sbom"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("project", [".", "mini"])
def test_a_list_names_every_package_that_a_wheel_may_bring(
    project: str, deploy: None, tmp_path: Path
) -> None:
    from sbom import write_sbom

    path = write_sbom(ROOT / project, tmp_path)
    first = path.read_bytes()
    assert write_sbom(ROOT / project, tmp_path).read_bytes() == first
    listed = json.loads(first)
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.6")
    assert listed["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    described = tomllib.loads((ROOT / project / "pyproject.toml").read_text("utf-8"))["project"]
    scopes = {each["name"]: each["scope"] for each in listed["components"]}
    assert {name for name, scope in scopes.items() if scope == "required"} >= {
        re.split("[<>=[]", each)[0] for each in described["dependencies"]
    }
    if project == ".":
        assert (scopes["torch"], "ruff" in scopes, "mkdocs" in scopes) == ("optional", False, False)
    assert [each["name"] for each in listed["components"] if "version" not in each] in (
        [],
        ["interleavethinker"],
    )


@pytest.mark.slow
def test_wheels_build_twice_to_the_same_bytes(deploy: None, tmp_path: Path) -> None:
    from release import build

    copy = tmp_path / "elsewhere" / "copy"
    outer = {".venv", ".git", "runs", "site", "dist", "studio", ".trainers", ".robots"}

    def left_out(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if name.endswith("cache__") or (name in outer and folder == str(ROOT))}

    shutil.copytree(
        ROOT, copy, ignore=left_out, copy_function=shutil.copyfile
    )  # other paths, times and modes
    first, second = build(ROOT, tmp_path / "first"), build(copy, tmp_path / "second")
    wheels = {name for name in first if name.endswith(".whl") or name.endswith(".cdx.json")}
    assert len(wheels) == 4
    assert {name: first[name] for name in wheels} == {name: second[name] for name in wheels}
