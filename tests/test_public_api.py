"""The names that others build on do not change by accident."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import interleave

PUBLIC = [
    "branch_run",
    "change_generator",
    "choose_attempt",
    "redraw_step",
    "release_plan",
    "undo_decision",
    "ShownStep",
    "Event",
    "FolderInUse",
    "Asked",
    "Question",
    "Reading",
    "UnknownWords",
    "Failure",
    "RunOptions",
    "PlanOptions",
    "LimitOptions",
    "BatchSummary",
    "Ended",
    "StorageError",
    "generate_many",
    "stream_many",
    "Attempt",
    "BackendError",
    "BackendInfo",
    "ConfigurationError",
    "Critic",
    "CriticInput",
    "DocumentEnd",
    "DocumentModel",
    "Drawn",
    "RunResult",
    "GeneratorCapabilities",
    "ImageGenerator",
    "ImageRequest",
    "InputError",
    "InterleaveError",
    "Judged",
    "LimitReached",
    "Message",
    "MissingDependency",
    "Outcome",
    "ImagePart",
    "Plan",
    "PlanStep",
    "Planned",
    "Planner",
    "Reply",
    "ReplyError",
    "Asset",
    "Finding",
    "GivenAsset",
    "Request",
    "RunError",
    "RunRecord",
    "Sampling",
    "Scorer",
    "Scores",
    "Slot",
    "StepFinished",
    "Text",
    "Verdict",
    "VisionLanguageModel",
    "VlmCapabilities",
    "__version__",
    "comparable",
    "generate",
    "load_generator",
    "load_vlm",
    "plan",
    "read_image",
    "read_record",
    "resume",
    "stream",
    "agenerate",
    "agenerate_many",
    "aresume",
    "stream_resume",
    "EventLine",
    "read_event_line",
    "CallCounts",
    "RunEditor",
    "Spec",
    "edit",
    "export",
    "parse_spec",
    "read_markdown",
    "read_plan",
    "read_run",
    "show",
]


def test_the_public_names_are_these_and_no_others() -> None:
    assert sorted(interleave.__all__) == sorted(PUBLIC)


def test_every_public_name_is_there() -> None:
    for name in PUBLIC:
        assert getattr(interleave, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(interleave, "genrate")


def test_a_bare_import_brings_no_heavy_library() -> None:
    script = (
        "import sys, interleave, interleave.cli.main, interleave.train.cli.train; "
        "heavy = ('torch', 'transformers', 'diffusers', 'numpy', 'PIL', 'jinja2'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


FUNCTIONS = (
    *(interleave.generate, interleave.generate_many, interleave.plan, interleave.resume),
    *(interleave.agenerate, interleave.agenerate_many, interleave.aresume),
)


def test_options_reach_through_for_type_checkers() -> None:
    """Every option of a run is in the signatures, and every one of these is known at run time."""
    from interleave.config.run_config import Limits
    from interleave.runs.resolve import Choices

    known = {*Choices.__dataclass_fields__, *Limits.model_fields}
    assert set(interleave.RunOptions.__annotations__) == known
    assert set(interleave.LimitOptions.__annotations__) == set(Limits.model_fields)
    for function in FUNCTIONS:
        assert function.__annotations__["return"] in ("RunResult", "BatchSummary", "Plan")
        assert "Unpack" in str(function.__annotations__)


USER_CODE = """
import interleave

def draw(request: str) -> interleave.Plan:
    made: interleave.RunResult = interleave.generate(request, profile="dry-run", max_attempts=3)
    assert made.status == "done"
    return interleave.plan(request, planner="scripted")

interleave.generate("A frog", max_attempt=3)
"""


@pytest.mark.slow
def test_strict_type_checking_reaches_through_the_public_names(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER_CODE)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "user.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(Path(interleave.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    found = [line for line in checked.stdout.splitlines() if ": error:" in line]
    assert len(found) == 1 and "max_attempt" in found[0], checked.stdout
