"""verl: `compute_score` for `reward.custom_reward_function.path=…/trainers/verl.py`.

verl scores one sample per call and cannot mask rewards: it needs a number. A neutral one would reward an
outage, so a failed sample is retried for a while. Then, with `failed=mark`, its reward is a marker that the
estimator in `verl_advantages.py` reads; without it, an error is raised. The error ends the step only in
verl's older trainer. Its default one (`trainer.use_v1`) drops the sample and learns from the rest of its
group. Rows are those of an export for verl.

verl passes on only one float32 per sample. To compute the failed share of the redraws needed, the estimator
must know which rewards come from a redraw and which samples failed. The last bit of the float32 is 1 for a
redraw, which changes a reward by less than 1e-7. A failure is a number that no formula returns, small enough
not to affect means.
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
"""Value of the option `failed` for use with the estimator."""
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
    """Return the reward of one reply as `score`, with its parts."""
    record = {**_fields(ground_truth), **(extra_info or {})}
    sample = sample_of(record, options.get("images"))
    step = int(options.get("global_steps", record.get("global_steps", 0)) or 0)
    result = await reward_loop().join(_score_with_retries(sample, solution_str, step, options))
    if options.get("failed") == MARK:
        if result.total is None:
            log.warning("no reward for row %r: %s", sample.id, result.cause)
        score = marked(result.total, drawn=result.case is Case.REDRAWN)
        parts = dict.fromkeys(Parts.model_fields, 0.0)  # verl requires the same names from every sample
        return {"score": score, **parts, **record_of(result, sample)}
    if result.total is None:
        raise RewardUnhealthy(
            f"reward_unhealthy: no reward for row {sample.id!r} ({result.cause}), and verl cannot mask one. "
            "Fix the generator or the scorer; verl resumes from its last checkpoint. Its default trainer "
            "does not end the step: use the settings in launch/verl-grpo.sh"
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
    """Encode a reward, or its failure, as a number."""
    if total is None:
        return FAILED
    bits: int = _BITS.unpack(_FLOAT.pack(total))[0]
    return float(_FLOAT.unpack(_BITS.pack(bits | 1 if drawn else bits & ~1))[0])


def unmarked(value: float) -> tuple[float | None, bool]:
    """Decode a number into a reward, None for a failure, and whether it comes from a redraw."""
    if value == FAILED:
        return None, False
    return value, bool(_BITS.unpack(_FLOAT.pack(value))[0] & 1)
