"""A generator that draws as the miniature's world does, but fails for one prompt: `faulty`.

It joins by its entry point, as any package's generator would; this folder on PYTHONPATH is enough.
"""

from __future__ import annotations

from PIL.Image import Image

from interleave import BackendError, ImageRequest
from interleave.backends.registry import BackendInfo
from interleave_mini.world_painter import WorldPainter

FAILS = "Something that nobody can draw."
GENERATOR = BackendInfo("faulty:Faulty", "draws by rule, and fails for one prompt")


class Faulty(WorldPainter):
    async def generate(self, request: ImageRequest) -> Image:
        if request.prompt == FAILS:
            raise BackendError("the machine that draws is gone")
        return await super().generate(request)
