"""Interleaved text-and-image generation for any image generator: plan, draw, judge, redraw.

>>> import interleave
>>> run = interleave.generate("How a frog grows up, in three pictures", profile="dry-run")  # doctest: +SKIP
>>> run.document  # doctest: +SKIP
PosixPath('runs/20261115-120000-how-a-frog-grows-up-in-three-pictures/document.html')
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from interleave.version import __version__

if TYPE_CHECKING:
    from interleave.agents.critic import Critic, CriticInput
    from interleave.agents.planner import Planner
    from interleave.agents.scorer import Scorer
    from interleave.api import (
        LimitOptions,
        PlanOptions,
        RunOptions,
        generate,
        generate_many,
        plan,
        resume,
        stream,
        stream_many,
    )
    from interleave.backends.protocols import (
        GeneratorCapabilities,
        ImageGenerator,
        ImageRequest,
        Message,
        Reply,
        Sampling,
        VisionLanguageModel,
        VlmCapabilities,
    )
    from interleave.backends.registry import BackendInfo, load_generator, load_vlm
    from interleave.batches.batch import BatchSummary, Ended
    from interleave.errors import (
        BackendError,
        ConfigurationError,
        Failure,
        FolderInUse,
        InputError,
        InterleaveError,
        LimitReached,
        MissingDependency,
        ReplyError,
        RunError,
        StorageError,
    )
    from interleave.events import Attempt, Drawn, Judged, Planned, StepFinished
    from interleave.pictures import read_picture
    from interleave.runs.record import RunRecord, comparable, read_record
    from interleave.runs.run import Event, RunResult, ShownStep
    from interleave.types import Outcome, Picture, Plan, PlanStep, Request, Scores, Slot, Text, Verdict

_MODULES = {
    "agents.critic": ("Critic", "CriticInput"),
    "agents.planner": ("Planner",),
    "agents.scorer": ("Scorer",),
    "backends.protocols": (
        "GeneratorCapabilities",
        "ImageGenerator",
        "ImageRequest",
        "Message",
        "Reply",
        "Sampling",
        "VisionLanguageModel",
        "VlmCapabilities",
    ),
    "backends.registry": ("BackendInfo", "load_generator", "load_vlm"),
    "errors": (
        "BackendError",
        "ConfigurationError",
        "Failure",
        "FolderInUse",
        "InputError",
        "InterleaveError",
        "LimitReached",
        "MissingDependency",
        "ReplyError",
        "RunError",
        "StorageError",
    ),
    "events": ("Attempt", "Drawn", "Judged", "Planned", "StepFinished"),
    "pictures": ("read_picture",),
    "batches.batch": ("BatchSummary", "Ended"),
    "api": (
        "LimitOptions",
        "PlanOptions",
        "RunOptions",
        "generate",
        "generate_many",
        "plan",
        "resume",
        "stream",
        "stream_many",
    ),
    "runs.record": ("RunRecord", "comparable", "read_record"),
    "runs.run": ("Event", "RunResult", "ShownStep"),
    "types": ("Outcome", "Picture", "Plan", "PlanStep", "Request", "Scores", "Slot", "Text", "Verdict"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["__version__", *sorted(_MODULE_OF)]


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first used, so that `import interleave` costs nothing."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'interleave' has no attribute {name!r}")
    return getattr(importlib.import_module(f"interleave.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
