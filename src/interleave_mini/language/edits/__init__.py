"""Reasoning edits: one sentence about a given picture, whose result has to be thought out.

Four kinds, as in RISEBench: temporal (what time does), causal (what an event does), spatial (where things end
up) and logical (what a rule about the picture demands).
"""

from __future__ import annotations

from interleave_mini.language.edits import causal, logical, spatial, temporal
from interleave_mini.language.edits.edit import Edit, WrittenEdit, sample_edit
from interleave_mini.language.story import Step
from interleave_mini.world.scene import Scene

EDITS: tuple[Edit, ...] = (*temporal.EDITS, *causal.EDITS, *spatial.EDITS, *logical.EDITS)


def read_edit(text: str, scene: Scene) -> tuple[Edit, Step] | None:
    """The reasoning edit a normalised request asks for in a scene, and what it comes to."""
    for edit in EDITS:
        if step := edit.read(text, scene):
            return edit, step
    return None


__all__ = ["EDITS", "Edit", "WrittenEdit", "read_edit", "sample_edit"]
