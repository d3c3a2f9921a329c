"""`interleave backends check`: the contract, tried on a user's own backend in front of the user."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from interleave.errors import ConfigurationError
from interleave.text import count, visible

if TYPE_CHECKING:
    from rich.table import Table

    from interleave.backends.contract import Known, Result

MARKS = {"passed": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "dim")}
ROLES = ("generator", "planner", "critic", "scorer")


def check_backend(spec: str, role: str | None, *, quick: bool, json_output: bool) -> int:
    """Load the backend of a spec and try the contract of its role on it; returns the exit code."""
    role = role or _role_of(spec)
    results = try_backend(spec, role, quick=quick, show=not json_output)
    if json_output:
        print(json.dumps(summary(spec, role, results), ensure_ascii=False))
    return exit_code(results)


def try_backend(spec: str, role: str, *, quick: bool, show: bool) -> list[Result]:
    """Load the backend of a spec and try the contract of its role on it."""
    from interleave.backends.contract import Known
    from interleave.backends.registry import is_agent, load_generator, load_vlm
    from interleave.backends.retries import RetriedGenerator, RetriedVlm

    if role not in ROLES:
        raise ConfigurationError(f"--role {role!r} is none of {', '.join(ROLES)}")
    if is_agent(spec) and role != "generator":
        raise ConfigurationError(f"{spec!r} is a program and no model: there is nothing to check")
    backend: object
    if role == "generator":
        backend = RetriedGenerator(spec, load_generator(spec))
    else:
        backend = RetriedVlm(spec, load_vlm(spec, role))
    _say_price(backend)
    results = asyncio.run(_examine(backend, Known(role=role), quick))
    if show:
        _print(results)
    return results


def _say_price(backend: object) -> None:
    price = getattr(getattr(backend, "capabilities", None), "price_per_image", None)
    if price:
        _say(f"every picture of this check costs about ${price:.3f}; --quick draws fewer")


async def _examine(backend: object, known: Known, quick: bool) -> list[Result]:
    from interleave.backends.contract import checks_for, examine

    total = len(checks_for(known.role, quick=quick))
    _say(f"trying {count(total, 'promise')} of a {known.role}…")
    results: list[Result] = []
    async for result in examine(backend, known, quick=quick):
        results.append(result)
        _say(f"{len(results)} of {total}: {result.check}: {result.status}")
    return results


def _role_of(spec: str) -> str:
    """What a backend can be, where that is only one thing."""
    from interleave.backends.registry import AGENT_KINDS, find_backend
    from interleave.config.specs import parse_spec

    name = parse_spec(spec).name
    draws, answers = find_backend(name, "generator"), find_backend(name, *AGENT_KINDS)
    if draws and answers:
        raise ConfigurationError(
            f"{name!r} can draw and can answer: say which is meant with --role generator or --role planner"
        )
    return "planner" if answers else "generator"


def _print(results: list[Result]) -> None:
    from rich.console import Console

    Console(highlight=False).print(_table(results))
    by_status = [sum(result.status == status for result in results) for status in MARKS]
    print("{} passed, {} failed, {} skipped".format(*by_status))


def _table(results: list[Result]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "promise", "seconds", "what happened"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "seconds" else "left")
    for result in results:
        mark, style = MARKS[result.status]
        table.add_row(
            Text(mark, style=style),
            Text(result.check),
            Text(f"{result.seconds:.2f}"),
            Text(visible(result.reason)),
        )
    return table


def summary(spec: str, role: str, results: list[Result]) -> dict[str, object]:
    """What came of it, for programs."""
    return {
        "spec": spec,
        "role": role,
        "fits": exit_code(results) == 0,
        "checks": [asdict(result) for result in results],
    }


def exit_code(results: list[Result]) -> int:
    """0 when it fits, 1 when a promise is broken, 3 when it cannot be reached."""
    if any(result.unreachable for result in results):
        return 3
    return 1 if any(result.status == "failed" for result in results) else 0


def _say(message: str) -> None:
    print(" ".join(visible(message).split()), file=sys.stderr)
