"""The contract of backends, as checks that `interleave models check SPEC` runs.

A check has a name and an async function that tests a backend. Its result is passed, failed or skipped, with
the reason. Nothing here needs a test framework. In your test suite, each of these takes one line:

    contract.require(MyGenerator())
    @pytest.mark.parametrize("check", contract.checks_for("generator"), ids=str)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from interleave.diagnostics.contract.checks import Check, Known, Result, Status
from interleave.diagnostics.contract.generators import GENERATOR_CHECKS
from interleave.diagnostics.contract.vlms import VLM_CHECKS

__all__ = [
    "GENERATOR_CHECKS",
    "VLM_CHECKS",
    "Check",
    "Known",
    "Result",
    "Status",
    "checks_for",
    "examine",
    "require",
]


def checks_for(role: str, *, quick: bool = False) -> tuple[Check, ...]:
    """Return the checks for a backend in this role; `quick` omits those that need many calls."""
    checks = GENERATOR_CHECKS if role == "generator" else VLM_CHECKS
    return tuple(check for check in checks if not (quick and check.thorough))


async def examine(backend: object, known: Known, *, quick: bool = False) -> AsyncGenerator[Result]:
    """Run every check and yield its result; stop if the backend is unreachable."""
    has_answered = False
    for number, check in enumerate(checks_for(known.role, quick=quick)):
        result = await check.on(backend, known, has_answered=has_answered)
        has_answered |= number > 0 and result.status is Status.PASSED  # the first check makes no call
        yield result
        if result.unreachable:
            return


def require(backend: object, known: Known | None = None) -> None:
    """Raise an `AssertionError` that names every failed check of a backend."""
    known = known or Known(role="generator" if hasattr(backend, "generate") else "planner")

    async def broken() -> list[str]:
        return [
            f"{result.check}: {result.reason}"
            async for result in examine(backend, known)
            if result.status is Status.FAILED
        ]

    if found := asyncio.run(broken()):
        raise AssertionError("the contract is broken:\n" + "\n".join(found))
