"""verl: `compute_score` for `reward.custom_reward_function.path=…/trainers/verl.py`.

verl asks for one sample at a time and has no masked rewards: it needs a number. A neutral one would teach
that an outage is a fair result, so a failed sample is retried for a while. Then, with `failed=mark`, its
reward is a mark that the estimator in `verl_advantages.py` reads; without it, an error is raised. That ends
the step in verl's older trainer only: its default one (`trainer.use_v1`) drops the sample and learns from the
rest of its group. Rows are those of an export for verl.

verl passes on nothing but one float32 for a sample. To find out how many of the redraws needed have failed,
one must know which rewards come from a redraw and which samples have none. The last bit of the float32 is 1
for a redraw, which changes a reward by less than a ten millionth; a failure is a number that no formula
gives, small enough to leave means as they are.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Mapping
from typing import Any

from interleave.train.rewards.formula import Parts
from interleave.train.rewards.health import RewardUnhealthy
from interleave.train.rewards.samples import Case, Result, Sample
from interleave.train.trainers.shared import core_of, pauses, record_of, reward_loop, sample_of

log = logging.getLogger(__name__)

MARK = "mark"
"""The value of the option `failed` that goes with the estimator."""
PATIENCE_SECONDS = 600.0
FAILED = 2.0**-100
_FLOAT, _BITS = struct.Struct("<f"), struct.Struct("<I")
_SEMAPHORES: dict[int, asyncio.Semaphore] = {}


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, float]:
    """The reward of one reply as `score`, with its parts beside it."""
    record = {**_fields(ground_truth), **(extra_info or {})}
    sample = sample_of(record, options.get("images"))
    step = int(options.get("global_steps", record.get("global_steps", 0)) or 0)
    result = await reward_loop().join(_score_with_retries(sample, solution_str, step, options))
    if options.get("failed") == MARK:
        if result.total is None:
            log.warning("no reward for row %r: %s", sample.id, result.cause)
        score = marked(result.total, drawn=result.case is Case.REDRAWN)
        parts = dict.fromkeys(Parts.model_fields, 0.0)  # verl wants the same names from every sample
        return {"score": score, **parts, **record_of(result, sample)}
    if result.total is None:
        raise RewardUnhealthy(
            f"reward_unhealthy: no reward for row {sample.id!r} ({result.cause}), and verl cannot mask one. "
            "Fix the generator or the scorer; verl goes on from its last checkpoint. Its default trainer "
            "ends no step for this: launch/verl-grpo.sh has the settings that do"
        )
    return {"score": result.total, **record_of(result, sample)}


async def _score_with_retries(sample: Sample, reply: str, step: int, options: Mapping[str, Any]) -> Result:
    core = core_of(options)
    semaphore = _SEMAPHORES.setdefault(id(core), asyncio.Semaphore(core.concurrency))
    patience = float(options.get("patience", PATIENCE_SECONDS))
    result = await core.score(sample, reply, step=step, semaphore=semaphore)
    for pause in pauses(patience):
        if result.case is not Case.MASKED:
            break
        await asyncio.sleep(pause)
        result = await core.score(sample, reply, step=step, semaphore=semaphore)
    return result


def _fields(truth: Any) -> Mapping[str, Any]:
    if isinstance(truth, Mapping):
        return truth
    raise RewardUnhealthy(f"the ground truth is a {type(truth).__name__}: export the rows for verl again")


def marked(total: float | None, *, drawn: bool) -> float:
    """The number that stands for a reward, or for its failure."""
    if total is None:
        return FAILED
    bits: int = _BITS.unpack(_FLOAT.pack(total))[0]
    return float(_FLOAT.unpack(_BITS.pack(bits | 1 if drawn else bits & ~1))[0])


def unmarked(value: float) -> tuple[float | None, bool]:
    """The reward that a number stands for, None for a failure; and whether it comes from a redraw."""
    if value == FAILED:
        return None, False
    return value, bool(_BITS.unpack(_FLOAT.pack(value))[0] & 1)
