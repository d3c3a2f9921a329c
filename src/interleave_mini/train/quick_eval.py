"""A glance at a training that is under way: a few pictures drawn, looked at and kept as a sheet."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from interleave_mini.language.prompts import edit_prompt, scene_prompt
from interleave_mini.reader import Reader
from interleave_mini.reader.scores import shows
from interleave_mini.train.evaluation import HasDraw
from interleave_mini.train.examples import random_operations, random_scene
from interleave_mini.world.drawing import draw_many
from interleave_mini.world.operations import apply_all

SHOWN = 8


@dataclass
class Glance:
    """The same requests every time, so that two glances can be compared."""

    draw: HasDraw
    reader: Reader
    folder: Path
    pictures: int = 96
    numbers: count[int] = field(default_factory=count)

    def __call__(self) -> dict[str, float]:
        """Shares that are strictly right: three things from text, then edits asked briefly and exactly."""
        rng = Random("glance")
        scenes = [random_scene(rng, 3) for _ in range(self.pictures)]
        steps = [random_operations(scene, rng) or () for scene in scenes]
        after = [apply_all(done, scene) for done, scene in zip(steps, scenes, strict=True)]
        before = draw_many(scenes)
        short, exact = (
            [edit_prompt(done, scene, exact=exact) for done, scene in zip(steps, scenes, strict=True)]
            for exact in (False, True)
        )
        drawn = {
            "text": self.draw([scene_prompt(scene) for scene in scenes], (), seed=0),
            "short": self.draw(short, (before,), seed=0),
            "exact": self.draw(exact, (before,), seed=0),
        }
        self._keep_sheet([before, *drawn.values()])
        return {
            name: sum(map(shows, self.reader.read_many(pictures), scenes if name == "text" else after))
            / self.pictures
            for name, pictures in drawn.items()
        }

    def _keep_sheet(self, rows: list[NDArray[np.uint8]]) -> None:
        """What was there, then what was drawn from text, by short edits and by exact ones."""
        self.folder.mkdir(parents=True, exist_ok=True)
        sheet = np.concatenate([np.concatenate(list(row[:SHOWN]), axis=1) for row in rows])
        Image.fromarray(sheet).save(self.folder / f"{next(self.numbers):03}.png")
