"""What every backend must do, as checks that anybody can run on their own: `interleave backends check SPEC`.

A check is a named promise and an async function that tries it on a backend; it ends as passed, failed or
skipped, with the reason. Nothing here knows a test framework. In a test suite of your own, one line each:

    contract.require(MyGenerator())
    @pytest.mark.parametrize("check", contract.checks_for("generator"), ids=str)
"""

from __future__ import annotations

from interleave.backends.contract.checks import Check, Known, Result, Status
from interleave.backends.contract.generators import GENERATOR_CHECKS
from interleave.backends.contract.running import checks_for, examine, require
from interleave.backends.contract.vlms import VLM_CHECKS

__all__ = [
    "GENERATOR_CHECKS",
    "VLM_CHECKS",
    "Check",
    "Known",
    "Result",
    "Status",
    "checks_for",
    "examine",
    "require",
]
