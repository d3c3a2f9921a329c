"""Modules that have moved: their old names still import, with a warning, until 1.0."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "interleave.agents.annotator": "interleave.robots.annotator",
    "interleave.agents.contact_sheets": "interleave.robots.contact_sheets",
    "interleave.agents.robot_check": "interleave.robots.sub_task_check",
    "interleave.robots.film_segments": "interleave.robots.video_segments",
    "interleave.robots.lerobot.films": "interleave.robots.lerobot.videos",
}


class MovedModules(MetaPathFinder, Loader):
    """Imports the module that an old name stands for; asked only when nothing else has that name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__
        new = MOVED[old]
        warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=2)
        sys.modules[old] = importlib.import_module(new)
