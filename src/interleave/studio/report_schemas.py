"""The JSON of reports as types."""

from __future__ import annotations

from typing import Literal

from interleave.plugin import Value

ReportKind = Literal["benchmark", "data", "training", "other"]


class Report(Value):
    """A page that a command has written."""

    folder: str
    """The name of its folder here; with `path` it is what a link names."""
    path: str
    title: str
    kind: ReportKind
    changed_at: int
    bytes: int
    address: str
    """What stands before the path of a file of this folder; it is taken for some hours."""
    beside: list[str]
    """The paths of JSON files beside it."""


class Reports(Value):
    """`GET /v1/studio/reports`."""

    object: Literal["list"] = "list"
    data: list[Report]
    total: int
    folders: list[str]
    """The folders that are looked through."""
