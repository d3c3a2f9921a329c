"""Reasoning edits: one sentence about a given image, whose result must be inferred.

Four kinds, as in RISEBench: temporal (what time does), causal (what an event does), spatial (where things end
up) and logical (what a rule about the image demands).
"""

from __future__ import annotations

from interleave_mini.bench.tasks import Step
from interleave_mini.world.scene import Scene
from miniature.grammar.edits import causal, logical, spatial, temporal
from miniature.grammar.edits.edit import Edit, EditRequest, sample_edit

EDITS: tuple[Edit, ...] = (*temporal.EDITS, *causal.EDITS, *spatial.EDITS, *logical.EDITS)


def parse_edit(text: str, scene: Scene) -> tuple[Edit, Step] | None:
    """Parse a normalised request into a reasoning edit and its step in this scene."""
    for edit in EDITS:
        if step := edit.read(text, scene):
            return edit, step
    return None


__all__ = ["EDITS", "Edit", "EditRequest", "read_edit", "sample_edit"]
