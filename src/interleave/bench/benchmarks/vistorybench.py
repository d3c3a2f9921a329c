"""ViStoryBench: 80 stories of 4 to 30 shots, with images of their characters.

A story is one request: its shots in order, and its characters as assets. Upstream's judge marks every shot
from 0 to 4 for its setting, the characters' actions, and the camera. Upstream measures the identity of
characters with detectors and embeddings (CIDS), which are not included here. Our number `same` asks the judge
instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from interleave import ImagePart, InputError, Message, Text, read_image
from interleave.bench.base import (
    Answers,
    Benchmark,
    Context,
    Dataset,
    Item,
    ItemAsset,
    Judge,
    MissingOutput,
    Question,
)
from interleave.bench.benchmarks.image_files import copy_image, file_name
from interleave.bench.datasets import digest_of, field, read_object
from interleave.bench.numbers import Number, item_mean
from interleave.bench.outputs import Output, OutputPart
from interleave.bench.parsing import field_of, json_object, number_of
from interleave.plugin import Part, types

SHOT_FIELDS = {
    "plot": "Plot Correspondence",
    "scene": "Setting Description",
    "action": "Static Shot Description",
    "camera": "Shot Perspective Design",
}
JUDGED = ("scene", "action", "camera")
BEST = 4.0
IMAGES = (".png", ".jpg", ".jpeg", ".webp")
TIMESTAMP = "00000000-000000"
"""Upstream has a folder for every run of a story. Ours has a fixed name."""
_SHOT = re.compile(r"shot_([0-9]{1,4})\Z")
_NOT_IN_NAMES = re.compile(r"[^\w '.-]|_")


class ViStoryBench(Benchmark):
    """Three questions per shot, and one per character in it."""

    name = "vistorybench"
    title = "ViStoryBench"
    licence = "none stated"
    judge = Judge("gpt-4.1", "openai:gpt-4.1")
    checkout = "ViStory"
    about = (
        "align is the mean of scene, action and camera, 0 to 4, over the stories; same is our own "
        "question, not upstream's CIDS"
    )
    full_marks = BEST
    language = "en"

    def read(self, folder: Path) -> Dataset:
        paths = sorted(folder.glob("*/story.json")) or sorted(folder.glob("*/*/story.json"))
        if not paths:
            raise InputError(f"{folder} has no stories: expected 01/story.json, 02/story.json, …")
        items = tuple(self._item(path) for path in paths)
        shots = sum(len(item.facts["shots"]) for item in items)
        notes = [f"{len(items):,} stories, {shots:,} shots"]
        if len(items) != 80:
            notes.append("the whole benchmark has 80 stories")
        return Dataset(items, digest_of(paths), str(folder), tuple(notes))

    def _item(self, path: Path) -> Item:
        story = read_object(path)
        shots = [
            self._shot(shot, f"{path}: shot {number}")
            for number, shot in enumerate(field(story, "Shots", list, str(path)), start=1)
        ]
        if not shots:
            raise InputError(f"{path} has no shots")
        told = {key for shot in shots for key in shot["characters"]}
        characters = field(story, "Characters", dict, str(path))
        known: dict[str, ItemAsset] = {}
        for key, character in characters.items():
            asset = self._asset(path, key, character) if key in told else None
            if asset is not None and len(known) < types.MAX_REQUEST_ASSETS:
                known.setdefault(asset.name.lower(), asset)
        kind = story.get("Story_type")
        group = str(kind.get(self.language, "story")) if isinstance(kind, dict) else "story"
        return Item(
            path.parent.name,
            group,
            (_request(shots),),
            {"shots": shots, "assets": known},
            tuple(known.values()),
        )

    def _shot(self, shot: Any, where: str) -> dict[str, Any]:
        if not isinstance(shot, dict):
            raise InputError(f"{where} is not an object")
        found = {name: self._in_language(shot, label, str, where) for name, label in SHOT_FIELDS.items()}
        characters = self._in_language(shot, "Characters Appearing", list, where)
        return {**found, "characters": [str(each).strip() for each in characters]}

    def _in_language(self, shot: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
        return field(field(shot, name, dict, where), self.language, kind, f"{where}, {name!r}")

    def _asset(self, path: Path, key: str, character: Any) -> ItemAsset | None:
        """Return a character; `None` if a prompt cannot carry its name, or nothing is known of it."""
        described = character if isinstance(character, dict) else {}
        words = str(described.get(f"prompt_{self.language}") or "").strip()
        name = " ".join(_NOT_IN_NAMES.sub(" ", key).split())[:60].strip()
        folder = path.parent / "image" / file_name(key)
        images = sorted(each for each in folder.glob("*") if each.suffix.lower() in IMAGES)
        if not types.is_asset_name(name) or not (words or images):
            return None
        return ItemAsset(name, words, images[0] if images else None, key)

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        found = []
        for number, shot in enumerate(item.facts["shots"]):
            found += [f"{number}/{what}" for what in JUDGED]
            found += [f"{number}/same/{asset.name}" for asset in _shown(item, shot)]
        return found

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        number, what, *name = key.split("/", 2)
        place, shot = int(number), item.facts["shots"][int(number)]
        if output is None or len(output.images) <= place:
            raise MissingOutput(f"the output has no image {place + 1}")
        image = read_image(context.folder / output.images[place])
        if what == "same":
            asset = item.facts["assets"][name[0].lower()]
            asked = context.prompts.fill("same", who=asset.name, description=asset.description)
            seen: list[Part] = [Text(asked), ImagePart(read_image(asset.image)), ImagePart(image)]
        else:
            asked = context.prompts.fill(what, wanted=shot[what], names=", ".join(shot["characters"]))
            seen = [Text(asked), ImagePart(image)]
        return Question((Message("user", tuple(seen)),), read_mark)

    def criterion(self, key: str, item: Item) -> str:
        number, what, *name = key.split("/", 2)
        shot = item.facts["shots"][int(number)]
        said = f"is {name[0]} the same as in the reference?" if what == "same" else f"{what}: {shot[what]}"
        return f"Shot {int(number) + 1}, {said}"

    def worst(self, key: str) -> Any:
        return 0.0

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        shots = range(len(item.facts["shots"]))
        found = {what: _mean([answers[f"{number}/{what}"] for number in shots]) for what in JUDGED}
        same = [answers[key] for key in self.keys(item, None) if key.split("/")[1] == "same"]
        there = [mean for mean in found.values() if mean is not None]
        align = _mean(there) if len(there) == len(JUDGED) else None
        return {"align": align, **found, "same": _mean(same)}

    def numbers(self) -> Sequence[Number]:
        return [item_mean(name, name, digits=2, most=BEST) for name in ("align", *JUDGED, "same")]

    def export(self, dataset: Dataset, outputs: Mapping[str, Output], base: Path, folder: Path) -> None:
        """Write STORY/TIME/shot_01.png and so on, as upstream reads outputs."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, output in outputs.items():
            for number, image in enumerate(output.images, start=1):
                target = folder / file_name(name) / TIMESTAMP / f"shot_{number:02d}{Path(image).suffix}"
                copy_image(base / image, target)

    def import_outputs(self, dataset: Dataset, folder: Path) -> Iterator[Output]:
        for item in dataset.items:
            runs = sorted(each for each in (folder / file_name(item.id)).glob("*") if each.is_dir())
            shots = _shots_in(runs[-1]) if runs else {}
            if shots:
                if sorted(shots) != list(range(1, len(shots) + 1)):
                    raise InputError(
                        f"{runs[-1]}: shots are missing between shot_01 and shot_{max(shots):02d}"
                    )
                parts = tuple(OutputPart(image=str(shots[number].resolve())) for number in sorted(shots))
                yield Output(item=item.id, parts=parts)


def read_mark(reply: str) -> float:
    return number_of(field_of(json_object(reply), "score"), low=0, high=BEST, whole=True)


def _request(shots: Sequence[Mapping[str, Any]]) -> str:
    """Phrase the story as a user's request."""
    count = "one picture" if len(shots) == 1 else f"{len(shots)} pictures"
    lines = [f"Tell this story in {count}, one for every shot, in this order."]
    for number, shot in enumerate(shots, start=1):
        who = ", ".join(shot["characters"]) or "nobody"
        lines.append(
            f"\nShot {number}: {shot['plot']}\nIn the picture: {shot['action']}\nWho: {who}\n"
            f"Where: {shot['scene']}\nCamera: {shot['camera']}"
        )
    return "\n".join(lines)


def _shown(item: Item, shot: Mapping[str, Any]) -> list[ItemAsset]:
    """Return the characters of a shot that have an image."""
    assets = item.facts["assets"].values()
    return [asset for asset in assets if asset.image is not None and asset.key in shot["characters"]]


def _shots_in(run: Path) -> dict[int, Path]:
    """Return the images of a run by shot number. Some versions keep them in a subfolder."""
    for folder in (run / "shots", run / "image_outputs", run):
        found = {
            int(match[1]): path
            for path in sorted(folder.glob("shot_*"))
            if path.suffix.lower() in IMAGES and (match := _SHOT.match(path.stem))
        }
        if found:
            return found
    return {}


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None
