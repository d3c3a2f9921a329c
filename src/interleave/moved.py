"""Old names of modules and their contents. They work with a warning until 1.0."""

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
    "interleave.backends.contract": "interleave.diagnostics.contract",
    "interleave.backends.deadlines": "interleave.backends.concurrency",
    "interleave.backends.generators": "interleave.remote",
    "interleave.backends.generators.diffusers": "interleave.local.diffusers_generator",
    "interleave.backends.generators.families": "interleave.local.families",
    "interleave.backends.generators.gemini": "interleave.remote.gemini_images",
    "interleave.backends.generators.http": "interleave.remote.http_generator",
    "interleave.backends.generators.solid": "interleave.backends.fakes",
    "interleave.backends.local": "interleave.local",
    "interleave.backends.qwen3_vl": "interleave.local.qwen3_vl",
    "interleave.backends.remote": "interleave.remote",
    "interleave.backends.tiny": "interleave.local.tiny",
    "interleave.backends.vlms": "interleave.remote",
    "interleave.backends.vlms.gemini": "interleave.remote.gemini_vlm",
    "interleave.backends.vlms.openai": "interleave.remote.openai_vlm",
    "interleave.backends.vlms.scripted": "interleave.backends.fakes",
    "interleave.backends.vlms.transformers": "interleave.local.transformers_vlm",
    "interleave.benchmarks": "interleave.bench",
    "interleave.calibration": "interleave.bench.calibration",
    "interleave.data": "interleave.train.data",
    "interleave.drift.embeddings": "interleave.local.embeddings",
    "interleave.judging": "interleave.bench",
    "interleave.judging.agreement": "interleave.bench.rater_agreement",
    "interleave.pictures": "interleave.images",
    "interleave.plugins": "interleave.entry_points",
    "interleave.render.exports.archive": "interleave.books.web",
    "interleave.render.exports.book": "interleave.books.book",
    "interleave.render.exports.epub": "interleave.books.epub",
    "interleave.render.exports.fonts": "interleave.books.fonts",
    "interleave.render.exports.pdf": "interleave.books.pdf",
    "interleave.render.exports.pptx": "interleave.books.pptx",
    "interleave.robots.film_segments": "interleave.robots.video_segments",
    "interleave.robots.lerobot.films": "interleave.robots.lerobot.videos",
    "interleave.training": "interleave.train",
}

RENAMED = {
    "interleave.Picture": "ImagePart",
    "interleave.read_picture": "read_image",
    "interleave.plugin.PictureStore": "ImageStore",
}


def renamed(module: str, name: str) -> str | None:
    """Warn and return the new name of a renamed public name. `None` if it was not renamed."""
    new = RENAMED.get(f"{module}.{name}")
    if new is not None:
        warnings.warn(f"{module}.{name} is now {module}.{new}", DeprecationWarning, stacklevel=3)
    return new


def new_name(old: str) -> str | None:
    """Return the new name of a module that moved itself or with its package, else `None`."""
    parts = old.split(".")
    for length in range(len(parts), 1, -1):
        if (moved := MOVED.get(".".join(parts[:length]))) is not None:
            return ".".join([moved, *parts[length:]])
    return None


class MovedModules(MetaPathFinder, Loader):
    """Importer of moved modules by their old names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if new_name(fullname) else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__
        new = new_name(old) or old
        warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=2)
        sys.modules[old] = importlib.import_module(new)
