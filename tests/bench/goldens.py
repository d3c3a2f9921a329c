"""Published numbers and what they were made from, under `goldens/` with their licences.

`viescore.json.gz` (TIGER-AI-Lab/VIEScore, MIT): the ratings of ImagenHub, one digit each in halves, by rater
and model in the order of the images, SC and PQ in turn; the stored scores of four judges, the lowest of
each reply as one digit ("a" is 10, "-" none); and what the authors' notebook printed for one of them.
`ueval.csv` (zlab-princeton/UEval, MIT): the leaderboard.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "goldens"


def viescore() -> Mapping[str, Any]:
    stored: Mapping[str, Any] = json.loads(gzip.decompress((FOLDER / "viescore.json.gz").read_bytes()))
    return stored


def write_ratings(stored: Mapping[str, Any], folder: Path) -> None:
    """The raters' sheets, as they lie in a checkout of VIEScore."""
    for task, part in stored["ratings"].items():
        target = folder / "ImagenHub_human_eval_results" / task
        target.mkdir(parents=True)
        for rater in range(3):
            lines = ["\t".join(["uid", *part["models"]])]
            for place, uid in enumerate(part["uids"]):
                cells = [_rating(raters[rater], place) for raters in part["models"].values()]
                lines.append("\t".join([uid, *cells]))
            (target / f"sheet_rater{rater + 1}.tsv").write_text("\n".join(lines) + "\n")


def _rating(digits: str, place: int) -> str:
    sc, pq = (int(digit) / 2 for digit in digits[2 * place : 2 * place + 2])
    return f"[{sc:g}, {pq:g}]"


def write_scores(stored: Mapping[str, Any], judge: str, folder: Path) -> None:
    """What a judge said, as upstream's `results_…` folders hold it."""
    for task, models in stored["scores"][judge].items():
        uids = stored["ratings"][task]["uids"]
        for model, scores in models.items():
            target = folder / task / model
            target.mkdir(parents=True)
            for kind, digits in scores.items():
                said = {
                    uid: {"score": [int(digit, 11)], "reasoning": ""}
                    for uid, digit in zip(uids, digits, strict=True)
                    if digit != "-"
                }
                (target / f"{kind}.json").write_text(json.dumps(said))
