"""Which accelerator each worker sees. A worker sees no other, so that no model can land on the wrong one."""

from __future__ import annotations

import re
from collections.abc import Mapping

from interleave.errors import ConfigurationError

VISIBLE = "CUDA_VISIBLE_DEVICES"
CPU = "cpu"
_INDEX = re.compile(r"\d+\Z")
_NAME = re.compile(r"(?:GPU|MIG)-[A-Za-z0-9./-]+\Z")


def parse_devices(text: str | None) -> list[str | None]:
    """The devices of `--devices 0,1`, one worker each; None for a worker that sees what the server sees.

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
    """What a worker's environment must say so that it sees this device alone.

    Numbers count the devices that the server itself may use: on a shared machine a scheduler has chosen
    those, and device 0 is the first of them.
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
                f"--devices {device}: there is no device {piece}; {VISIBLE}={allowed} allows {len(names)}"
            )
    return {VISIBLE: ",".join(names[int(piece)] if _INDEX.match(piece) else piece for piece in pieces)}
