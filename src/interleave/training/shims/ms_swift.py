"""ms-swift: a reward plugin, for `--external_plugins …/shims/ms_swift.py --reward_funcs interleave`.

It is called with the replies of a batch and a list for each column of the rows, which are those of
`interleave data export --format swift`. None masks a sample: ms-swift leaves it out of the group's mean.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from interleave.training.shims.shared import core_of, reward_loop, sample_of

COLUMNS = ("id", "planned_prompt", "used_prompt", "sources", "success", "semantics", "quality")
PLACES = ("swift.rewards", "swift.plugin")
"""Where releases of ms-swift keep their table of rewards."""


class InterleaveReward:
    """The reward of each reply, or None where it could not be got."""

    def __init__(self, args: Any = None, **options: Any) -> None:
        self.options = options

    def __call__(self, completions: Sequence[str], **columns: Any) -> list[float | None]:
        samples = [
            sample_of({name: columns[name][index] for name in COLUMNS if name in columns})
            for index in range(len(completions))
        ]
        step = int(getattr(columns.get("trainer_state"), "global_step", 0) or 0)
        core = core_of(self.options)
        results = reward_loop().wait(core.score_all(samples, list(completions), step=step))
        return [result.total for result in results]


def register() -> bool:
    """Put the reward into ms-swift's table, where it is installed."""
    for place in PLACES:
        try:
            table = importlib.import_module(place).orms
        except (ImportError, AttributeError):
            continue
        table["interleave"] = InterleaveReward
        return True
    return False


register()
