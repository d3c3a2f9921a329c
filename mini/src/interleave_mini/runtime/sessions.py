"""ONNX graphs: opened with the weights beside them, and called with arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interleave import ConfigurationError
from interleave_mini.runtime.weight_files import DIGEST_KEY, weights_digest

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
MAX_THREADS = 4
"""Threads of one graph: its products are too small for more."""


class Graph:
    """One graph in memory."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = min(MAX_THREADS, os.cpu_count() or 1)
        options.log_severity_level = 4  # errors are raised below
        # Idle threads that spin take the cores from the other graphs, and from other programs.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        except Exception as error:  # the library raises types of its own, of which none is public
            reason = str(error).strip().splitlines()[0][:300]
            raise ConfigurationError(
                f"{path} cannot be loaded ({reason}): reinstall interleavethinker-mini, or run "
                "`interleave mini onnx` if the weights are new"
            ) from None
        exported_for = self._session.get_modelmeta().custom_metadata_map.get(DIGEST_KEY)
        if exported_for != weights_digest(path.parent):
            raise ConfigurationError(
                f"{path} was exported for other weights than those in its folder: run `interleave mini onnx`"
            )
        self._names = [each.name for each in self._session.get_inputs()]

    def __call__(self, *inputs: NDArray[Any]) -> Sequence[Floats]:
        """Return the outputs for these inputs, both in the order of the graph."""
        outputs: Sequence[Floats] = self._session.run(None, dict(zip(self._names, inputs, strict=True)))
        return outputs
