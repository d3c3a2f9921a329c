"""The page that reproduces the paper, and that on costs: commands are taken, figures are computed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from interleave.backends.registry import check_agent, check_generator
from interleave.cli.main import app
from interleave.cli.old_spellings import rewrite
from interleave.config.profiles import profile_files
from interleave.train.recipes import load_recipe

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "how-to" / "reproduce-the-paper.md").read_text("utf-8")
STARTS = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:accelerate launch (?P<launch>.*?) -m )?interleave (?P<words>.*)$")


def commands() -> list[re.Match[str]]:
    """Our commands on the page, with the launcher before some of them."""
    text = "\n".join(re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)).replace("\\\n", " ")
    lines = [" ".join(line.split()) for line in text.splitlines() if re.search(r"\binterleave ", line)]
    found = [STARTS.match(line) for line in lines]
    assert None not in found
    return [match for match in found if match]


def parsed(command: Any, words: list[str], name: str = "interleave") -> dict[str, Any]:
    """The options of a command as its own parser reads them; raises where it would refuse them."""
    context = command.make_context(name, list(words))
    if not hasattr(command, "resolve_command"):
        return dict(context.params)
    rest = [*context._protected_args, *context.args]
    if not rest:
        return dict(context.params)
    name, inner, rest = command.resolve_command(context, rest)
    return parsed(inner, rest, name)


def id_of(match: re.Match[str]) -> str:
    return match["words"][:60]


@pytest.mark.parametrize("match", commands(), ids=id_of)
def test_a_command_of_the_page_is_taken(match: re.Match[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "x")
    given = parsed(typer.main.get_command(app), rewrite(shlex.split(match["words"]))[0])
    specs = given.get("generator") or ()
    for spec in (specs,) if isinstance(specs, str) else specs:
        check_generator(spec)
    for role in ("planner", "critic", "scorer"):
        if given.get(role):
            check_agent(given[role], role)
    if given.get("profile"):
        assert given["profile"] in profile_files()
    if recipe := given.get("config"):
        load_recipe(recipe, task="grpo" if "grpo" in recipe else "sft")
    for file in re.findall(r"launch/\S+", match[0]):
        assert (ROOT / file).is_file()


def test_every_stage_has_a_command() -> None:
    verbs = {tuple(match["words"].split()[:2]) for match in commands()}
    stages = {("data", name) for name in ("prompts", "collect", "score", "select", "export")}
    assert stages | {("train", "sft"), ("train", "grpo"), ("bench", "run")} <= verbs


def test_the_figures_are_those_of_the_computation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "perf"))
    import reproduction
    import training_costs

    assert reproduction.table() in PAGE
    assert reproduction.api_share() in PAGE
    costs = (ROOT / "docs" / "how-to" / "training-costs.md").read_text("utf-8")
    assert training_costs.table() in costs
    assert training_costs.changes() in costs
    assert [each for each in training_costs.sentences() if each not in costs] == []


def test_prices_are_those_that_runs_are_counted_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "perf"))
    import reproduction

    from interleave.remote.prices import TOKENS

    price = TOKENS["gemini-2.5-pro"]
    assert (price.input, price.output) == (reproduction.READ, reproduction.WRITTEN)
