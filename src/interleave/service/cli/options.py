"""Options and checks shared by the commands that serve documents or work on them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave import ConfigurationError, MissingDependency
from interleave.plugin import locks

if TYPE_CHECKING:
    from interleave.plugin import runs

NEEDS = ("fastapi", "uvicorn", "python_multipart", "prometheus_client")

Folder = Annotated[Path, typer.Option("--runs", metavar="DIR", help="The folder of jobs, runs and API keys.")]
Host = Annotated[str, typer.Option(help="The address to listen on. A public one needs API keys.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for a free one.")]
Sign = Annotated[
    str,
    typer.Option(
        "--sign",
        metavar="KEY|self",
        help="Sign exports that ask for it, with a PEM file or your own key. [default: none]",
    ),
]
LogFormat = Annotated[str, typer.Option(metavar="text|json", help="The format of log lines.")]
LeaseSeconds = Annotated[
    float,
    typer.Option(
        min=1,
        help="With Postgres: seconds until another worker takes over jobs of a dead or hung one.",
    ),
]


def require_packages(extra: str = "serve") -> None:
    """Raise `MissingDependency` if the service lacks a package; `extra` installs it."""
    locks.require_locks()
    for package in NEEDS:
        if importlib.util.find_spec(package) is None:
            raise MissingDependency(
                f"the server needs the package {package!r}, which is not installed. "
                f'Install it with: pip install "interleavethinker[{extra}]"'
            )


def make_choices(dry_run: bool, profile: str | None, **given: object) -> runs.Choices:
    """Return the models and rules chosen on the command line."""
    from interleave.plugin import split_choices

    return split_choices({"profile": "dry-run" if dry_run else profile, **given})[0]


def require_models(chosen: runs.Choices, command: str) -> None:
    """Raise if a model lacks its package or key, before the address is announced. Loads nothing."""
    from interleave.plugin import backends, resolve

    config, _ = resolve(chosen)
    try:
        backends.require_backend(config.planner.parsed, "planner")
        backends.require_backend(config.critic.parsed, "critic")
        backends.require_backend(config.generator.parsed, "generator")
    except MissingDependency as error:
        raise MissingDependency(
            f"{error} (or run without models: interleave {command} --profile dry-run)"
        ) from None


def checked_key(given: str) -> str:
    """Return the key to sign with; raise now if it cannot be used, not at the first export."""
    if given:
        from interleave.provenance.keys import signing_key

        signing_key(given)
    return given


def shown_profile(profile: str) -> str:
    """Return the name of a profile that clients see: for a file, without its path."""
    return Path(profile).stem if profile.endswith(".toml") else profile


def check_log_format(given: str) -> None:
    if given not in ("text", "json"):
        raise ConfigurationError(f"--log-format {given}: text or json")


def checked_public_url(given: str | None) -> str | None:
    """Return the prefix of image addresses without a trailing slash."""
    if given is None:
        return None
    if not re.fullmatch(r"https?://[^\s/?#()]+(/[^\s?#()]*)?", given):
        raise ConfigurationError(f"--public-url {given}: write it as https://documents.example.com")
    return given.rstrip("/")


def ignored_parameters(options: list[str]) -> frozenset[str]:
    """Return the parameters of `--ignore`, which may be repeated or separated by commas."""
    from interleave.service.generator.parameters import NEVER_IGNORED

    names = frozenset(piece.strip() for each in options for piece in each.split(",") if piece.strip())
    for name in sorted(names & NEVER_IGNORED):
        raise ConfigurationError(
            f"--ignore {name}: the client would wait for events that never come; such requests are refused"
        )
    return names
