"""Skips as failures, for a machine that is meant to have everything: `make test-all STRICT=1`.

A test that skips because it has nothing to say here (another operating system, no GPU, a package that must
be absent) says so at the beginning of its reason. Every other skip is for something that can be installed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

NOT_MISSING = "does not apply: "
VARIABLE = "STRICT"
MISSING: Counter[str] = Counter()
"""The reasons of skips that became failures."""


def is_strict() -> bool:
    return os.environ.get(VARIABLE, "") not in ("", "0")


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test was skipped, without the words that pytest puts before it."""
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(said).removeprefix("Skipped: ")


def fail_what_is_missing(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure, unless it is no lack or the test is expected to fail."""
    if not is_strict() or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = reason_of(report)
    if not reason.startswith(NOT_MISSING):
        MISSING[reason] += 1
        report.outcome = "failed"
        report.longrepr = f"something that this test needs is missing: {reason}"


class StrictSkips:
    """The plugin of a strict session."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        fail_what_is_missing(report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, Any, Any]:
        report = yield
        fail_what_is_missing(report)
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if MISSING:
            terminalreporter.section("missing on this machine")
        for reason, number in sorted(MISSING.items()):
            terminalreporter.line(f"{reason} ({number})")
