"""Files that benchmarks read from elsewhere: CoMM's pickled data, the judgements of UEval's script."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

from fuzzing import attempt, scratch, target
from interleave.bench.base import STATUSES, Dataset, Item
from interleave.bench.benchmarks.comm import CoMMDocument
from interleave.bench.benchmarks.ueval import UEval
from interleave.bench.comm_data import Converted, convert

ROW: dict[str, Any] = {
    "data_id": "a",
    "title": "Fold a boat",
    "step_info": [
        [
            {"type": "text", "content": "Fold it."},
            {"type": "image", "url": "http://x/1.png", "image_path": "w/1.png"},
        ]
    ],
}


def pickled_seeds() -> list[bytes]:
    rows: list[Any] = [[ROW], {"a": ROW}, [ROW, {**ROW, "data_id": 2, "summary_info": "ä"}]]
    return [pickle.dumps(value, protocol) for value in rows for protocol in (0, 2, 5)]


@target(
    pickled_seeds,
    words=(b"cposix\nsystem\n", b"R.", b"\x93", b"\x81", b"P1\n", b"Q", b"../../x", b"image_path"),
    examples=40,
)
def comm_pickle(data: bytes) -> bool:
    """A pickle is data, or refused; nothing is run, and no image gets a path outside the folder."""
    with scratch() as folder:
        (folder / "test.pth").write_bytes(data)
        made = attempt(lambda: convert(folder / "test.pth", folder / "out"))
        if not isinstance(made, Converted):
            return False
        for name in made.urls:
            assert name and not Path(name).is_absolute() and ".." not in Path(name).parts
        for line in made.path.read_bytes().splitlines():
            assert isinstance(json.loads(line), dict)
        attempt(lambda: CoMMDocument().read(folder / "out"))
        return True


ITEM = Item("0", "art", (), {"question": "q", "text": ("a", "b"), "image": ("c",)})
RESULT = {
    "items": [
        {
            "id": 0,
            "text_results": [{"criteria_met": True}, {"criteria_met": "not sure"}],
            "image_results": [{"criteria_met": "no"}],
        }
    ]
}


@target([json.dumps(RESULT).encode()], words=(b"null", b"[]", b'"0"', b"1e999"), examples=30)
def ueval_judgements(data: bytes) -> bool:
    """A record has a value that is true or false, or a reason why it has none."""
    with scratch() as folder:
        (folder / "results.json").write_bytes(data)
        dataset = Dataset((ITEM,), "r", "tests")
        found = attempt(lambda: list(UEval().import_judgements(dataset, folder / "results.json")))
        for record in found or ():
            assert record.status in STATUSES and record.key in UEval().keys(ITEM, None)
            assert isinstance(record.value, bool) if record.status == "ok" else record.reason
        return bool(found)
