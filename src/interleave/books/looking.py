"""Where things are in the images of a run, and what the images show: by a reader or the critic's model.

A package may register a reader for the images of its generator in the entry-point group `interleave.readers`:
an object with `describe(image)` and `point(image, phrase)`, which return `None` if they are not sure.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any, Protocol

from PIL.Image import Image

from interleave import (
    ImagePart,
    InputError,
    Message,
    Reply,
    ReplyError,
    RunRecord,
    RunResult,
    Sampling,
    Text,
    VisionLanguageModel,
    edit,
    load_vlm,
    parse_spec,
    read_record,
)
from interleave.plugin import ImageStore, RetriedVlm, ask, entry_points, load_pack, runs

DESCRIBE = (
    "Describe this image in one sentence of at most 30 words for a person who cannot see it: "
    'only what is visible, no interpretation. Reply with JSON: {"description": "…"}'
)
POINT = (
    'Where in this image is: {phrase}? Reply with JSON: {{"x": 0-1000 from the left, '
    '"y": 0-1000 from the top, "sure": true or false}} for its centre. '
    'Use "sure": false if it is not there or there are several.'
)
_OBJECT = re.compile(r"\{[^{}]*\}")


class Reader(Protocol):
    """What tells where things are in an image, and what it shows; `None` if it is not sure."""

    def describe(self, image: Image) -> str | None: ...

    def point(self, image: Image, phrase: str) -> tuple[float, float] | None: ...


class ModelReader:
    """A vision-language model as a reader."""

    def __init__(self, vlm: VisionLanguageModel, pack: str) -> None:
        self.vlm = RetriedVlm("the reader", vlm)
        self.pack = load_pack(pack)

    def describe(self, image: Image) -> str | None:
        return str(self._asked(image, DESCRIBE, ("description",))["description"]).strip() or None

    def point(self, image: Image, phrase: str) -> tuple[float, float] | None:
        found = self._asked(image, POINT.format(phrase=phrase), ("x", "y", "sure"))
        try:
            x, y = float(found["x"]) / 1000, float(found["y"]) / 1000
        except (TypeError, ValueError):
            return None
        return (x, y) if found["sure"] is True and 0 <= x <= 1 and 0 <= y <= 1 else None

    def _asked(self, image: Image, question: str, keys: tuple[str, ...]) -> dict[str, Any]:
        def read(reply: Reply) -> dict[str, Any]:
            match = _OBJECT.search(reply.text)
            try:
                value = json.loads(match.group()) if match else None
            except ValueError:
                value = None
            if not isinstance(value, dict) or not set(keys) <= value.keys():
                raise ReplyError(f"no JSON with {', '.join(keys)}", reply=reply.text)
            return value

        messages = [Message("user", (ImagePart(image), Text(question)))]
        return asyncio.run(ask(self.vlm, messages, read, sampling=Sampling(), pack=self.pack))


def own_reader(record: RunRecord) -> Reader | None:
    """Return the reader that the package of a run's generator registers; `None` if there is none."""
    point = entry_points.installed("readers").get(parse_spec(record.config.generator.spec).name)
    if point is None:
        return None
    reader: Reader = entry_points.load(point, f"the reader {point.name!r}")
    return reader


def reader_for(record: RunRecord, critic: str | None) -> Reader:
    """Return the reader of a run's images: the given model, the generator's reader, or the critic."""
    if critic is None:
        if (own := own_reader(record)) is not None:
            return own
        if record.config.critic is None:
            raise InputError("this run has no critic: name a model with --critic")
        critic = record.config.critic.spec
    return ModelReader(load_vlm(critic, "critic"), record.config.prompts.name)


def look(folder: Path, *, critic: str | None = None, by: str = "") -> RunResult:
    """Write alternative texts that describe the images, and the points of lettering, into the words of a run.

    Words of a person are kept, and so are points. What the reader is not sure of stays as it is.
    """
    record = read_record(folder)
    reader, store = reader_for(record, critic), ImageStore(folder)
    layer = record.words
    steps = []
    for step in runs.as_shown(record).steps:
        shown, number = step.record.attempt, step.record.plan.number
        if shown is None:
            continue
        image = store.get(shown.image)
        changes: dict[str, Any] = {"number": number}
        if (layer is None or layer.of(number).alt is None) and (seen := reader.describe(image)):
            changes["alt"] = seen[:1000]
        lettering = [_pointed(each.model_dump(mode="json"), reader, image) for each in step.lettering]
        if lettering:
            changes["lettering"] = lettering
        steps.append(changes)
    return edit(folder, by=by).words(document={"steps": steps})


def _pointed(letters: dict[str, Any], reader: Reader, image: Image) -> dict[str, Any]:
    """Return lettering with the point of its target, or of its words if it is a label."""
    phrase = letters["target"] or (letters["text"] if letters["kind"] == "label" else "")
    if letters["at"] is not None or not phrase or letters["kind"] == "caption":
        return letters
    found = reader.point(image, phrase)
    return letters if found is None else {**letters, "at": [round(each, 4) for each in found]}
