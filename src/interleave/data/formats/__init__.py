"""The formats there are: a table, one row for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interleave.data.export.images import PictureForm, Shelf
from interleave.data.export.rows import CRITIC_RL, KINDS, SFT_KINDS, Kind, Row
from interleave.data.formats import easyr1, llamafactory, reference, swift, trl, verl
from interleave.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Format:
    """How one trainer wants its rows."""

    trainer: str
    suffix: str
    """`.parquet`, `.json` (one array) or `.jsonl`."""
    kinds: tuple[Kind, ...]
    """What the trainer can train."""
    encode: Callable[[Row, Shelf], dict[str, Any]]
    schema: Callable[[Kind, PictureForm], pyarrow.Schema] | None = None
    finish: Callable[[Path, Mapping[str, Path]], None] | None = None
    """Writes what belongs beside the rows; given the files of the format by name."""


FORMATS: Mapping[str, Format] = {
    "trl": Format("TRL", ".parquet", KINDS, trl.encode, schema=trl.schema),
    "llamafactory": Format(
        "LLaMA-Factory", ".json", SFT_KINDS, llamafactory.encode, finish=llamafactory.write_dataset_info
    ),
    "swift": Format("ms-swift", ".jsonl", KINDS, swift.encode),
    "verl": Format("verl", ".parquet", KINDS, verl.encode, schema=verl.schema),
    "easyr1": Format("EasyR1", ".jsonl", (CRITIC_RL,), easyr1.encode),
    "reference": Format("the reference's EasyR1", ".jsonl", (CRITIC_RL,), reference.encode),
}


def format_named(name: str) -> Format:
    """The format of this name; raises `ConfigurationError` that lists the names there are."""
    if name not in FORMATS:
        raise ConfigurationError(f"no export format named {name!r}. {did_you_mean(name, FORMATS)}")
    return FORMATS[name]
