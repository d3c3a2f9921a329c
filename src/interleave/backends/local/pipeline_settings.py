"""`interleave.json`: what a model folder says about how its pipeline wants to be called."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError

from interleave.errors import ConfigurationError
from interleave.types import Value

FILE_NAME = "interleave.json"


class CallSettings(Value):
    """Arguments of a pipeline's call; what is left out is the family's, and what a spec says comes first."""

    num_inference_steps: int | None = Field(default=None, ge=1, le=1000)
    guidance_scale: float | None = Field(default=None, ge=0, le=100)
    width: int | None = Field(default=None, ge=64, le=4096, multiple_of=16)
    height: int | None = Field(default=None, ge=64, le=4096, multiple_of=16)
    max_sequence_length: int | None = Field(default=None, ge=8, le=65_536)
    text_encoder_out_layers: tuple[int, ...] | None = Field(default=None, min_length=1)
    """Which layers of the text encoder the transformer is shown."""
    max_sources: int | None = Field(default=None, ge=0, le=16)
    """How many pictures it was trained to start from."""


def read_settings(folder: Path) -> CallSettings:
    """The settings in a model folder; none at all, where it has no such file."""
    path = folder / FILE_NAME
    try:
        return CallSettings.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return CallSettings()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror})") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(place) for place in first["loc"])
        if first["type"] == "extra_forbidden":
            known = ", ".join(CallSettings.model_fields)
            raise ConfigurationError(f"{path} has an unknown key {key!r}. Known: {known}") from None
        raise ConfigurationError(f"{path}: {f'{key}: ' if key else ''}{first['msg'].lower()}") from None
