"""An eye that names: every token of a picture says which thing stands where it looks.

Words teach an eye slowly, one sentence for a whole picture. A name for every place teaches it much faster,
and words come easily to an eye that tells things apart. The names are thrown away with this head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interleave_mini.world.backgrounds import SIDE
from interleave_mini.world.drawing import ATLAS_SIZE, MARGIN
from interleave_mini.world.kinds import BACKGROUNDS
from interleave_mini.world.scene import GRID
from interleave_mini.world.sprites import CELL

if TYPE_CHECKING:
    import torch


class Naming:
    """Listens to a vision tower and marks what it could name."""

    def __init__(self, tower: Any, device: Any) -> None:
        import torch

        self.torch = torch
        self.head = torch.nn.Linear(tower.config.out_hidden_size, ATLAS_SIZE + len(BACKGROUNDS)).to(device)
        across = SIDE // tower.config.patch_size // tower.config.spatial_merge_size
        self.cells = torch.tensor(cells_of_tokens(across), device=device)
        self.seen: torch.Tensor | None = None
        self._hook = tower.register_forward_hook(self._listen)

    def _listen(self, _tower: Any, _given: Any, made: Any) -> None:
        self.seen = made.pooler_output

    def loss(self, codes: torch.Tensor) -> torch.Tensor:
        """How badly the pictures that were just looked at could be named, things and places."""
        if self.seen is None:
            raise RuntimeError("nothing has been looked at")
        tokens, self.seen = self.seen.view(len(codes), len(self.cells), -1), None
        marks = self.head(tokens.float())
        cross_entropy = self.torch.nn.functional.cross_entropy
        things = cross_entropy(marks[..., :ATLAS_SIZE].flatten(0, 1), codes[:, 1 + self.cells].flatten())
        return things + cross_entropy(marks[..., ATLAS_SIZE:].mean(dim=1), codes[:, 0])

    def close(self) -> None:
        """Leave the tower as it was."""
        self._hook.remove()


def cells_of_tokens(across: int) -> list[int]:
    """The cell in which the middle of each token lies, for a picture of so many tokens a side."""
    step = SIDE // across
    lines = [min(max((step // 2 + step * each - MARGIN) // CELL, 0), GRID - 1) for each in range(across)]
    return [row * GRID + column for row in lines for column in lines]
