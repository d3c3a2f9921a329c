"""Where prompt packs are found: those we ship, and the user's own in the configuration folder."""

from __future__ import annotations

import re
from pathlib import Path

from interleave import plugins
from interleave.agents.prompts import PackDescription, PromptPack, read_description, read_pack
from interleave.config.user_folder import config_folder
from interleave.errors import ConfigurationError, did_you_mean

SHIPPED = Path(__file__).parent
DEFAULT_PACK = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


def load_pack(name: str = DEFAULT_PACK) -> PromptPack:
    """The pack of this name; raises `ConfigurationError` that lists the names there are."""
    return _load(name, heirs=())


def _load(name: str, *, heirs: tuple[str, ...]) -> PromptPack:
    if name in heirs:
        raise ConfigurationError(f"the prompt pack {name!r} extends itself: {' → '.join((*heirs, name))}")
    folder = pack_folders().get(name)
    if folder is None:
        raise ConfigurationError(f"no prompt pack named {name!r}. {did_you_mean(name, pack_folders())}")
    description = read_description(folder / "pack.toml")
    if description.name != name:  # a run records the name in the file, and is continued by it
        raise ConfigurationError(
            f"{folder / 'pack.toml'} says name = {description.name!r}: write {name!r}, the name of its folder"
        )
    parent = description.extends
    return read_pack(folder, base=_load(parent, heirs=(*heirs, name)).texts if parent else None)


def describe_packs() -> list[tuple[PackDescription, Path]]:
    """Every pack there is, with its folder."""
    return [(read_description(folder / "pack.toml"), folder) for _, folder in sorted(pack_folders().items())]


def pack_folders() -> dict[str, Path]:
    """Pack names and their folders; a user's pack hides a shipped one of the same name."""
    own = user_packs_folder()
    folders = [*plugins.folders("prompt_packs"), SHIPPED, *([own] if own else [])]
    return {path.parent.name: path.parent for folder in folders for path in folder.glob("*/pack.toml")}


def user_packs_folder() -> Path | None:
    folder = config_folder()
    return folder / "prompts" if folder else None


def checked_pack_name(name: str) -> str:
    """The name, if it can be a folder's."""
    if not _NAME.match(name):
        raise ConfigurationError(f"{name!r} cannot name a prompt pack: use letters, digits, '.', '_' and '-'")
    return name
