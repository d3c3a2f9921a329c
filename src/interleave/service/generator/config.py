"""Configuration of the generator server: options, limits, devices and presets.

The presets are the reference's eleven services by number and name, with the ports of its documentation.
Services known to the reference's reward function use its values; the others use those of EditThinker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from interleave import ConfigurationError
from interleave.plugin import did_you_mean

LIGHTNING = "lightx2v/Qwen-Image-Lightning"
VISIBLE = "CUDA_VISIBLE_DEVICES"
CPU = "cpu"
_INDEX = re.compile(r"\d+\Z")
_NAME = re.compile(r"(?:GPU|MIG)-[A-Za-z0-9./-]+\Z")


@dataclass(frozen=True)
class Limits:
    """Limits of the server on size and time."""

    queue: int = 100
    """Maximum number of images waiting for a worker."""
    batch: int | None = None
    """Maximum concurrent tasks per worker; `None` for the concurrency of its generator."""
    deadline_seconds: float = 300.0
    """Maximum time per request, waiting included."""
    drain_seconds: float = 30.0
    """Time for tasks in flight to finish during shutdown."""
    load_seconds: float = 1800.0
    draw_seconds: float | None = None
    """Maximum time per image; `None` for the deadline of the request."""
    silence_seconds: float = 10.0
    """Time without progress, or past a task's deadline, after which a worker counts as hung."""
    memory_bytes: int = 1_000_000_000
    """Memory budget of all requests and their images; a worker holds at most half of it."""


@dataclass(frozen=True)
class ServerConfig:
    """Options of `interleave serve generator`."""

    generator: str
    models: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int = 8011
    token: str | None = None
    devices: tuple[str | None, ...] = (None,)
    limits: Limits = field(default_factory=Limits)
    ignored: frozenset[str] = frozenset()
    fixed: bool = False
    """Whether requests may not override the generator's settings."""
    register: Path | None = None
    """File of addresses that lists this server while it is ready."""
    address: str | None = None
    """Address to write there; `None` for the one it listens on."""


def parse_devices(text: str | None) -> list[str | None]:
    """Parse `--devices 0,1`: one worker per device. `None` is a worker that sees the server's devices.

    `0+1` gives one worker two of them; `cpu` gives it none.
    """
    if text is None:
        return [None]
    devices = [device.strip() for device in text.split(",")]
    seen: set[str] = set()
    for piece in (piece for device in devices for piece in device.split("+")):
        if piece != CPU and not _INDEX.match(piece) and not _NAME.match(piece):
            raise ConfigurationError(
                f"--devices {text}: {piece!r} is not a device. Write numbers, e.g. 0,1; join those of one "
                "worker with a plus, e.g. 0+1,2+3; or write cpu"
            )
        if piece != CPU and piece in seen:
            raise ConfigurationError(f"--devices {text}: device {piece} is named twice")
        seen.add(piece)
    if any(CPU in device and device != CPU for device in devices):
        raise ConfigurationError(f"--devices {text}: cpu cannot be joined with another device")
    return list(devices)


def visible_devices(device: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that make a worker see only this device.

    Numbers index the devices visible to the server: on a shared machine the scheduler has chosen them, and
    device 0 is the first of those.
    """
    if device is None:
        return {}
    if device == CPU:
        return {VISIBLE: ""}
    allowed = environment.get(VISIBLE)
    pieces = device.split("+")
    if allowed is None:
        return {VISIBLE: ",".join(pieces)}
    names = [name for name in allowed.split(",") if name]
    for piece in pieces:
        if _INDEX.match(piece) and int(piece) >= len(names):
            raise ConfigurationError(
                f"--devices {device}: no device {piece}; {VISIBLE}={allowed} allows {len(names)}"
            )
    return {VISIBLE: ",".join(names[int(piece)] if _INDEX.match(piece) else piece for piece in pieces)}


@dataclass(frozen=True)
class Preset:
    """One of the reference's services: its generator and its port."""

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
    "flux-fill": Preset(7, "diffusers:black-forest-labs/FLUX.1-Fill-dev?steps=50&guidance=30&mask=request"),
    "longcat-image-edit": Preset(8, "diffusers:meituan-longcat/LongCat-Image-Edit?steps=50&guidance=4.5"),
    "omnigen2": Preset(9, "diffusers:OmniGen2/OmniGen2?steps=50&guidance=5&image_guidance=1.5"),
    "qwen-image-edit-plus": Preset(10, "diffusers:Qwen/Qwen-Image-Edit-2511?steps=40&guidance=4"),
    "klein": Preset(11, "diffusers:black-forest-labs/FLUX.2-klein-9B?steps=4&guidance=1"),
}


def find_preset(name: str) -> tuple[str, Preset]:
    """Return a preset by its name, or by its number in the reference's start script."""
    for known, preset in PRESETS.items():
        if name in (known, str(preset.number)):
            return known, preset
    raise ConfigurationError(f"no preset {name!r}. {did_you_mean(name, PRESETS)}")
