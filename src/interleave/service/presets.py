"""The reference's eleven services by number and name, with the ports of its documentation.

What they draw with is what its trainers ask of them: the values of its reward function for the services it
knows, those of EditThinker's services for the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from interleave.errors import ConfigurationError, did_you_mean

LIGHTNING = "lightx2v/Qwen-Image-Lightning"


@dataclass(frozen=True)
class Preset:
    """One service: what it serves, and where."""

    number: int
    generator: str

    @property
    def port(self) -> int:
        return 8000 + self.number


PRESETS = {
    "qwen-image": Preset(1, "diffusers:Qwen/Qwen-Image?steps=50&guidance=4"),
    "qwen-image-lightning": Preset(
        2, f"diffusers:Qwen/Qwen-Image?lora={LIGHTNING}/Qwen-Image-Lightning-8steps-V1.1.safetensors"
    ),
    "flux-krea": Preset(3, "diffusers:black-forest-labs/FLUX.1-Krea-dev?steps=50&guidance=4.5"),
    "qwen-image-edit": Preset(4, "diffusers:Qwen/Qwen-Image-Edit?steps=50&guidance=5"),
    "qwen-image-edit-lightning": Preset(
        5,
        f"diffusers:Qwen/Qwen-Image-Edit?lora={LIGHTNING}/Qwen-Image-Edit-Lightning-8steps-V1.0.safetensors",
    ),
    "flux-kontext": Preset(6, "diffusers:black-forest-labs/FLUX.1-Kontext-dev?steps=28&guidance=2.5"),
    "flux-fill": Preset(7, "diffusers:black-forest-labs/FLUX.1-Fill-dev?steps=50&guidance=30"),
    "longcat-image-edit": Preset(8, "diffusers:meituan-longcat/LongCat-Image-Edit?steps=50&guidance=4.5"),
    "omnigen2": Preset(9, "diffusers:OmniGen2/OmniGen2?steps=50&guidance=5"),
    "qwen-image-edit-plus": Preset(10, "diffusers:Qwen/Qwen-Image-Edit-2511?steps=40&guidance=4"),
    "klein": Preset(11, "diffusers:black-forest-labs/FLUX.2-klein-9B?steps=4&guidance=1"),
}


def find_preset(name: str) -> tuple[str, Preset]:
    """A preset by its name, or by its number as in the reference's start script."""
    for known, preset in PRESETS.items():
        if name in (known, str(preset.number)):
            return known, preset
    raise ConfigurationError(f"there is no preset {name!r}. {did_you_mean(name, PRESETS)}")
