"""The kernels for a single row compute what `decode_layer` computes."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).with_name("single_row_check.py")


@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="does not apply: no Triton, which comes with torch for CUDA",
)
def test_kernels_compute_a_layer_and_the_logits() -> None:
    ran = subprocess.run(
        [sys.executable, str(CHECK)],
        env={**os.environ, "TRITON_INTERPRET": "1"},  # read when Triton is imported
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
