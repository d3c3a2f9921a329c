"""EasyR1 (upstream): `compute_score` for `worker.reward.reward_function=…/trainers/easyr1.py:compute_score`.

EasyR1 calls it with a batch of records, each with `response`, `response_length` and `ground_truth`, the JSON
written by `interleave data export --format easyr1`. EasyR1 cannot mask rewards. A failed sample gets the mean
of its group's valid rewards, so that its advantage is zero and the others keep their mean; only the spread of
the group shrinks slightly. A group with many failures gets its mean throughout, so its advantages are zero. A
batch in which more than a tenth of all redraws failed ends with an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from interleave import InputError
from interleave.train.trainers.shared import core_of, filled_step, record_of, reward_loop, sample_of

REWARD_NAME = "interleave"
REWARD_TYPE = "batch"

_calls = 0


def compute_score(reward_inputs: Sequence[Mapping[str, Any]], **options: Any) -> list[dict[str, float]]:
    """Return the reward of each reply as `overall`, with its parts."""
    global _calls
    _calls += 1  # one call per training step; it determines the seeds of the redraws
    truths = [_truth(each["ground_truth"]) for each in reward_inputs]
    samples = [sample_of(truth, options.get("images")) for truth in truths]
    replies = [str(each["response"]) for each in reward_inputs]
    core = core_of(options)
    results = reward_loop().wait(core.score_all(samples, replies, step=_calls))
    totals = filled_step(samples, results, "EasyR1")
    return [
        {"overall": total, **record_of(result, sample)}
        for total, result, sample in zip(totals, results, samples, strict=True)
    ]


def _truth(value: Any) -> Mapping[str, Any]:
    try:
        truth = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        truth = None
    if not isinstance(truth, Mapping):
        raise InputError(f"the ground truth {value!r:.80} is not the JSON of an export for EasyR1")
    return truth
