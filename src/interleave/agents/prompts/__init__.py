"""Prompt packs: prompts for models, as data with a name and a version.

Packs are shipped here, installed as plugins, or the user's own in the configuration folder. A pack is a
folder with `pack.toml` and one Markdown file per prompt. In a file, a line `=== system ===` or `=== user ===`
starts a message (text before any such line is the user's), and `{{slot}}` is replaced by a value. Filling is
one pass over the pack's own text: values are never searched again, so no text of a user or a model is
mistaken for a slot, and an image is inserted as an image.
"""

from __future__ import annotations

import hashlib
import logging
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from pydantic import Field, ValidationError, field_validator

from interleave import entry_points
from interleave.backends.protocols import Message, Reply, Sampling, VisionLanguageModel
from interleave.config.profiles import config_folder
from interleave.config.run_config import PackConfig
from interleave.errors import BackendError, ConfigurationError, Failure, ReplyError, did_you_mean
from interleave.files import parse_toml, read_text, why
from interleave.images import fit_area
from interleave.text import storable
from interleave.types import ImagePart, Part, Text, Value

log = logging.getLogger(__name__)

PROMPTS: Mapping[str, frozenset[str]] = {
    "planner_text": frozenset({"request"}),
    "planner_interleaved": frozenset({"request"}),
    "critic": frozenset({"before", "after", "planned_prompt", "prompt"}),
    "scorer_semantics": frozenset({"before", "after", "planned_prompt"}),
    "scorer_quality": frozenset({"after"}),
    "reask": frozenset({"problem"}),
    "auditor": frozenset({"document"}),
    "planner_chapter": frozenset({"request", "place", "story"}),
    "planner_assets": frozenset(),
    "planner_lettering": frozenset(),
}
"""Prompts of a run, with their required slots."""
LATER = frozenset({"auditor", "planner_chapter", "planner_assets", "planner_lettering"})
"""Prompts that older packs lack. They use those of the default pack, which are excluded from the digest, so
that older runs can be continued."""

PLANNER_PROMPTS = ("planner_text", "planner_interleaved")

ROBOT_PROMPTS: Mapping[str, frozenset[str]] = {
    "robot_check": frozenset({"instruction", "before", "after"}),
    "robot_segments": frozenset({"task", "frames", "count"}),
    "robot_boundary": frozenset({"earlier", "later", "frames", "count"}),
}
"""Prompts about robots, with their optional slots. No run uses them, so they are excluded from the digest of
a pack. A pack without them uses those of the default pack."""

MANY_IMAGES = 5
MANY_IMAGES_AREA = 384 * 384
"""Maximum pixels of each image in a message with five images or more."""

SHIPPED = Path(__file__).parent
DEFAULT_PACK = "default"

AnswerForm = Literal["json", "python"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_SECTION = re.compile(r"^=== (system|user) ===[ \t]*(?:\n|\Z)", re.MULTILINE)
_SLOT = re.compile(
    rf"\{{\{{({'|'.join(sorted(set().union(*PROMPTS.values(), *ROBOT_PROMPTS.values())))})\}}\}}"
)


class QuickVerdict(Value):
    """How a critic says without its reasoning whether an image is right."""

    prefix: str
    """The beginning of a reply, which the critic continues."""
    accepts: str
    """The next words, if it accepts."""


class PackDescription(Value):
    """The `pack.toml` of a pack."""

    name: str
    version: str
    description: str = ""
    extends: str | None = None
    """Pack with the prompts that this one lacks."""
    models: tuple[str, ...] = ()
    """Models trained with these prompts, as `ORG/NAME`. They use this pack by default."""
    answers: AnswerForm | None = None
    """Format that the prompts ask for and the format reward requires: a JSON object, or a Python literal,
    which may also be JSON. `None`: as in the extended pack, else JSON."""
    audits: Literal["document", "pictures"] = "document"
    """Whether its critic audits the whole document in one call, or image by image."""
    assets: bool | None = None
    """Whether planners are asked for assets, scenes and lettering if a run needs them. `None`: as in the
    extended pack, unless this pack has its own planner prompts."""
    quick: QuickVerdict | None = None
    """Its critic's quick verdicts. `None`: as in the extended pack, if there are any."""
    chapters: bool = True
    """Whether its planner accepts the default pack's prompt for plans in chapters."""
    single_frames: int | None = Field(default=None, ge=2)
    """Number of separate frames of a video per call, for a model that cannot read contact sheets. `None`: use
    contact sheets."""

    @field_validator("version", mode="before")
    @classmethod
    def a_whole_number_is_a_version_too(cls, given: Any) -> Any:
        return str(given) if type(given) is int else given


@dataclass(frozen=True)
class PromptPack:
    """A set of prompts that belong together."""

    description: PackDescription
    texts: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.description.name

    @property
    def answers(self) -> AnswerForm:
        return self.description.answers or "json"

    @property
    def digest(self) -> str:
        """Digest of the exact texts, by which a run detects changes."""
        return self.digest_of(PROMPTS)

    @property
    def identity(self) -> PackConfig:
        """Record of the pack in a run."""
        return PackConfig(name=self.name, version=self.description.version, digest=self.digest)

    def digest_of(self, prompts: Iterable[str]) -> str:
        """Return a digest of the texts of these prompts."""
        own = sorted(name for name in prompts if name not in LATER or self.texts[name] != _shipped(name))
        texts = "\x00".join(f"{name}\x00{self.texts[name]}" for name in own)
        return hashlib.sha256(texts.encode()).hexdigest()[:16]

    def messages(self, prompt: str, slots: Mapping[str, str | tuple[Part, ...]]) -> tuple[Message, ...]:
        """Return the messages of a prompt with its slots filled."""
        return tuple(
            Message(role, _shrink_many(tuple(_fill(pieces, slots))))
            for role, pieces in _template(self.texts[prompt])
        )


def load_pack(name: str = DEFAULT_PACK) -> PromptPack:
    """Return the pack with this name. Raises `ConfigurationError` that lists the known names."""
    return _load(name, children=())


def _load(name: str, *, children: tuple[str, ...]) -> PromptPack:
    if name in children:
        raise ConfigurationError(f"the prompt pack {name!r} extends itself: {' → '.join((*children, name))}")
    folder = pack_folders().get(name)
    if folder is None:
        raise ConfigurationError(f"no prompt pack named {name!r}. {did_you_mean(name, pack_folders())}")
    description = read_description(folder / "pack.toml")
    if description.name != name:  # a run records the name in the file and is continued with it
        raise ConfigurationError(
            f"{folder / 'pack.toml'} says name = {description.name!r}: write {name!r}, the name of its folder"
        )
    parent = _load(description.extends, children=(*children, name)) if description.extends else None
    return read_pack(folder, base=parent)


def pack_trained_for(models: Iterable[str]) -> str | None:
    """Return the name of an installed pack that one of these models was trained with, if any."""
    names = names_of_models(models)
    for name, folder in sorted(pack_folders().items()) if names else ():
        try:
            trained = read_description(folder / "pack.toml").models
        except ConfigurationError:  # reported when that pack is used
            continue
        if not names.isdisjoint(names_of_models(trained)):
            return name
    return None


def names_of_models(models: Iterable[str]) -> set[str]:
    """Return names of models without owner or folder, so that a copy on disk counts as the model."""
    return {model.rstrip("/").rpartition("/")[2].casefold() for model in models}


def describe_packs() -> list[tuple[PackDescription, Path]]:
    """Return every readable pack with its folder. Log why others cannot be read."""
    packs: list[tuple[PackDescription, Path]] = []
    for _, folder in sorted(pack_folders().items()):
        try:
            packs.append((read_description(folder / "pack.toml"), folder))
        except ConfigurationError as error:
            log.warning("left out: %s", error)
    return packs


def pack_folders() -> dict[str, Path]:
    """Return pack names and their folders. A user's pack hides a shipped one of the same name."""
    own = user_packs_folder()
    folders = [*entry_points.folders("prompt_packs"), SHIPPED, *([own] if own else [])]
    return {path.parent.name: path.parent for folder in folders for path in folder.glob("*/pack.toml")}


def user_packs_folder() -> Path | None:
    folder = config_folder()
    return folder / "prompts" if folder else None


def checked_pack_name(name: str) -> str:
    """Return the name. Raises if it cannot be the name of a folder."""
    if not _NAME.match(name):
        raise ConfigurationError(
            f"{name!r} is not a valid name of a prompt pack: use letters, digits, '.', '_' and '-'"
        )
    return name


def read_pack(folder: Path, *, base: PromptPack | None = None) -> PromptPack:
    """Read a pack's folder. `base` provides the prompts that it omits."""
    description = read_description(folder / "pack.toml")
    if base and description.answers is None:
        description = description.model_copy(update={"answers": base.answers})
    if base and description.quick is None:
        description = description.model_copy(update={"quick": base.description.quick})
    if description.assets is None:
        plans = any((folder / f"{name}.md").is_file() for name in PLANNER_PROMPTS)
        inherited = bool(base and base.description.assets and not plans)
        description = description.model_copy(update={"assets": inherited})
    own = {name: folder / f"{name}.md" for name in (*PROMPTS, *ROBOT_PROMPTS)}
    texts = dict(base.texts if base else {}) | {
        name: _read_text(path) for name, path in own.items() if path.is_file()
    }
    for name in LATER - texts.keys():
        texts[name] = _shipped(name)
    for name, needed in PROMPTS.items():
        if name not in texts:
            raise ConfigurationError(f"the prompt pack in {folder} has no {name}.md")
        slots = set(_SLOT.findall(texts[name]))
        if missing := needed - slots:
            raise ConfigurationError(f"{folder / name}.md lacks the slot {{{{{min(missing)}}}}}")
        if foreign := slots - needed:
            raise ConfigurationError(
                f"{folder / name}.md has a slot {{{{{min(foreign)}}}}}, which it is not given"
            )
    for name, allowed in ROBOT_PROMPTS.items():
        if name not in texts:
            texts[name] = _shipped(name)
        if foreign := set(_SLOT.findall(texts[name])) - allowed:
            raise ConfigurationError(
                f"{folder / name}.md has a slot {{{{{min(foreign)}}}}}, which it is not given"
            )
    return PromptPack(description, texts)


@cache
def _shipped(name: str) -> str:
    """Return a prompt of the default pack."""
    return _read_text(SHIPPED / DEFAULT_PACK / f"{name}.md")


def read_description(path: Path) -> PackDescription:
    """Read a `pack.toml`."""
    if not path.is_file():
        raise ConfigurationError(f"{path.parent} is not a prompt pack: it has no pack.toml")
    try:
        return PackDescription.model_validate(parse_toml(_read_text(path)))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(place) for place in first["loc"])
        raise ConfigurationError(f"{path}: {key}: {first['msg'].lower()}") from None


def _read_text(path: Path) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read ({why(error)})") from None


@cache
def _template(text: str) -> tuple[tuple[Literal["system", "user"], tuple[str, ...]], ...]:
    """Return the messages of a prompt, each split at its slots: text, slot, text, slot, …, text."""
    return tuple((role, tuple(_SLOT.split(body))) for role, body in _sections(text))


def _sections(text: str) -> Iterator[tuple[Literal["system", "user"], str]]:
    pieces = _SECTION.split(text)
    if pieces[0].strip() or len(pieces) == 1:
        yield "user", pieces[0]
    for role, body in zip(pieces[1::2], pieces[2::2], strict=True):
        if body.strip():  # some servers refuse an empty message
            yield cast(Literal["system", "user"], role), body.strip()


def _fill(pieces: tuple[str, ...], slots: Mapping[str, str | tuple[Part, ...]]) -> Iterator[Part]:
    for position, piece in enumerate(pieces):
        if position % 2 == 0:
            if piece:
                yield Text(piece)
            continue
        value = slots[piece]
        if isinstance(value, str):
            yield Text(value)
        else:
            yield from value


def _shrink_many(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    if sum(isinstance(part, ImagePart) for part in parts) < MANY_IMAGES:
        return parts
    return tuple(
        ImagePart(fit_area(part.image, MANY_IMAGES_AREA)) if isinstance(part, ImagePart) else part
        for part in parts
    )


T = TypeVar("T")

REASKS = 3
REASK_TEMPERATURE = 0.7
QUOTED_CHARACTERS = 1500
"""Characters of its bad reply that a model receives again."""


async def ask(
    vlm: VisionLanguageModel,
    messages: Sequence[Message],
    read: Callable[[Reply], T],
    *,
    sampling: Sampling,
    pack: PromptPack,
) -> T:
    """Return the value that `read` parses from a reply. Raises the last `ReplyError` if it never succeeds.

    The second try names the problem. Later tries are sampled, as a deterministic model would repeat itself.
    """
    asked, unread, first = tuple(messages), None, sampling
    for reasks_left in range(REASKS, -1, -1):
        try:
            reply = await vlm.complete(asked, sampling)
        except BackendError as error:
            if unread is None or error.kind is not Failure.INVALID:
                raise
            raise unread from None  # with the complaint, the prompt is longer than the model accepts
        try:
            return read(reply)
        except ReplyError as error:
            error.advice = _advice(vlm, reply)
            if not reasks_left or reply.finish_reason == "content_filter":
                raise  # a content filter would refuse again
            unread, sampling = error, _reask_sampling(first, REASKS - reasks_left)
            asked = (*messages, *_complaint(reply, error, pack))
    raise AssertionError("unreachable: the last ask returns or raises")


def _reask_sampling(first: Sampling, reasks: int) -> Sampling:
    """Return the sampling after so many re-asks: that of the first try, then sampled with another seed."""
    if not reasks:
        return replace(first, reask=True)
    return replace(first, reask=True, temperature=first.temperature or REASK_TEMPERATURE, seed=reasks)


def _advice(vlm: VisionLanguageModel, reply: Reply) -> str:
    """Return advice for the spec of a model whose replies cannot be read."""
    options = vlm.capabilities.reply_options
    if reply.finish_reason == "length" and "max_tokens" in options:
        return "Allow longer replies with ?max_tokens=16384 in the spec of the model"
    if reply.finish_reason != "content_filter" and "json_schema" in options:
        return "If its server supports JSON schemas, add ?json_schema=true to the spec of the model"
    return ""


def _complaint(reply: Reply, error: ReplyError, pack: PromptPack) -> tuple[Message, ...]:
    complaint = pack.messages("reask", {"problem": error.problem})
    quoted = storable(reply.text[:QUOTED_CHARACTERS]).strip()
    if not quoted:  # some servers refuse an empty message
        return complaint
    return (Message("assistant", (Text(quoted),)), *complaint)
