"""What the pages say is tried: code runs, commands name profiles, specs and options that exist."""

from __future__ import annotations

import re
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from interleave.backends.registry import known_backends
from interleave.cli.main import run
from interleave.config.profiles import profile_files
from interleave.config.specs import parse_spec
from interleave.diagnostics import contract
from interleave.local.families import FAMILIES, pipeline_of

DOCS = Path(__file__).parent.parent / "docs"
ADD = (DOCS / "tutorial" / "add-a-generator.md").read_text("utf-8")
REAL = (DOCS / "how-to" / "real-models.md").read_text("utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def commands(page: str) -> list[list[str]]:
    text = "\n".join(blocks(page, "bash")).replace("\\\n", " ")
    return [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("interleave ")]


def test_the_generator_of_the_page_keeps_the_contract_and_draws() -> None:
    file, trial, row = blocks(ADD, "python")
    names: dict[str, object] = {}
    exec(compile(file, "stripes.py", "exec"), names)
    exec(compile(trial, "try.py", "exec"), names)
    assert Path("runs/rainbow/document.html").exists()
    contract.require(names["stripes"])
    known = dict(FAMILIES)
    try:
        exec(compile(row, "row.py", "exec"), {})
        assert pipeline_of("Tongyi-MAI/Z-Image-Turbo") == "ZImagePipeline"
    finally:
        FAMILIES.clear()
        FAMILIES.update(known)


def test_it_is_installed_checked_and_drawn_with_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package,) = blocks(ADD, "toml")
    ((group, names),) = tomllib.loads(package)["project"]["entry-points"].items()
    about = tmp_path / "site" / "interleave_stripes-0.1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: interleave-stripes\nVersion: 0.1\n", "utf-8"
    )
    points = "".join(f"{name} = {target}\n" for name, target in names.items())
    (about / "entry_points.txt").write_text(f"[{group}]\n{points}", "utf-8")
    (about.parent / "stripes.py").write_text(blocks(ADD, "python")[0], "utf-8")
    monkeypatch.syspath_prepend(about.parent)
    for command in commands(ADD):
        assert run(command[1:]) == 0, command
    assert Path("runs/three-rainbows/document.html").exists()


def test_its_entry_point_names_the_class() -> None:
    (package,) = blocks(ADD, "toml")
    points = tomllib.loads(package)["project"]["entry-points"]
    assert points == {"interleave.generators": {"stripes": "stripes:StripesGenerator"}}


@pytest.mark.parametrize("command", commands(REAL), ids=" ".join)
def test_the_recipes_name_what_there_is(command: list[str]) -> None:
    named = dict(pairwise(command))
    assert named.get("--profile", "klein") in profile_files()
    for role in ("--planner", "--critic", "--generator"):
        if role not in named:
            continue
        spec = parse_spec(named[role])
        row = (known_backends("generator") if role == "--generator" else known_backends("vlm")).get(spec.name)
        if row is None or row.missing:
            continue  # of another extra
        module, _, name = row.target.partition(":")
        options = getattr(__import__(module, fromlist=[name]), name).Options
        options.model_validate(spec.options)


def test_every_profile_of_real_models_is_on_the_page_and_its_models_are_in_the_table() -> None:
    for name in ("klein", "klein-quick", "klein-4b", "qwen-edit"):
        assert name in profile_files()
        assert f"`{name}`" in REAL or f"--profile {name}" in REAL


def test_every_option_of_the_two_backends_is_on_the_page() -> None:
    pytest.importorskip("torch")
    from interleave.local.diffusers_generator import DiffusersGenerator
    from interleave.local.transformers_vlm import TransformersVlm

    options = {*DiffusersGenerator.Options.model_fields, *TransformersVlm.Options.model_fields}
    missing = {name for name in options if f"`{name}=" not in REAL} - {"concurrency", "adapter_revision"}
    assert not missing


def test_the_settings_of_the_page_are_settings() -> None:
    from interleave.local.pipelines import CallSettings

    (settings,) = blocks(REAL, "json")
    assert CallSettings.model_validate_json(settings).width == 256
    assert all(f'"{name}"' in settings for name in CallSettings.model_fields)


def test_every_public_name_is_in_the_reference() -> None:
    import interleave

    page = (DOCS / "reference" / "api.md").read_text("utf-8")
    shown = re.findall(r"^::: interleave\.(\w+)$", page, re.MULTILINE)
    assert sorted([*shown, "__version__"]) == sorted(interleave.__all__)


def test_the_miniature_refuses_what_it_lacks_in_the_words_of_its_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (DOCS / "explanation" / "miniature.md").read_text("utf-8")
    (printed,) = re.findall(
        r"^```\n(interleave: the miniature does not know.*?)```", page, re.DOTALL | re.MULTILINE
    )
    assert run(["plan", "Tell the story of a submarine", "--profile", "mini"]) == 2
    assert " ".join(capsys.readouterr().err.split()) == " ".join(printed.split())


def test_every_link_leads_somewhere() -> None:
    """`make docs` checks anchors too; this needs no further package."""
    for page in [
        *DOCS.rglob("*.md"),
        *(DOCS.parent / "examples").glob("*.md"),
        DOCS.parent / "CONTRIBUTING.md",
    ]:
        for link in re.findall(r"\]\(([^)#\s]+)[^)\s]*\)", page.read_text("utf-8")):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"[\w/-]+\.md", (DOCS.parent / "mkdocs.yml").read_text("utf-8")))
    assert {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} == named
