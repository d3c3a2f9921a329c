"""The pages about data name commands and options that exist, and figures that are true."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from interleave.train.cli.data import app
from interleave.train.data.prompts.taxonomy import read_taxonomy

FOLDER = Path(__file__).parents[3] / "docs" / "how-to" / "data"
STAGES = ("requests", "collecting", "scoring", "selecting", "exporting", "sequences", "importing", "report")
PAGE = "\n".join((FOLDER / f"{name}.md").read_text("utf-8") for name in ("index", *STAGES))
SHELL = "\n".join(re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)).replace("\\\n", " ")
COMMANDS = [shlex.split(line) for line in SHELL.splitlines() if line.startswith("interleave data ")]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_of_the_page_can_be_read(command: list[str]) -> None:
    verbs = typer.main.get_group(app).commands
    verbs[command[2]].make_context(command[2], command[3:])


def test_every_stage_is_on_the_page() -> None:
    assert {command[2] for command in COMMANDS} == set(typer.main.get_group(app).commands)


def test_the_size_of_the_taxonomy_is_as_told() -> None:
    taxonomy = read_taxonomy()
    words = {word for each in taxonomy.subcategories for bank in each.banks.values() for word in bank}
    told = re.search(
        r"(\d+) domains, (\d+) sub-categories, (\d+) templates and some\s+([\d,]+) phrases", PAGE
    )
    assert told is not None
    domains, subcategories, templates = map(int, told.groups()[:3])
    assert (domains, subcategories, templates) == (
        len(taxonomy.domains),
        len(taxonomy.subcategories),
        len(taxonomy.templates),
    )
    assert abs(int(told[4].replace(",", "")) - len(words)) < 50


def test_the_commands_of_the_page_can_be_followed_one_after_the_other() -> None:
    """None makes anew what an earlier one has made; a collection is only ever continued."""
    made: dict[str, list[str]] = {}
    for command in COMMANDS:
        if "--out" in command:
            first = made.setdefault(command[command.index("--out") + 1], command)
            assert first is command or (command[2] == "collect" and command[: len(first)] == first)
