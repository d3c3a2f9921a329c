"""The libraries that read and write LeRobot datasets, imported at first use."""

from __future__ import annotations

import importlib
from typing import Any

from interleave import ConfigurationError


def _imported(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigurationError(
            f"{what} needs the package {name.partition('.')[0]!r}: pip install 'interleavethinker[robots]'"
        ) from None


def arrow() -> Any:
    return _imported("pyarrow", "a LeRobot dataset")


def parquet() -> Any:
    return _imported("pyarrow.parquet", "a LeRobot dataset")


def av() -> Any:
    return _imported("av", "a dataset with videos")
