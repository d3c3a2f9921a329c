"""Public names that are imported on first use. The stub of a module lists them."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interleave.moved import renamed


def lazy_names(module: str, file: str) -> tuple[list[str], Callable[[str], Any]]:
    """Return the names in the stub of a module, and a `__getattr__` that imports them."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text("utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    origins = {alias.name: node.module or "" for node in imports for alias in node.names}

    def get(name: str) -> Any:
        if name not in origins and (new := renamed(module, name)) is not None:
            name = new
        if name not in origins:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(origins[name]), name)
        except AttributeError:  # a module itself
            return importlib.import_module(f"{origins[name]}.{name}")

    return sorted(origins), get
