"""Model folders: found on disk or on the Hub, and checked before anything in them is loaded.

Only safetensors are read, because a pickle can run any code. Code that comes with a model is rejected unless
the user allows it. The error for a file that is truncated, missing or of another model names it and the fix.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleave import ConfigurationError
from interleave.local.families import own_code_of

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+\Z")
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".msgpack", ".h5")
LIBRARIES = {"diffusers", "transformers"}
SETTINGS_FILES = ["*.json", "*.txt", "*.jinja", "*.model"]
MODEL_FILES = [*SETTINGS_FILES, "*.safetensors"]
MAX_HEADER_BYTES = 100_000_000
"""The limit of the safetensors format."""
MAX_JSON_BYTES = 100_000_000


@dataclass(frozen=True)
class Source:
    """The source of a checkpoint, as the user wrote it."""

    model: str
    revision: str | None = None

    @property
    def is_path(self) -> bool:
        return self.model.startswith(("/", ".", "~"))

    @property
    def repair(self) -> str:
        """The fix for a broken file."""
        if self.is_path:
            return "copy it again"
        revision = f" --revision {self.revision}" if self.revision else ""
        return f"fetch it again with: hf download --force-download {self.model}{revision}"


def find_model(source: Source) -> Path:
    """Return the folder of a transformers model, downloaded from the Hub if it is not on disk."""
    return _local(source, "config.json") or _from_hub(source, MODEL_FILES, nested=False)


def find_settings(source: Source) -> Path:
    """Return the folder of a transformers model with its configuration and processor, without its weights."""
    return _local(source, "config.json") or _from_hub(source, SETTINGS_FILES, nested=False)


def find_adapter(source: Source) -> Path:
    """Return the folder of a LoRA adapter."""
    return _local(source, "adapter_config.json") or _from_hub(source, MODEL_FILES, nested=False)


def find_pipeline(source: Source, without_weights: Collection[str] = ()) -> Path:
    """Return the folder of a diffusers pipeline; only its parts are downloaded, no other copies of weights.

    For the parts in `without_weights`, whose weights have another source, only the settings are downloaded.
    """
    folder, index = pipeline_index(source)
    if source.is_path:
        return folder
    own = own_code_of(index.get("_class_name"))
    components = [
        name
        for name, value in index.items()
        if isinstance(value, list) and (value[0] in LIBRARIES or (own and name in own.parts))
    ]
    wanted = [
        f"{name}/{pattern}"
        for name in components
        for pattern in (SETTINGS_FILES if name in without_weights else MODEL_FILES)
    ]
    return _from_hub(source, ["model_index.json", "interleave.json", *wanted], nested=True)


def pipeline_index(source: Source) -> tuple[Path, dict[str, Any]]:
    """Return the folder and the index of a pipeline, without its parts."""
    folder = _local(source, "model_index.json") or _from_hub(source, ["model_index.json"], nested=False)
    return folder, read_json(folder / "model_index.json", source)


def find_weights(source: Source) -> Path:
    """Return one file of weights, such as a LoRA: a path, `ORG/NAME`, or `ORG/NAME/FILE.safetensors`."""
    if source.is_path:
        path = Path(source.model).expanduser()
        if path.is_file():
            return path
        folder, name = path, ""
        if not path.is_dir():
            raise ConfigurationError(f"the weights {source.model!r} do not exist: check the path")
    else:
        organisation, _, rest = source.model.partition("/")
        repository, _, name = rest.partition("/")
        hub = Source(f"{organisation}/{repository}", source.revision)
        folder = _from_hub(hub, [name or "*.safetensors"], nested=bool(name))
    found = [folder / name] if name else sorted(folder.glob("*.safetensors"))
    if len(found) == 1 and found[0].is_file():
        return found[0]
    if not found:
        _refuse_pickles(folder)
    listed = ", ".join(path.name for path in found) or "no .safetensors file"
    raise ConfigurationError(
        f"{source.model!r} does not name one weight file, and has {listed}: "
        f"name one, e.g. {source.model}/FILE.safetensors"
    )


def _local(source: Source, marker: str) -> Path | None:
    if not source.is_path:
        return None
    folder = Path(source.model).expanduser()
    if not folder.is_dir():
        raise ConfigurationError(f"the model folder {source.model!r} does not exist: check the path")
    if not (folder / marker).is_file():
        _refuse_pickles(folder)
        raise ConfigurationError(f"{source.model!r} is not a model folder of this kind: it has no {marker}")
    return folder


def _from_hub(source: Source, patterns: Sequence[str], *, nested: bool) -> Path:
    if not HUB_ID.match(source.model):
        raise ConfigurationError(
            f"{source.model!r} is not a model: write ORG/NAME as on the Hub, or a path starting with / or ."
        )
    from huggingface_hub import errors, snapshot_download

    try:
        folder = snapshot_download(
            source.model,
            revision=source.revision,
            allow_patterns=list(patterns),
            ignore_patterns=["*.fp16.*", "*.onnx*", "original/*", *([] if nested else ["*/*"])],
        )
    except errors.GatedRepoError:
        raise ConfigurationError(
            f"the model {source.model!r} is gated: accept its licence at "
            f"https://huggingface.co/{source.model}, then set HF_TOKEN to a token of your account"
        ) from None
    except errors.LocalEntryNotFoundError:
        raise ConfigurationError(_not_on_disk(source)) from None
    except errors.RevisionNotFoundError:
        raise ConfigurationError(f"the model {source.model!r} has no revision {source.revision!r}") from None
    except errors.RepositoryNotFoundError:
        raise ConfigurationError(
            f"the model {source.model!r} is not on the Hub, or is private: check its name, or set HF_TOKEN"
        ) from None
    except (errors.HfHubHTTPError, OSError) as error:
        raise ConfigurationError(
            f"the model {source.model!r} cannot be downloaded from the Hub ({_first_line(error)}). "
            + _not_on_disk(source)
        ) from None
    return Path(folder)


def _not_on_disk(source: Source) -> str:
    if Path(source.model).is_dir():
        return (
            f"{source.model!r} names a model on the Hub; for the folder of that name write './{source.model}'"
        )
    revision = f" --revision {source.revision}" if source.revision else ""
    return (
        f"the model {source.model!r} is not on this disk, and the Hub cannot be reached. "
        f"With a network connection, run: hf download {source.model}{revision} "
        "(with HF_TOKEN set, if its licence must be accepted)"
    )


def check_model(folder: Path, source: Source, *, trust_remote_code: bool) -> None:
    """Reject unsafe or broken files in a model's folder."""
    if not trust_remote_code:
        _refuse_code(folder)
    _check_weights(folder, source)


def check_settings(folder: Path, source: Source) -> bool:
    """Reject unsafe or broken files in a folder; return whether it has weights."""
    if any(folder.glob("*.safetensors")) or any(folder.glob("*.bin")):
        check_model(folder, source, trust_remote_code=False)
        return True
    _refuse_code(folder)
    return False


def check_pipeline(
    folder: Path, source: Source, *, trust_remote_code: bool, without_weights: Collection[str] = ()
) -> dict[str, Any]:
    """Reject unsafe or broken files in a pipeline's folder; return its index."""
    path = folder / "model_index.json"
    index = read_json(path, source)
    own_pipeline = not isinstance(index.get("_class_name"), str) or "custom_pipeline" in index
    if own_pipeline and not trust_remote_code:
        raise _brings_code(path, "a custom pipeline")
    own = own_code_of(index.get("_class_name"))
    for name, value in index.items():
        if name.startswith("_") or not isinstance(value, list) or value[0] is None:
            continue
        ours = value[0] in LIBRARIES or (own is not None and name in own.parts)
        if not ours and not trust_remote_code:
            raise _brings_code(path, f"code for its part {name!r}")
        part = folder / name
        if not part.is_dir():
            raise ConfigurationError(
                f"{path} names a part {name!r}, but the folder {part} does not exist: {source.repair}"
            )
        if not trust_remote_code:
            _refuse_code(part)
        if _has_weights(part) and name not in without_weights:
            _check_weights(part, source)
    return index


def check_weights_file(path: Path, source: Source) -> None:
    """Reject a weight file that is not a complete safetensors file."""
    if path.suffix != ".safetensors":
        raise _pickle(path)
    read_header(path, source)


def refuse_bad_fit(
    folder: Path, info: Mapping[str, Any], source: Source, *, optional: Collection[str] = ()
) -> None:
    """Reject weights of another model: with other shapes, or without tensors that are not `optional`."""
    mismatched = sorted(info.get("mismatched_keys") or (), key=str)
    if mismatched:
        name, found, wanted = mismatched[0][:3]
        where = _file_with(folder, str(name), source)
        raise ConfigurationError(
            f"{where} does not fit its config.json: {name!r} has the shape {_shape(found)}, but the "
            f"model needs {_shape(wanted)}. It belongs to another model: {source.repair}"
        )
    missing = sorted(set(info.get("missing_keys") or ()) - set(optional))
    if missing:
        raise ConfigurationError(
            f"the weights in {folder} are incomplete: {missing[0]!r} is missing"
            f"{f' and {len(missing) - 1} more' if len(missing) > 1 else ''}. {source.repair.capitalize()}"
        )
    if problems := info.get("error_msgs"):
        raise ConfigurationError(f"the weights in {folder} cannot be loaded: {_first_line(problems[0])}")


def read_json(path: Path, source: Source) -> dict[str, Any]:
    """Read a JSON object from a model folder."""
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise ConfigurationError(f"{path} is too large for a file of its kind")
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} cannot be read ({_first_line(error)}): {source.repair}") from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path} is not a JSON object: {source.repair}")
    return value


def read_header(path: Path, source: Source) -> dict[str, Any]:
    """Read the names, shapes and offsets of a safetensors file, checked against its length."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = struct.unpack("<Q", file.read(8))[0] if size >= 8 else 0
            if not 0 < length <= min(size - 8, MAX_HEADER_BYTES):
                raise ConfigurationError(
                    f"{path} is not a complete safetensors file ({size:,} bytes): {source.repair}"
                )
            header = json.loads(file.read(length))
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        end = 8 + length + max((entry["data_offsets"][1] for entry in tensors.values()), default=0)
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError, IndexError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(
            f"{path} is not a safetensors file ({_first_line(error)}): {source.repair}"
        ) from None
    if size != end:
        kind = "truncated" if size < end else "longer than its header says"
        raise ConfigurationError(f"{path} is {kind}: {size:,} bytes of {end:,}. {source.repair.capitalize()}")
    return tensors


def _check_weights(folder: Path, source: Source) -> None:
    files = weight_files(folder, source)
    if not files:
        _refuse_pickles(folder)
        raise ConfigurationError(f"{folder} has no weights (*.safetensors): {source.repair}")
    for path in files:
        if not path.is_file():
            raise ConfigurationError(f"{path} is missing: {source.repair}")
        read_header(path, source)


def weight_files(folder: Path, source: Source) -> list[Path]:
    """Return the weight files named by the folder's index, or all of them without an index."""
    for index in sorted(folder.glob("*.safetensors.index.json")):
        shards = read_json(index, source).get("weight_map")
        if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
            raise ConfigurationError(f"{index} names no weights: {source.repair}")
        names = set(shards.values())
        if any(os.sep in name or name.startswith(".") for name in names):
            raise ConfigurationError(f"{index} names files outside its folder: do not use this model")
        return sorted(folder / name for name in names)
    return sorted(folder.glob("*.safetensors"))


def _file_with(folder: Path, tensor: str, source: Source) -> Path:
    """Return the file that holds a tensor, or the folder if the library has renamed the tensor."""
    for path in weight_files(folder, source):
        if any(
            name == tensor or name.endswith(f".{tensor}") or tensor.endswith(f".{name}")
            for name in read_header(path, source)
        ):
            return path
    return folder


def _has_weights(folder: Path) -> bool:
    names = [path.name for path in folder.iterdir()]
    return "config.json" in names or any(name.endswith((".safetensors", *PICKLES)) for name in names)


def _refuse_code(folder: Path) -> None:
    for path in sorted(folder.glob("*.json")):
        if path.name.endswith("config.json") and b'"auto_map"' in path.read_bytes():
            raise _brings_code(path, "its own code ('auto_map')")


def _refuse_pickles(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        if path.suffix in PICKLES:
            raise _pickle(path)


def _pickle(path: Path) -> ConfigurationError:
    return ConfigurationError(
        f"{path} is not a safetensors file, and other formats can run any code when they are opened: "
        "convert it to safetensors on an isolated machine, or use another checkpoint"
    )


def _brings_code(path: Path, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path} requires {what}, which could do anything on this machine: review that code, "
        "and add ?trust_remote_code=true if you trust it"
    )


def _shape(shape: Iterable[int]) -> str:
    return "×".join(str(side) for side in shape)


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
