"""Running the checks of a kind on a backend, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from interleave.backends.contract.checks import Check, Known, Result, Status
from interleave.backends.contract.generators import GENERATOR_CHECKS
from interleave.backends.contract.vlms import VLM_CHECKS


def checks_for(role: str, *, quick: bool = False) -> tuple[Check, ...]:
    """The checks a backend in this role must pass; `quick` leaves out those that need many calls."""
    checks = GENERATOR_CHECKS if role == "generator" else VLM_CHECKS
    return tuple(check for check in checks if not (quick and check.thorough))


async def examine(backend: object, known: Known, *, quick: bool = False) -> AsyncGenerator[Result]:
    """Try every check and yield how it ended; a backend that cannot be reached is not asked again."""
    for check in checks_for(known.role, quick=quick):
        result = await check.on(backend, known)
        yield result
        if result.unreachable:
            return


def require(backend: object, known: Known | None = None) -> None:
    """Raise `AssertionError` that names every broken promise of a backend: one line in a test of your own."""
    known = known or Known(role="generator" if hasattr(backend, "generate") else "planner")

    async def broken() -> list[str]:
        return [
            f"{result.check}: {result.reason}"
            async for result in examine(backend, known)
            if result.status is Status.FAILED
        ]

    if found := asyncio.run(broken()):
        raise AssertionError("the contract is broken:\n" + "\n".join(found))
