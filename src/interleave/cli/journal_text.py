"""Lines of a journal in a reader's words, for those who watch a run from outside."""

from __future__ import annotations

from collections.abc import Iterator

from interleave.runs import journal as lines
from interleave.text import count, one_line
from interleave.types import Outcome


def tell(entry: lines.Entry) -> Iterator[str]:
    """What an entry of the journal says to a person; many say nothing that is worth a line."""
    match entry:
        case lines.Planned(plan=plan):
            yield f"plan: {count(len(plan.steps), 'step')}"
            for step in plan.steps:
                yield f"  {step.number}  {one_line(step.text or step.prompt or '')}"
        case lines.Drawn():
            yield f"step {entry.step}, attempt {entry.attempt}: drawn in {entry.seconds:.1f} s"
        case lines.Judged(verdict=verdict):
            words = {Outcome.ACCEPTED: "accepted", Outcome.REJECTED: "rejected"}
            yield f"step {entry.step}, attempt {entry.attempt}: {words.get(verdict.outcome, 'not readable')}"
        case lines.CallFailed():
            yield f"the {entry.role} failed: {one_line(entry.error, 200)}"
        case lines.Continued():
            yield "continued"
        case lines.Ended():
            yield f"{entry.status}: {one_line(entry.reason, 200)}" if entry.reason else entry.status
