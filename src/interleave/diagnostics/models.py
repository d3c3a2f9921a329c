"""`interleave models`: list the backends and profiles, check one, manage prompt packs."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from typing import Annotated, Any

import typer

from interleave import ConfigurationError
from interleave.diagnostics.check_backend import check_backend, check_profile, role_of
from interleave.plugin import backends, cli, config, lazy_command, lazy_group, options

COMMANDS = {
    "list": lazy_command("interleave.diagnostics.models:list_models", "List backends and profiles."),
    "check": lazy_command(
        "interleave.diagnostics.models:check", "Check whether a backend keeps its contract."
    ),
    "prompts": cli.Row(lambda: cli.prompt_packs, "List, show and import prompt packs."),
}
app = typer.Typer(
    cls=lazy_group(lambda: COMMANDS),
    help="List and check models and prompt packs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _models() -> None:
    """List and check models and prompt packs."""


def list_models(json_output: options.Json = False) -> int:
    """List the image generators, vision-language models, agents and profiles."""
    rows = _rows()
    if json_output:
        print(json.dumps(rows, ensure_ascii=False))
    else:
        _print(rows)
    return 0


def check(
    spec: Annotated[
        str | None,
        typer.Argument(
            metavar="SPEC", autocompletion=options.complete_spec, help="A backend, e.g. 'solid?size=256'."
        ),
    ] = None,
    role: Annotated[
        str | None,
        typer.Option(metavar="ROLE", help="Check it as generator, planner, critic or scorer."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Skip the checks that need many calls.")] = False,
    profile: options.ProfileName = None,
    tiny: Annotated[
        bool,
        typer.Option("--tiny", help="With --profile: check tiny models of the same classes, and one run."),
    ] = False,
    report: Annotated[
        bool,
        typer.Option(
            "--report", help="Also try its work on small tasks, and write one file to send to us; no secrets."
        ),
    ] = False,
    max_cost: Annotated[
        float, typer.Option(metavar="USD", min=0, help="With --report: the maximum cost.")
    ] = 1.0,
    max_seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="With --report: the maximum time.")
    ] = 600.0,
    json_output: options.Json = False,
) -> int:
    """Check whether a backend keeps its contract. Exits with 1 if a check fails, 3 if it is unreachable.

    With --profile NAME, all three models of a profile are checked. With --tiny as well, tiny models of the
    same classes are built with random weights, checked, and run together once. Nothing is downloaded.
    """
    if profile is not None:
        if spec is not None or role is not None:
            raise ConfigurationError(
                "--profile names all three models: drop SPEC and --role, or drop --profile"
            )
        if report:
            raise ConfigurationError("--report tries one model: name it instead of --profile")
        return check_profile(profile, tiny=tiny, quick=quick, json_output=json_output)
    if tiny:
        raise ConfigurationError("--tiny goes with --profile NAME")
    if spec is None:
        raise ConfigurationError("name a backend, e.g. 'solid?size=256', or a profile with --profile NAME")
    if report:
        from interleave.diagnostics.report import report_on

        chosen = role_of(spec, role)
        return report_on(spec, chosen, max_cost=max_cost, max_seconds=max_seconds, json_output=json_output)
    return check_backend(spec, role, quick=quick, json_output=json_output)


def _rows() -> list[dict[str, Any]]:
    return [
        {
            "kind": kind,
            "name": name,
            "ready": not row.missing,
            "summary": row.summary,
            "install": row.install,
            "missing": list(row.missing),
            "key": row.key,
            "key_is_set": bool(row.key and os.environ.get(row.key)),
        }
        for kind in backends.GROUPS
        for name, row in backends.known_backends(kind).items()
    ]


HEADINGS = {
    "generator": "Image generators (--generator)",
    "vlm": "Vision-language models (--planner, --critic, --scorer)",
    "agent": "Agents that compute, native systems (--planner, --critic, --scorer)",
    "profile": "Profiles (--profile)",
}
LEAST_COLUMNS = 60
"""A narrower terminal wraps lines by itself."""


def _missing(row: dict[str, Any]) -> str:
    """Return what is needed before it can be used, in a few words; empty if it is ready."""
    if not row["ready"]:
        return f"(needs {row['install']}) "
    return f"({row['key']} is not set) " if row["key"] and not row["key_is_set"] else ""


def _print(rows: list[dict[str, Any]]) -> None:
    listed = [(row["kind"], row["name"], _missing(row) + row["summary"]) for row in rows]
    listed += [
        ("profile", name, config.load_profile(name).description) for name in sorted(config.profile_files())
    ]
    width = max(len(name) for _, name, _ in listed)
    wrapper = textwrap.TextWrapper(
        width=max(LEAST_COLUMNS, shutil.get_terminal_size().columns),
        subsequent_indent=" " * (width + 4),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for kind, heading in HEADINGS.items():
        print(heading)
        for _, name, said in (each for each in listed if each[0] == kind):
            print(wrapper.fill(f"  {name:{width}}  {said}"))
        print()
    print("Check one with: interleave models check SPEC")
