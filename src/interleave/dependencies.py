"""Which steps of a plan come after which: what may be drawn at once, and what a picture is drawn over."""

from __future__ import annotations

from collections.abc import Mapping

from interleave.types import Plan, PlanStep

Needs = Mapping[int, frozenset[int]]
"""The steps that must be finished before each step begins, by its number."""


def named_needs(plan: Plan) -> dict[int, tuple[int, ...]]:
    """The steps that each step comes after, in the plan's words: without any, the step before it."""
    first = plan.steps[0].number
    return {step.number: _named(step, first) for step in plan.steps}


def _named(step: PlanStep, first: int) -> tuple[int, ...]:
    if step.needs is not None:
        return step.needs
    return (step.number - 1,) if step.number > first else ()


def parents_of(plan: Plan) -> dict[int, tuple[int, ...]]:
    """The steps with pictures that each step comes after; a step of text passes on those that it has."""
    parents: dict[int, tuple[int, ...]] = {}
    drawn = {step.number for step in plan.steps if step.prompt is not None}
    for number, named in named_needs(plan).items():
        found = [each for need in named for each in ((need,) if need in drawn else parents[need])]
        parents[number] = tuple(dict.fromkeys(found))
    return parents


def ancestors_of(plan: Plan) -> dict[int, frozenset[int]]:
    """The steps with pictures that each step comes after, directly or through others."""
    parents, found = parents_of(plan), dict[int, frozenset[int]]()
    for number, direct in parents.items():
        found[number] = frozenset(direct).union(*(found[each] for each in direct))
    return found


def roots_of(plan: Plan) -> dict[int, int]:
    """The step with which the line of pictures that each step belongs to begins."""
    roots: dict[int, int] = {}
    for number, direct in parents_of(plan).items():
        roots[number] = roots[direct[-1]] if direct else number
    return roots


def in_line(needs: Needs) -> dict[int, frozenset[int]]:
    """The same needs, with all steps that hang together one after another.

    A run that may go back to an earlier step needs it: another step must not have been drawn over a picture
    that is drawn again.
    """
    part = {number: number for number in needs}

    def part_of(number: int) -> int:
        while part[number] != number:
            part[number] = part[part[number]]
            number = part[number]
        return number

    for number, needed in needs.items():
        for each in needed:
            part[part_of(number)] = part_of(each)
    last: dict[int, int] = {}
    lined: dict[int, frozenset[int]] = {}
    for number in sorted(needs):
        mine = part_of(number)
        lined[number] = needs[number] | ({last[mine]} if mine in last else frozenset())
        last[mine] = number
    return lined
