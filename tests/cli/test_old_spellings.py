"""Commands and options that were renamed still work, with a hint, until 1.0."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

from interleave.bench.table import TABLE
from interleave.cli.main import root_command, run
from interleave.cli.old_spellings import ACTIONS, BENCHMARKS, COMMANDS, FLAGS, OPTIONS, STAGES, rewrite
from interleave.version import __version__

Captured = pytest.CaptureFixture[str]


def found(words: list[str]) -> Any:
    """Return the command of some words, and fail if there is none."""
    command = root_command()
    for word in words:
        command = command.commands[word]
    return command


def test_old_spellings_go_in_1_0() -> None:
    assert int(__version__.split(".")[0]) < 1


@pytest.mark.parametrize("old", COMMANDS)
def test_an_old_command_names_a_command(old: str) -> None:
    new = COMMANDS[old].split()
    assert rewrite([*old.split(), "x", "--json"]) == (
        [*new, "x", "--json"],
        [f"'{old}' is now '{COMMANDS[old]}'"],
    )
    assert found(new)
    assert rewrite(new) == (new, [])


@pytest.mark.parametrize(("path", "old"), [(path, old) for path, row in OPTIONS.items() for old in row])
def test_an_old_option_names_an_option(path: str, old: str) -> None:
    new = OPTIONS[path][old]
    words = path.split()
    assert rewrite([*words, old, "x"]) == ([*words, new, "x"], [f"'{old}' is now '{new}'"])
    assert rewrite([*words, f"{old}=x"])[0] == [*words, f"{new}=x"]
    below = list(commands_below(found(words)))
    assert any(new in {*each.opts, *each.secondary_opts} for command in below for each in command.params)
    if path != "mini train":  # `mini label` has other attempts
        assert not any(old in each.opts for command in below for each in command.params)


def commands_below(command: Any) -> Any:
    if isinstance(command, TyperGroup):
        for name in command.commands:
            yield from commands_below(command.commands[name])
    else:
        yield command


def test_every_benchmark_that_was_a_command_is_run_by_name() -> None:
    assert set(TABLE) >= BENCHMARKS
    for name in BENCHMARKS:
        assert rewrite(["bench", name, "--items", "2"])[0] == ["bench", "run", name, "--items", "2"]
        for stage, new in STAGES.items():
            assert rewrite(["bench", name, stage])[0] == ["bench", new, name]
            assert rewrite(["bench", name, "--out", "judge", stage])[0] == [
                *("bench", new, name, "--out", "judge"),
            ]
            assert found(["bench", new])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("resume RUN --from-step 2 --prompt X", "edit RUN redraw 2 --prompt X"),
        ("resume --from-step=2 RUN --only-step", "edit RUN redraw 2 --only"),
        ("resume RUN --choose 2:1 --json", "edit RUN choose 2 1 --json"),
        ("resume RUN --undo --max-cost 2", "edit RUN undo --max-cost 2"),
        ("-v resume RUN --undo", "edit RUN undo -v"),
        ("resume RUN --branch-from 3 --out new", "edit RUN branch 3 --out new"),
        ("resume RUN --approve --by Ada", "edit RUN approve --by Ada"),
        ("resume RUN --plan p.json", "edit RUN approve --plan p.json"),
    ],
)
def test_options_of_resume_that_steer_are_actions_of_edit(old: str, new: str) -> None:
    words, hints = rewrite(old.split())
    assert sorted(words) == sorted(new.split())
    assert words[:3] == new.split()[:3]
    assert hints and hints[0].startswith("'resume RUN --")
    assert {*ACTIONS.values(), "words", "add"} == set(found(["edit"]).commands)  # two are newer


@pytest.mark.parametrize(
    "words",
    [
        ["generate", "work"],
        ["generate", "backends", "--out", "calibrate"],
        ["generate", "x", "--prompts", "--sheets"],
        ["generate", "--", "--remedies"],
        ["edit", "RUN", "redraw", "2", "--prompt", "--only-step"],
        ["resume", "RUN", "--generator", "--undo"],
        ["bench", "run", "ueval", "--out", "ueval"],
        ["bench", "mini", "--suite", "story"],
        ["bench", "uevl"],
        ["export", "RUN", "--to", "pdf", "--out", "prompts"],
        ["--version"],
        [],
    ],
)
def test_values_requests_and_new_spellings_stay(words: list[str]) -> None:
    assert rewrite(words) == (words, [])


def test_flags_are_the_options_without_a_value() -> None:
    commands = [each for path in (*OPTIONS, "resume") for each in commands_below(found(path.split()))]
    options = [each for command in commands for each in command.params if each.param_type_name == "option"]
    flags = {name for each in options if is_flag(each) for name in (*each.opts, *each.secondary_opts)}
    others = {name for each in options if not is_flag(each) for name in each.opts}
    assert not FLAGS & others
    own = [each for path in ("generate", "resume") for each in found([path]).params if is_flag(each)]
    names = {name for each in own for name in (*each.opts, *each.secondary_opts) if name.startswith("--")}
    assert names <= FLAGS & flags


def is_flag(option: Any) -> bool:
    return bool(getattr(option, "is_flag", False))


def test_both_spellings_print_the_same_and_the_old_one_hints(capsys: Captured) -> None:
    assert run(["models", "list", "--json"]) == 0
    new = capsys.readouterr()
    assert run(["backends", "--json"]) == 0
    old = capsys.readouterr()
    assert (old.out, new.err) == (new.out, "")
    assert old.err == "interleave: 'backends' is now 'models list'\n"
    assert run(["backends", "--json", "-q"]) == 0
    assert capsys.readouterr() == (new.out, "")


def test_a_run_is_steered_by_both_spellings(capsys: Captured) -> None:
    request = ["generate", "A frog in 2 pictures", "--generator", "solid?size=64", "--dry-run"]
    assert run([*request, "--sheets", "--remedies", "keep", "--out", "run"]) == 0
    assert "'--remedies' is now '--drift-control'" in capsys.readouterr().err
    assert run(["resume", "run", "--from-step", "2", "--seed", "7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"][1]["by_hand"] == "redrawn"
    assert run(["resume", "run", "--undo", "--approve"]) == 2  # one decision at a time
    assert run(["resume", "run", "--choose", "2:9"]) == 2
    assert "step 2 has no attempt 9" in capsys.readouterr().err
    assert run(["resume", "run", "--undo"]) == 0


def test_the_benchmark_of_a_package_is_run_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    folder = tmp_path / "site" / "brought-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[interleave.benchmarks]\nueval2 = brought:Own\nplain = brought:plain\n"
    )
    (folder.parent / "brought.py").write_text(
        "from interleave.bench.benchmarks.ueval import UEval\n\n\n"
        "class Own(UEval):\n    name = 'ueval2'\n\n\n"
        "def plain() -> int:\n    '''A command.'''\n    print('plain')\n    return 0\n"
    )
    monkeypatch.syspath_prepend(folder.parent)
    assert rewrite(["bench", "ueval2", "judge"])[0] == ["bench", "judge", "ueval2"]
    assert rewrite(["bench", "plain"]) == (["bench", "plain"], [])
    assert run(["bench", "plain"]) == 0
    assert capsys.readouterr().out == "plain\n"
    assert run(["bench", "--help"]) == 0
    listed = capsys.readouterr().out
    assert "plain" in listed and "ueval2" not in listed
    assert run(["bench", "run", "ueval2", "--data", "nowhere", "--out", "out"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_the_migration_page_names_every_old_spelling() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "migrate.md").read_text("utf-8")
    options = (option for renamed in OPTIONS.values() for option in renamed)
    olds = {*COMMANDS, *options, *ACTIONS}
    assert [old for old in olds if not re.search(rf"`[^`]*{re.escape(old)}\b", page)] == []
