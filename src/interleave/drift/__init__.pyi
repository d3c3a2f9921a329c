"""What rooms may use of `interleave.drift`, as `drift` of `interleave.plugin`."""

from interleave.drift.control import improved as improved
from interleave.drift.measures import (
    StepDrift as StepDrift,
    difference as difference,
    step_drift as step_drift,
)
