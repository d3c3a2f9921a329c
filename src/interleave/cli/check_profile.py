"""`interleave backends check --profile`: all models of a profile; with `--tiny` toys of them, and a loop."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from interleave.cli.check_backend import exit_code, summary, try_backend
from interleave.errors import ConfigurationError
from interleave.text import count

if TYPE_CHECKING:
    from interleave.config.specs import Spec

ROLES = ("planner", "critic", "generator")
REQUEST = "How a frog grows up, in two pictures"


def check_profile(name: str, *, tiny: bool, quick: bool, json_output: bool) -> int:
    """Try the contract on every model of a profile; returns the exit code."""
    from interleave.config.profiles import load_profile

    profile = load_profile(name)
    specs = {role: getattr(profile, role).as_spec(role) for role in ROLES}
    with TemporaryDirectory(prefix="interleave-") as folder:
        if tiny:
            specs = _toys(specs, Path(folder) / "models")
        tried = {
            role: try_backend(str(spec), role, quick=quick, show=not json_output)
            for role, spec in specs.items()
        }
        loop = _run_loop(specs, profile.prompts, Path(folder) / "run") if tiny else None
    codes = [exit_code(results) for results in tried.values()]
    code = max(codes) if any(codes) else loop["code"] if loop else 0
    if json_output:
        backends = [summary(str(specs[role]), role, results) for role, results in tried.items()]
        print(
            json.dumps({"profile": name, "tiny": tiny, "fits": code == 0, "backends": backends, "loop": loop})
        )
    elif loop:
        print(f"loop: {loop['status']}, {count(loop['pictures'], 'picture')} drawn, {loop['seconds']:.1f} s")
    return code


def _toys(specs: dict[str, Spec], folder: Path) -> dict[str, Spec]:
    from interleave.backends.registry import find_backend
    from interleave.errors import MissingDependency

    for role, spec in specs.items():
        row = find_backend(spec.name, "generator" if role == "generator" else "vlm")
        if row is not None and row.missing:
            raise MissingDependency(
                f"the {role} {spec.name!r} needs the package {row.missing[0]!r}. "
                f"Install it with: {row.install}"
            )
    from interleave.backends.tiny.toys import left_out, toy_spec

    toys = {}
    for role, spec in specs.items():
        for option in left_out(spec):
            print(f"{role}: {option} needs a GPU and is left out here", file=sys.stderr)
        toys[role] = toy_spec(spec, role, folder)
        print(f"{role}: a toy of {spec.model or spec.name}", file=sys.stderr)
    return toys


def _run_loop(specs: dict[str, Spec], prompts: str, folder: Path) -> dict[str, Any]:
    """One whole run through the command line."""
    from interleave.cli.main import run

    models = [argument for role, spec in specs.items() for argument in (f"--{role}", str(spec))]
    out = io.StringIO()
    with redirect_stdout(out):
        code = run(["generate", REQUEST, *models, "--prompts", prompts, "--out", str(folder), "--json"])
    if not out.getvalue().strip():
        raise ConfigurationError("the run could not be started")
    made = json.loads(out.getvalue())
    pictures = [step["image"] for step in made["steps"] if step["image"]]
    whole = all((folder / image).is_file() for image in pictures) and (folder / "document.html").is_file()
    return {
        "code": code or (0 if whole and pictures else 1),
        "status": made["status"],
        "pictures": len(pictures),
        "calls": made["calls"],
        "seconds": made["seconds"],
    }
