"""`interleave.json`: the call settings in a model folder of a diffusers pipeline."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError

from interleave.errors import ConfigurationError
from interleave.types import Value

FILE_NAME = "interleave.json"


class CallSettings(Value):
    """Arguments of a pipeline's call; the spec overrides them, and the family has the defaults."""

    num_inference_steps: int | None = Field(default=None, ge=1, le=1000)
    guidance_scale: float | None = Field(default=None, ge=0, le=100)
    width: int | None = Field(default=None, ge=64, le=4096, multiple_of=16)
    height: int | None = Field(default=None, ge=64, le=4096, multiple_of=16)
    max_sequence_length: int | None = Field(default=None, ge=8, le=65_536)
    text_encoder_out_layers: tuple[int, ...] | None = Field(default=None, min_length=1)
    """The text encoder layers whose hidden states go to the transformer."""
    max_sources: int | None = Field(default=None, ge=0, le=16)
    """How many source pictures the model was trained with."""


def read_settings(folder: Path) -> CallSettings:
    """The settings in a model folder; all unset where it has no such file."""
    path = folder / FILE_NAME
    try:
        return CallSettings.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return CallSettings()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror})") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = ", ".join(CallSettings.model_fields)
            raise ConfigurationError(f"{path} has an unknown key {key!r}. Known: {known}") from None
        raise ConfigurationError(f"{path}: {f'{key}: ' if key else ''}{first['msg'].lower()}") from None
