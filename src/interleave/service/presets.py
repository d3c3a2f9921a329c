"""The reference's eleven services by number and name: their ports, their models, and what they draw with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from interleave.errors import ConfigurationError, did_you_mean


@dataclass(frozen=True)
class Preset:
    """One service: what it serves, where, and what its clients send."""

    number: int
    generator: str
    settings: dict[str, Any] = field(default_factory=dict)
    """What the model draws with by default, for clients that name it."""

    @property
    def port(self) -> int:
        return 8000 + self.number


PRESETS = {
    "qwen-image": Preset(1, "diffusers:Qwen/Qwen-Image", {"steps": 50, "guidance": 4.0}),
    "qwen-image-lightning": Preset(
        2,
        "diffusers:Qwen/Qwen-Image?lora=lightx2v/Qwen-Image-Lightning&steps=8&guidance=1",
        {"steps": 8, "guidance": 1.0},
    ),
    "flux-krea": Preset(
        3, "diffusers:black-forest-labs/FLUX.1-Krea-dev?steps=50&guidance=4.5", {"steps": 50, "guidance": 4.5}
    ),
    "qwen-image-edit": Preset(4, "diffusers:Qwen/Qwen-Image-Edit", {"steps": 50, "guidance": 4.0}),
    "qwen-image-edit-lightning": Preset(
        5,
        "diffusers:Qwen/Qwen-Image-Edit?lora=lightx2v/Qwen-Image-Lightning&steps=8&guidance=1",
        {"steps": 8, "guidance": 1.0},
    ),
    "flux-kontext": Preset(
        6,
        "diffusers:black-forest-labs/FLUX.1-Kontext-dev?steps=28&guidance=2.5",
        {"steps": 28, "guidance": 2.5},
    ),
    "flux-fill": Preset(
        7, "diffusers:black-forest-labs/FLUX.1-Fill-dev?steps=50&guidance=30", {"steps": 50, "guidance": 30.0}
    ),
    "longcat-image-edit": Preset(
        8, "diffusers:meituan-longcat/LongCat-Image-Edit", {"steps": 50, "guidance": 4.5}
    ),
    "omnigen2": Preset(
        9, "diffusers:OmniGen2/OmniGen2", {"steps": 50, "text_guidance": 5.0, "image_guidance": 2.0}
    ),
    "qwen-image-edit-plus": Preset(
        10, "diffusers:Qwen/Qwen-Image-Edit-2511?steps=40&guidance=4", {"steps": 40, "guidance": 4.0}
    ),
    "klein": Preset(
        11, "diffusers:black-forest-labs/FLUX.2-klein-9B?steps=4&guidance=1", {"steps": 4, "guidance": 1.0}
    ),
}

IGNORED = frozenset({"width", "height"})
"""What the reference's trainer sends to every service and no service of the reference has ever read: a
picture has the size of the one it starts from."""


def find_preset(name: str) -> tuple[str, Preset]:
    """A preset by its name, or by its number as in the reference's start script."""
    for known, preset in PRESETS.items():
        if name in (known, str(preset.number)):
            return known, preset
    raise ConfigurationError(f"there is no preset {name!r}. {did_you_mean(name, PRESETS)}")
