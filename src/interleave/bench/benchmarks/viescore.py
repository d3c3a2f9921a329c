"""VIEScore's test of judges: agreement of image scores with three human raters of ImagenHub.

Seven tasks, 29 models, about 4,800 images. For each model the judge's scores are correlated with the mean of
the raters (Spearman). Models are averaged within tasks, then tasks. The published numbers take tanh of the
mean of raw correlations (`…_notebook`); the mean through Fisher's z differs, and is higher.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleave import InputError, read_image
from interleave.bench.base import (
    Answers,
    Benchmark,
    Context,
    Dataset,
    Item,
    Judge,
    JudgeRecord,
    Question,
    Unparsed,
)
from interleave.bench.benchmarks import vie
from interleave.bench.datasets import digest_of, read_cells, read_object
from interleave.bench.judge import NO_OUTPUT
from interleave.bench.numbers import Number, Table
from interleave.bench.outputs import Output
from interleave.bench.statistics import fisher_mean, group_spearman, tanh_mean

RATERS = 3
LOOKUP = "dataset_lookup.json"
GUESSED = "guess_if_cannot_parse"
"""The reason that upstream writes for an invented score."""
MEASURES = ("SC", "PQ", "O")


@dataclass(frozen=True)
class Task:
    """One of ImagenHub's tasks."""

    kind: str
    """VIEScore's short name, as in its prompts."""
    asked: str
    """The field of the museum's index with the instruction."""
    models: tuple[str, ...]
    """The judged models. Raters have seen two more, Imagic and SuTI."""
    shown: tuple[str, ...] = ("input",)
    """Folders of the images that the judge sees before the result."""


TASKS = {
    "ImagenHub_Text-Guided_IG": Task(
        "t2i", "prompt", ("DALLE2", "DeepFloydIF", "OpenJourney", "SD", "SDXL"), ()
    ),
    "ImagenHub_Text-Guided_IE": Task(
        "tie",
        "instruction",
        (
            "CycleDiffusion",
            "DiffEdit",
            "InstructPix2Pix",
            "MagicBrush",
            "Pix2PixZero",
            "Prompt2prompt",
            "SDEdit",
            "Text2Live",
        ),
    ),
    "ImagenHub_Mask-Guided_IE": Task(
        "mie", "instruction", ("BlendedDiffusion", "Glide", "SDInpaint", "SDXLInpaint")
    ),
    "ImagenHub_Control-Guided_IG": Task("cig", "text", ("ControlNet", "UniControl")),
    "ImagenHub_Subject-Driven_IG": Task(
        "sdig", "prompt", ("BLIPDiffusion_Gen", "DreamBooth", "DreamBoothLora", "TextualInversion")
    ),
    "ImagenHub_Subject-Driven_IE": Task(
        "sdie", "subject", ("BLIPDiffusion_Edit", "DreamEdit", "PhotoSwap"), ("input", "token")
    ),
    "ImagenHub_Multi-Concept_IC": Task(
        "msdig", "prompt", ("CustomDiffusion", "DreamBooth", "TextualInversion")
    ),
}
MODELS = sum(len(task.models) for task in TASKS.values())


class VIEScore(Benchmark):
    """Two questions per image. The numbers are correlations with people."""

    name = "viescore"
    title = "VIEScore on ImagenHub"
    licence = "MIT (ratings); images: see ImagenHub"
    judge = Judge("gpt-4o-2024-05-13", "openai:gpt-4o-2024-05-13")
    official_prompts = vie.official_places("viescore/vie_prompts.py")
    tests = "critics"
    about = (
        "correlations with three raters, averaged through Fisher's z; …_notebook is what VIEScore publishes: "
        "tanh of the mean of raw correlations, which is lower"
    )

    def read(self, folder: Path) -> Dataset:
        rated = sorted(folder.rglob("*_rater[1-9].tsv"))
        if not rated:
            raise InputError(f"{folder} has no *_rater1.tsv: give VIEScore's _human_annotations")
        museum = {path.parent.name: path.parent for path in folder.rglob(LOOKUP)}
        items: list[Item] = []
        for name, task in TASKS.items():
            sheets = [_ratings(path) for path in rated if path.parent.name == name]
            if sheets and len(sheets) != RATERS:
                raise InputError(f"{folder}: {name} has {len(sheets)} raters, not {RATERS}")
            if sheets:
                items += _items(name, task, sheets, museum.get(name))
        models = len({item.group for item in items})
        notes = [f"{len(items):,} images of {models} models, each with {RATERS} raters"]
        if models != MODELS:
            notes.append(f"the whole benchmark has {MODELS} models")
        if without := sum(item.facts["asked"] is None for item in items):
            notes.append(f"{without:,} have no prompt or image here: their judgements can only be imported")
        return Dataset(tuple(items), digest_of(rated), str(folder), tuple(notes))

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return vie.KEYS

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        if item.facts["asked"] is None:
            raise InputError(
                f"{item.id}: the prompt is not in the data. Put ImagenHub's museum (TASK/{LOOKUP}, "
                "TASK/input/…, TASK/MODEL/…) next to the ratings"
            )
        images = [read_image(path) for path in item.parts if isinstance(path, Path)]
        if key == vie.PQ:
            return vie.pq_question(context.prompts, images[-1])
        return vie.sc_question(context.prompts, item.facts["kind"], item.facts["asked"], images)

    def worst(self, key: str) -> Any:
        return [0]

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        ours = vie.three_scores(answers[vie.SC], answers[vie.PQ])
        found = {name: None if score is None else score / vie.HIGHEST for name, score in ours.items()}
        return {**found, **{f"human_{name}": score for name, score in item.facts["human"].items()}}

    def item_score(self, measures: Mapping[str, float | None]) -> float | None:
        """Return the closeness of judge and raters: a correlation is undefined for one image."""
        ours, theirs = measures["O"], measures["human_O"]
        return None if ours is None or theirs is None else 1 - abs(ours - theirs)

    def numbers(self) -> Sequence[Number]:
        order = ("O", "SC", "PQ")
        return [
            *(_correlation(f"{name}_spearman", name, fisher_mean) for name in order),
            *(_correlation(f"{name}_spearman_notebook", name, tanh_mean) for name in order),
        ]

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        """Read a `results_…` folder: TASK/MODEL/SC.json and PQ.json, by image name."""
        stored: dict[tuple[str, str], Mapping[str, Any]] = {}
        for group in dict.fromkeys(item.group for item in dataset.items):
            for key in vie.KEYS:
                file = path / group / f"{key.upper()}.json"
                if file.exists():
                    stored[group, key] = read_object(file)
        if not stored:
            raise InputError(f"{path} has no TASK/MODEL/SC.json: give one of VIEScore's results_… folders")
        for item in dataset.items:
            uid = item.id.rsplit("/", 1)[1]
            for key in vie.KEYS:
                if (entry := stored.get((item.group, key), {}).get(uid)) is not None:
                    yield _imported(item, key, entry)


def _imported(item: Item, key: str, entry: Any) -> JudgeRecord:
    if not isinstance(entry, dict) or "score" not in entry:
        raise InputError(f"{item.id}: {key.upper()}.json has no 'score' for it")
    said = str(entry.get("reasoning") or "")
    value, failure = None, "upstream picked a random score" if said.startswith(GUESSED) else ""
    if not failure:
        try:
            value = vie.scores_of(entry["score"])
        except Unparsed as error:
            failure = str(error)
    return JudgeRecord(
        item=item.id,
        key=key,
        output=NO_OUTPUT,
        status="unparsed" if failure else "ok",
        value=value,
        reply=said,
        reason=failure,
        tries=1,
        judge="imported",
    )


def _items(name: str, task: Task, sheets: Sequence[Mapping[str, Any]], museum: Path | None) -> Iterator[Item]:
    index = read_object(museum / LOOKUP) if museum is not None else {}
    first = sheets[0]
    for model in task.models:
        for uid, row in first.items():
            if model not in row:
                break  # a subset of the data, without this model
            try:
                ratings = [sheet[uid][model] for sheet in sheets]
            except KeyError:
                raise InputError(f"{name}: not all raters have rated {model}/{uid}") from None
            entry = index.get(uid)
            asked = entry.get(task.asked) if isinstance(entry, Mapping) else None
            paths: list[Path] = []
            if museum is not None:
                paths = [museum / folder / uid for folder in (*task.shown, model)]
            there = isinstance(asked, str) and all(path.exists() for path in paths)
            yield Item(
                f"{name}/{model}/{uid}",
                f"{name}/{model}",
                tuple(paths) if there else (),
                {
                    "kind": task.kind,
                    "asked": _said(task.kind, str(asked)) if there else None,
                    "human": _human(ratings),
                },
            )


def _said(kind: str, asked: str) -> str:
    """Return the instruction, without the delimiters of ImagenHub's prompts."""
    if kind == "sdie":
        return asked.replace("_", " ")
    return asked.replace("<token> ", "") if kind == "sdig" else asked


def _human(ratings: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Return the means over raters. The overall rating is the geometric mean of each rater's two."""
    count = len(ratings)
    return {
        "SC": sum(sc for sc, _ in ratings) / count,
        "PQ": sum(pq for _, pq in ratings) / count,
        "O": sum(math.sqrt(sc * pq) for sc, pq in ratings) / count,
    }


def _ratings(path: Path) -> dict[str, dict[str, tuple[float, float]]]:
    """Read one rater's sheet, by image and model."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for number, row in enumerate(read_cells(path, delimiter="\t"), start=2):
        uid = row.pop("uid", None)
        if not uid or uid in found:
            raise InputError(f"{path}:{number}: 'uid' is {uid!r}")
        found[uid] = {model: _rating(cell, f"{path}:{number}") for model, cell in row.items()}
    return found


def _rating(cell: Any, where: str) -> tuple[float, float]:
    try:
        sc, pq = json.loads(cell)
        if {sc, pq} <= {0, 0.5, 1}:
            return float(sc), float(pq)
    except (TypeError, ValueError):
        pass
    raise InputError(f"{where}: {cell!r:.40} is not a rating such as [0.5, 1]")


Averaged = Callable[[Iterable[float]], float]


def _correlation(name: str, measure: str, mean: Averaged) -> Number:
    def aggregate(table: Table) -> float:
        return task_mean(model_correlations(table, measure), mean)

    return Number(name, aggregate, 1.0, 4, (measure,))


def model_correlations(table: Table, measure: str) -> dict[str, float]:
    """Return Spearman's correlation with the raters by task and model; NaN if a side is constant."""
    import numpy as np

    ours, human = table.columns[measure], table.columns[f"human_{measure}"]
    there = ~np.isnan(ours)
    found = group_spearman(ours[there], human[there], table.groups[there], len(table.names))
    return dict(zip(table.names, found.tolist(), strict=True))


def task_mean(correlations: Mapping[str, float], mean: Averaged) -> float:
    """Define the mean over tasks of the mean over their models."""
    tasks: dict[str, list[float]] = {}
    for name, correlation in correlations.items():
        tasks.setdefault(name.split("/")[0], []).append(correlation)
    return mean([mean(models) for models in tasks.values()])
