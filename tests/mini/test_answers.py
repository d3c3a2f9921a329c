"""The runtime's answers to thousands of requests and plans are those that were recorded."""

from __future__ import annotations

import pytest
from answers import answer, recorded

PARTS = 8


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))]
)
def test_requests_and_plans_are_answered_as_recorded(part: int) -> None:
    cases = recorded()[part::PARTS]
    assert len(cases) > 500
    assert [case for case in cases if answer(case) != case["answer"]] == []
