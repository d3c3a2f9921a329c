"""Whether rewards can still be trusted: too many failures, for too long, end the training in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from interleave.errors import BackendError

MOST_FAILURES = 0.10
STEPS_RUNNING = 3


class RewardUnhealthy(BackendError):
    """Rewards failed too often; what was learned so far is saved, and the same command goes on."""


class Health:
    """Counts failures step by step."""

    def __init__(self, most: float = MOST_FAILURES, steps: int = STEPS_RUNNING) -> None:
        self.most = most
        self.steps = steps
        self.bad_steps = 0
        """How many steps in a row were bad, up to now."""
        self.causes: Counter[str] = Counter()

    def step(self, failed: int, samples: int, causes: Iterable[str] = ()) -> float:
        """Take note of a step; returns its share of failures."""
        rate = failed / samples if samples else 0.0
        self.bad_steps = self.bad_steps + 1 if rate > self.most else 0
        self.causes = self.causes + Counter(causes) if self.bad_steps else Counter()
        return rate

    @property
    def unhealthy(self) -> bool:
        return self.bad_steps >= self.steps

    def complaint(self) -> RewardUnhealthy:
        """What to tell the user."""
        common = self.causes.most_common(1)
        why = f" Most often: {common[0][0]}." if common else ""
        return RewardUnhealthy(
            f"reward_unhealthy: more than {self.most:.0%} of the rewards failed in {self.steps} steps "
            f"running.{why} The state is saved: mend the generator or the scorer, then give the same command"
        )
