"""ms-swift: a reward plugin, for `--external_plugins …/trainers/ms_swift.py --reward_funcs interleave`.

ms-swift calls it with the replies of a batch and one list per column of the rows, as written by
`interleave data export --format swift`. ms-swift counts a reward of None as 0, the worst possible reward. So
a failed sample gets the mean of its group and has advantage zero. A group with many failures gets its mean
throughout, and a step in which more than a tenth of all redraws failed ends with an error. If a group spans
several processes, the mean is that of its part in this one. GRPO of ms-swift needs the package msgspec, which
it does not install.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from interleave.train.trainers.shared import core_of, filled_step, reward_loop, sample_of

COLUMNS = ("id", "planned_prompt", "used_prompt", "sources", "success", "semantics", "quality")
PLACES = ("swift.rewards", "swift.plugin")
"""Modules in which releases of ms-swift keep their table of rewards."""


class InterleaveReward:
    """Reward function: the reward of each reply, or its group's mean if it failed."""

    def __init__(self, args: Any = None, **options: Any) -> None:
        self.options = options

    def __call__(self, completions: Sequence[str], **columns: Any) -> list[float]:
        images = self.options.get("images")
        samples = [
            sample_of({name: columns[name][index] for name in COLUMNS if name in columns}, images)
            for index in range(len(completions))
        ]
        step = int(getattr(columns.get("trainer_state"), "global_step", 0) or 0)
        core = core_of(self.options)
        results = reward_loop().wait(core.score_all(samples, list(completions), step=step))
        return filled_step(samples, results, "ms-swift")


def register() -> bool:
    """Add the reward to ms-swift's table, if ms-swift is installed."""
    for place in PLACES:
        try:
            table = importlib.import_module(place).orms
        except (ImportError, AttributeError):
            continue
        table["interleave"] = InterleaveReward
        return True
    return False


register()
