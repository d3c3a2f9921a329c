"""`interleave models check`: the contract checks, run on a backend or on all models of a profile."""

from __future__ import annotations

import asyncio
import io
import json
import pkgutil
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from interleave import ConfigurationError, MissingDependency, Request, load_generator, load_vlm
from interleave.diagnostics.contract import Known, Result, checks_for, examine
from interleave.plugin import (
    Output,
    RetriedVlm,
    Spec,
    backends,
    config,
    count,
    make_console,
    open_run,
    parse_spec,
    run_and_report,
    say,
    text,
)

if TYPE_CHECKING:
    from rich.table import Table

MARKS = {"passed": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "dim")}
ROLES = ("generator", "planner", "critic", "scorer")
PROFILE_ROLES = ("planner", "critic", "generator")
FAKES = ("solid", "scripted")
TINY_REQUEST = "How a frog grows up, in two pictures"


def check_backend(spec: str, role: str | None, *, quick: bool, json_output: bool) -> int:
    """Check the backend of a spec and print the results; return the exit code."""
    role = role_of(spec, role)
    results = run_checks(spec, role, quick=quick, show=not json_output)
    if json_output:
        print(json.dumps(_summary(spec, role, results), ensure_ascii=False))
    return _exit_code(results)


def check_profile(name: str, *, tiny: bool, quick: bool, json_output: bool) -> int:
    """Check every model of a profile; with `tiny`, check tiny models instead, and one complete run."""
    profile = config.load_profile(name)
    specs = {role: getattr(profile, role).as_spec(role) for role in PROFILE_ROLES}
    with TemporaryDirectory(prefix="interleave-") as folder:
        if tiny:
            specs = _tiny_specs(specs, Path(folder) / "models")
        checked = {
            role: run_checks(str(spec), role, quick=quick, show=not json_output)
            for role, spec in specs.items()
        }
        loop = _run_loop(specs, profile.prompts, Path(folder) / "run") if tiny else None
    codes = [_exit_code(results) for results in checked.values()]
    code = max(codes) if any(codes) else loop["code"] if loop else 0
    if json_output:
        summaries = [_summary(str(specs[role]), role, results) for role, results in checked.items()]
        print(
            json.dumps(
                {"profile": name, "tiny": tiny, "fits": code == 0, "backends": summaries, "loop": loop}
            )
        )
    elif loop:
        print(f"loop: {loop['status']}, {count(loop['pictures'], 'image')}, {loop['seconds']:.1f} s")
    return code


def run_checks(spec: str, role: str, *, quick: bool, show: bool) -> list[Result]:
    """Load the backend of a spec and run the checks of its role."""
    if backends.is_agent(spec) and role != "generator":
        raise ConfigurationError(f"{spec!r} is a program, not a model, and has no checks")
    asked = backends.shared_options(spec)
    backend: object
    if role == "generator":
        backend = backends.RetriedGenerator(spec, load_generator(spec))
    else:
        backend = RetriedVlm(spec, load_vlm(spec, role))
    _say_price(backend)
    known = Known(role=role, concurrency=asked.concurrency, timeout=asked.timeout)
    results = asyncio.run(_results(backend, known, quick))
    if show:
        _print(results)
    return results


def _say_price(backend: object) -> None:
    price = getattr(getattr(backend, "capabilities", None), "price_per_image", None)
    if price:
        say(f"every image of this check costs about ${price:.3f}; --quick generates fewer")


async def _results(backend: object, known: Known, quick: bool) -> list[Result]:
    total = len(checks_for(known.role, quick=quick))
    say(f"running {count(total, 'check')} of the {known.role}…")
    results: list[Result] = []
    async for result in examine(backend, known, quick=quick):
        results.append(result)
        say(f"{len(results)} of {total}: {result.check}: {result.status}")
    return results


def role_of(spec: str, role: str | None) -> str:
    """Return the role that was named, else the only one that the backend can have."""
    role = role or _role_of(spec)
    if role not in ROLES:
        raise ConfigurationError(f"--role {role!r} is not one of {', '.join(ROLES)}")
    return role


def _role_of(spec: str) -> str:
    """Return the role of a backend that can have only one."""
    name = parse_spec(spec).name
    draws, answers = (
        backends.find_backend(name, "generator"),
        backends.find_backend(name, *backends.AGENT_KINDS),
    )
    if draws and answers:
        raise ConfigurationError(
            f"{name!r} is both a generator and a model: choose with --role generator or --role planner"
        )
    return "planner" if answers else "generator"


def _print(results: list[Result]) -> None:
    make_console(stderr=False).print(_table(results))
    by_status = [sum(result.status == status for result in results) for status in MARKS]
    print("{} passed, {} failed, {} skipped".format(*by_status))


def _table(results: list[Result]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "check", "seconds", "reason"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "seconds" else "left")
    for result in results:
        mark, style = MARKS[result.status]
        table.add_row(
            Text(mark, style=style),
            result.check,
            f"{result.seconds:.2f}",
            text.visible(result.reason),
        )
    return table


def _summary(spec: str, role: str, results: list[Result]) -> dict[str, object]:
    """Return the results for `--json`."""
    return {
        "spec": spec,
        "role": role,
        "fits": _exit_code(results) == 0,
        "checks": [asdict(result) for result in results],
    }


def _exit_code(results: list[Result]) -> int:
    """Return 0 if all checks pass, 1 if one fails, 3 if the backend cannot be reached."""
    if any(result.unreachable for result in results):
        return 3
    return 1 if any(result.status == "failed" for result in results) else 0


def _tiny_specs(specs: dict[str, Spec], folder: Path) -> dict[str, Spec]:
    """Build tiny models of the same classes below a folder; return their specs. Fakes stay unchanged."""
    return {role: _tiny_spec(spec, role, folder) for role, spec in specs.items()}


def _tiny_spec(spec: Spec, role: str, folder: Path) -> Spec:
    row = backends.find_backend(spec.name, "generator" if role == "generator" else "vlm")
    if row is not None and row.missing:
        raise MissingDependency(
            f"the {role} {spec.name!r} needs the package {row.missing[0]!r}. Install it with: {row.install}"
        )
    if row is not None and row.tiny:
        built: Spec = pkgutil.resolve_name(row.tiny)(spec, role, folder)
        say(f"{role}: a tiny {spec.model or spec.name}")
        return built
    if spec.name in FAKES:
        return spec
    raise ConfigurationError(
        f"no tiny model can be built of the {role} {str(spec)!r}: --tiny needs a model in this process"
    )


def _run_loop(specs: dict[str, Spec], prompts: str, folder: Path) -> dict[str, Any]:
    """Run one request with these models, like `interleave generate --json`."""
    planner, critic, generator = (str(specs[role]) for role in PROFILE_ROLES)
    out = io.StringIO()
    with redirect_stdout(out):
        code = run_and_report(
            lambda: open_run(
                Request.of(TINY_REQUEST),
                planner=planner,
                critic=critic,
                generator=generator,
                prompts=prompts,
                out=folder,
            ),
            output=Output(json=True),
            open_document=False,
            fail_on_forced=False,
        )
    made = json.loads(out.getvalue())
    images = [step["image"] for step in made["steps"] if step["image"]]
    whole = all((folder / image).is_file() for image in images) and (folder / "document.html").is_file()
    return {
        "code": code or (0 if whole and images else 1),
        "status": made["status"],
        "pictures": len(images),
        "calls": made["calls"],
        "seconds": made["seconds"],
    }
