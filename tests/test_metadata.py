"""What package indexes show of a release: who, where, for what; and a README without broken links."""

from __future__ import annotations

import os
import re
import tomllib
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from hatchling.build import prepare_metadata_for_build_wheel

from interleave.version import __version__

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    folder, before = tmp_path_factory.mktemp("metadata"), Path.cwd()
    os.chdir(ROOT)  # where a build starts
    try:
        name = prepare_metadata_for_build_wheel(str(folder))
    finally:
        os.chdir(before)
    return Parser().parsestr((folder / name / "METADATA").read_text("utf-8"))


def broken_links(metadata: Message) -> list[str]:
    """The links and images of the long description that lead nowhere outside a repository."""
    markdown, html = r"\]\(([^)]*)\)", r"(?:src|href)=\"([^\"]*)\""
    targets = [
        target for found in re.findall(f"{markdown}|{html}", metadata.get_payload()) for target in found
    ]
    return [target for target in targets if target and not re.match(r"https?://|mailto:|#", target)]


def test_the_long_description_has_no_link_that_leads_nowhere(metadata: Message) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert broken_links(metadata) == []


def test_the_long_description_keeps_the_code_of_the_readme(metadata: Message) -> None:
    blocks = re.findall(r"```.*?```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert blocks
    assert re.findall(r"```.*?```", metadata.get_payload(), re.DOTALL) == blocks


def test_it_says_who_made_it_and_where_the_paper_is(metadata: Message) -> None:
    assert metadata["Author"]
    assert metadata["Keywords"]
    assert metadata.get_all("Project-URL") == ["Paper, https://arxiv.org/abs/2606.13679"]


def test_it_says_where_it_runs(metadata: Message) -> None:
    said = metadata.get_all("Classifier") or []
    for wanted in ("Python :: 3.11", "Python :: 3.13", "MacOS", "POSIX :: Linux", "Typing :: Typed"):
        assert any(each.endswith(wanted) for each in said), wanted
    assert not any("Windows" in each for each in said)


def test_the_miniature_has_the_version_of_what_it_belongs_to() -> None:
    said = tomllib.loads((ROOT / "mini" / "pyproject.toml").read_text("utf-8"))["project"]
    assert said["version"] == __version__
    assert f"interleavethinker=={__version__}" in said["dependencies"]


def test_the_readmes_beside_the_product_are_short() -> None:
    readmes = [ROOT / "mini" / "README.md", ROOT / "research" / "miniature" / "README.md"]
    assert [path for path in readmes if len(path.read_text("utf-8").splitlines()) > 40] == []


def test_both_packages_tell_type_checkers_that_they_have_types() -> None:
    for package in ("src/interleave", "mini/src/interleave_mini"):
        assert (ROOT / package / "py.typed").exists()
