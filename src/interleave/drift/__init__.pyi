"""Names of `interleave.drift` for rooms, as `drift` of `interleave.plugin`."""

from interleave.drift.control import apply_drift_control as apply_drift_control
from interleave.drift.measures import (
    StepDrift as StepDrift,
    difference as difference,
    step_drift as step_drift,
)
