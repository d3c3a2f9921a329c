"""A run of the doubles with a fixed seed equals the one that is committed, whatever machine it runs on.

When a change to this record is meant, write it anew: python tests/runs/test_golden.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

import interleave

GOLDEN = Path(__file__).parent / "golden" / "frog.json"


def golden_run(folder: Path) -> dict[str, Any]:
    given = Image.linear_gradient("L").resize((96, 64)).convert("RGB")
    request = ["How a frog grows up", given, "Go on, in five pictures: eggs, tadpole, legs, <image>, 🐸"]
    interleave.generate(request, out=folder, seed=7, max_attempts=3)
    return interleave.comparable(folder)


def test_the_golden_run_is_as_it_was(tmp_path: Path) -> None:
    assert golden_run(tmp_path / "run") == json.loads(GOLDEN.read_text("utf-8"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        record = golden_run(Path(scratch) / "run")
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", "utf-8")
