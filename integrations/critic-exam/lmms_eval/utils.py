"""Functions of `critic_exam.yaml`; only pillow is needed besides lmms-eval."""

from pathlib import Path
from typing import Any

from PIL import Image

FOLDER = Path("runs/critic-exam").absolute()
PREFIX = "critic_exam"


def images(doc: dict[str, Any]) -> list[Image.Image]:
    return [Image.open(FOLDER / doc[which]).convert("RGB") for which in ("before", "after")]


def question(doc: dict[str, Any], lmms_eval_specific_kwargs: dict[str, Any] | None = None) -> str:
    return str(doc["question"])


def target(doc: dict[str, Any]) -> str:
    return "yes" if doc["right"] else "no"


def results(doc: dict[str, Any], answers: list[str]) -> dict[str, float]:
    """Compare the first word of the answer; an answer without yes or no is wrong.

    A metric is computed over the pairs that have it: faults that are caught, right pairs that are rejected.
    """
    words = answers[0].lower().replace("*", " ").strip(" .!\"'\n").split()
    answer = words[0].strip(".,:;!\"'") if words else ""
    rejected = float(answer == "no")
    found = {f"{PREFIX}_accuracy": float(answer == target(doc))}
    found[f"{PREFIX}_false_alarms" if doc["right"] else f"{PREFIX}_caught"] = rejected
    return found
