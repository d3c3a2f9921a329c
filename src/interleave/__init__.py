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

if TYPE_CHECKING:  # `as` tells type checkers that a name is exported
    from interleave.agents.critic import Critic as Critic
    from interleave.agents.critic import CriticInput as CriticInput
    from interleave.agents.planner import Planner as Planner
    from interleave.agents.scorer import Scorer as Scorer
    from interleave.api import (
        LimitOptions as LimitOptions,
    )
    from interleave.api import (
        PlanOptions as PlanOptions,
    )
    from interleave.api import (
        RunOptions as RunOptions,
    )
    from interleave.api import (
        agenerate as agenerate,
    )
    from interleave.api import (
        agenerate_many as agenerate_many,
    )
    from interleave.api import (
        aresume as aresume,
    )
    from interleave.api import (
        generate as generate,
    )
    from interleave.api import (
        generate_many as generate_many,
    )
    from interleave.api import (
        plan as plan,
    )
    from interleave.api import (
        resume as resume,
    )
    from interleave.api import (
        stream as stream,
    )
    from interleave.api import (
        stream_many as stream_many,
    )
    from interleave.api import (
        stream_resume as stream_resume,
    )
    from interleave.backends.protocols import (
        GeneratorCapabilities as GeneratorCapabilities,
    )
    from interleave.backends.protocols import (
        ImageGenerator as ImageGenerator,
    )
    from interleave.backends.protocols import (
        ImageRequest as ImageRequest,
    )
    from interleave.backends.protocols import (
        Message as Message,
    )
    from interleave.backends.protocols import (
        Reply as Reply,
    )
    from interleave.backends.protocols import (
        Sampling as Sampling,
    )
    from interleave.backends.protocols import (
        VisionLanguageModel as VisionLanguageModel,
    )
    from interleave.backends.protocols import (
        VlmCapabilities as VlmCapabilities,
    )
    from interleave.backends.registry import (
        BackendInfo as BackendInfo,
    )
    from interleave.backends.registry import (
        load_generator as load_generator,
    )
    from interleave.backends.registry import (
        load_vlm as load_vlm,
    )
    from interleave.batches.batch import BatchSummary as BatchSummary
    from interleave.batches.batch import Ended as Ended
    from interleave.errors import (
        BackendError as BackendError,
    )
    from interleave.errors import (
        ConfigurationError as ConfigurationError,
    )
    from interleave.errors import (
        Failure as Failure,
    )
    from interleave.errors import (
        FolderInUse as FolderInUse,
    )
    from interleave.errors import (
        InputError as InputError,
    )
    from interleave.errors import (
        InterleaveError as InterleaveError,
    )
    from interleave.errors import (
        LimitReached as LimitReached,
    )
    from interleave.errors import (
        MissingDependency as MissingDependency,
    )
    from interleave.errors import (
        ReplyError as ReplyError,
    )
    from interleave.errors import (
        RunError as RunError,
    )
    from interleave.errors import (
        StorageError as StorageError,
    )
    from interleave.events import (
        Attempt as Attempt,
    )
    from interleave.events import (
        Drawn as Drawn,
    )
    from interleave.events import (
        Judged as Judged,
    )
    from interleave.events import (
        Planned as Planned,
    )
    from interleave.events import (
        StepFinished as StepFinished,
    )
    from interleave.pictures import read_picture as read_picture
    from interleave.runs.branch import branch_run as branch_run
    from interleave.runs.decisions import (
        change_generator as change_generator,
    )
    from interleave.runs.decisions import (
        choose_attempt as choose_attempt,
    )
    from interleave.runs.decisions import (
        redraw_step as redraw_step,
    )
    from interleave.runs.decisions import (
        release_plan as release_plan,
    )
    from interleave.runs.decisions import (
        undo_decision as undo_decision,
    )
    from interleave.runs.event_lines import EventLine as EventLine
    from interleave.runs.event_lines import read_event_line as read_event_line
    from interleave.runs.record import (
        RunRecord as RunRecord,
    )
    from interleave.runs.record import (
        comparable as comparable,
    )
    from interleave.runs.record import (
        read_record as read_record,
    )
    from interleave.runs.run import Event as Event
    from interleave.runs.run import RunResult as RunResult
    from interleave.runs.run import ShownStep as ShownStep
    from interleave.types import (
        Asset as Asset,
    )
    from interleave.types import (
        Finding as Finding,
    )
    from interleave.types import (
        GivenAsset as GivenAsset,
    )
    from interleave.types import (
        Outcome as Outcome,
    )
    from interleave.types import (
        Picture as Picture,
    )
    from interleave.types import (
        Plan as Plan,
    )
    from interleave.types import (
        PlanStep as PlanStep,
    )
    from interleave.types import (
        Request as Request,
    )
    from interleave.types import (
        Scores as Scores,
    )
    from interleave.types import (
        Slot as Slot,
    )
    from interleave.types import (
        Text as Text,
    )
    from interleave.types import (
        Verdict as Verdict,
    )

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
        "agenerate",
        "agenerate_many",
        "aresume",
        "generate",
        "generate_many",
        "plan",
        "resume",
        "stream",
        "stream_many",
        "stream_resume",
    ),
    "runs.branch": ("branch_run",),
    "runs.decisions": ("change_generator", "choose_attempt", "redraw_step", "release_plan", "undo_decision"),
    "runs.event_lines": ("EventLine", "read_event_line"),
    "runs.record": ("RunRecord", "comparable", "read_record"),
    "runs.run": ("Event", "RunResult", "ShownStep"),
    "types": (
        "Asset",
        "Finding",
        "GivenAsset",
        "Outcome",
        "Picture",
        "Plan",
        "PlanStep",
        "Request",
        "Scores",
        "Slot",
        "Text",
        "Verdict",
    ),
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
