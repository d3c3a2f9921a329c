"""Which attempt of a step counts: policies by name, each a plain function of two attempts.

A policy is folded over the attempts of a step in their order. It is named in a profile (`choose = "last"`),
with `--choose`, and in the configuration of a run; options follow the name as in a spec:
`first-unless-better?margin=0.2`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from inspect import signature
from typing import Any, Protocol, TypeVar

from interleave.errors import did_you_mean
from interleave.types import Verdict

DEFAULT_CHOICE = "best"
MARGIN = 0.1


class HasVerdict(Protocol):
    @property
    def number(self) -> int: ...
    @property
    def verdict(self) -> Verdict | None: ...


Judgeable = TypeVar("Judgeable", bound=HasVerdict)


class Policy(Protocol):
    """The attempt that counts, of the one that counted so far and the next one."""

    def __call__(self, best: Judgeable | None, latest: Judgeable) -> Judgeable: ...


def best_attempt(best: Judgeable | None, latest: Judgeable) -> Judgeable:
    """The accepted one; else the one with the higher confidence; else the latest."""
    if best is None or _accepted(latest):
        return latest
    before, now = _confidence(best), _confidence(latest)
    if before is None:
        return latest
    return latest if now is not None and now >= before else best


def first_unless_better(best: Judgeable | None, latest: Judgeable, *, margin: float = MARGIN) -> Judgeable:
    """The first, unless a later one is accepted with a confidence that is higher by the margin.

    Where the critic gives no confidence, its acceptance is enough.
    """
    if best is None:
        return latest
    before, now = _confidence(best), _confidence(latest)
    clear = before is None or now is None or now >= before + margin
    return latest if _accepted(latest) and clear else best


def last_attempt(best: Judgeable | None, latest: Judgeable) -> Judgeable:
    """The latest, whatever the critic says."""
    return latest


POLICIES: Mapping[str, Callable[..., Any]] = {
    DEFAULT_CHOICE: best_attempt,
    "first-unless-better": first_unless_better,
    "last": last_attempt,
}


@cache
def policy_named(text: str) -> Policy:
    """The policy of a name with options; raises `ValueError` for one that does not exist."""
    name, _, query = text.partition("?")
    if name not in POLICIES:
        raise ValueError(f"no way to choose is named {name!r}. {did_you_mean(name, POLICIES)}")
    policy = POLICIES[name]
    known = [each for each in signature(policy).parameters if each not in ("best", "latest")]
    options: dict[str, float] = {}
    for piece in query.split("&") if query else ():
        key, _, value = piece.partition("=")
        if key not in known:
            raise ValueError(f"{name!r} has no option {key!r}. {did_you_mean(key, known)}")
        options[key] = _share(key, value)
    return partial(policy, **options) if options else policy


def checked_choice(text: str) -> str:
    """The name itself, where it names a policy."""
    policy_named(text)
    return text


def _share(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ValueError(f"{key!r} must be a number from 0 to 1, not {value!r:.40}")
    return number


def _accepted(attempt: HasVerdict) -> bool:
    return attempt.verdict is not None and attempt.verdict.accepted


def _confidence(attempt: HasVerdict) -> float | None:
    return attempt.verdict.confidence if attempt.verdict else None
