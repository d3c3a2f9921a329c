"""Submissions of all APIs: their data types, and the parsing of shared fields."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast, get_args

from interleave import GeneratorCapabilities
from interleave.plugin import config, one_line, text, types
from interleave.service.documents.jobs import is_file_id
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.documents.shared_images import SharedImage, shared_image
from interleave.service.generator.messages import GeneratorInfo
from interleave.service.generator.parameters import MAX_SEED, Parameters
from interleave.service.http.decoding import EncodedImage
from interleave.service.http.refusals import Refusal
from interleave.service.http.request_bodies import image_from_base64

OWN_FIELD = "interleave"
"""Field of our options in a request and of our details in a response."""
OWN_OPTIONS = ("seed", "max_attempts", "sources", "webhook", "hold_plan", "assets", "sheets", "nearest")
ROLES = ("user", "system", "developer", "assistant")
NOT_USED = ("user", "safety_identifier", "prompt_cache_key")
"""Identifiers of the client's users: checked, echoed and otherwise unused."""
ASSET_FIELDS = ("name", "kind", "description", "image_url", "file_id")
MAX_PARTS = 500
MAX_METADATA, MAX_METADATA_NAME, MAX_METADATA_VALUE = 16, 64, 512


@dataclass(frozen=True)
class FileReference:
    """A reference to an uploaded image."""

    id: str


InputImage = EncodedImage | FileReference | SharedImage
InputPart = str | InputImage


@dataclass(frozen=True)
class InputAsset:
    """A named asset that must stay consistent; its image is not decoded yet."""

    name: str
    kind: types.AssetKind = "character"
    description: str = ""
    image: InputImage | None = None


@dataclass(frozen=True)
class OwnOptions:
    """Options in the field `interleave` of a request."""

    rules: dict[str, Any] = field(default_factory=dict)
    """Run options set by the client: seed, max_attempts, sources, sheets, nearest."""
    webhook: str | None = None
    hold_plan: bool = False
    assets: tuple[InputAsset, ...] = ()


@dataclass(frozen=True)
class Submission:
    """A parsed request; its images are not decoded yet."""

    parts: tuple[InputPart, ...]
    model: str
    digest: str
    """Digest of the whole body, to compare requests with the same idempotency key."""
    background: bool = False
    stream: bool = False
    previous: str | None = None
    metadata: dict[str, str] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    partial_images: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    """Run options set by the client: seed, max_attempts, sources, sheets, nearest."""
    webhook: str | None = None
    hold_plan: bool = False
    assets: tuple[InputAsset, ...] = ()
    roles: tuple[str, ...] = ()
    """Who said each part: user, assistant, system or developer. Empty if the user said all of them."""


def parameters_of(values: dict[str, Any], known: Iterable[str], ignored: Iterable[str] = ()) -> Parameters:
    """Return the fields of a body, to be taken one by one."""
    return Parameters(values, GeneratorInfo(GeneratorCapabilities(), ignored=frozenset(ignored)), known=known)


def digest_of(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def model_in(name: str | None, models: tuple[str, ...]) -> str:
    """Return the model of a request; the first one by default."""
    if name is None:
        return models[0]
    if name not in models:
        raise ApiRefusal(
            f"no model {one_line(name, 80)!r}; this service has {', '.join(models)}",
            status=404,
            parameter="model",
            code="model_not_found",
        )
    return name


def flag(parameters: Parameters, name: str) -> bool:
    value = parameters.take(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise ApiRefusal(f"{name} must be true or false", parameter=name)


def metadata_of(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    problem = ApiRefusal(
        f"metadata must have at most {MAX_METADATA} pairs of strings: names of at most "
        f"{MAX_METADATA_NAME} characters, values of at most {MAX_METADATA_VALUE}",
        parameter="metadata",
    )
    if not isinstance(value, dict) or len(value) > MAX_METADATA:
        raise problem
    for name, said in value.items():
        if len(name) > MAX_METADATA_NAME or not isinstance(said, str) or len(said) > MAX_METADATA_VALUE:
            raise problem
        if text.unusable(name) or text.unusable(said):
            raise problem
    return value


def own_options(value: Any) -> OwnOptions:
    """Parse the field `interleave`: run options, webhook, held plan and assets."""
    if value is None:
        return OwnOptions()
    if not isinstance(value, dict):
        raise ApiRefusal(f"{OWN_FIELD} must be an object", parameter=OWN_FIELD)
    given = parameters_of(value, OWN_OPTIONS)
    options: dict[str, Any] = {
        "seed": given.integer("seed", 0, MAX_SEED),
        "max_attempts": given.integer("max_attempts", 1, config.MOST_ATTEMPTS),
        "sources": given.choice("sources", [rule.value for rule in config.SourceRule]),
    }
    for name in ("sheets", "nearest"):
        if (wanted := given.take(name)) is not None:
            if not isinstance(wanted, bool):
                raise ApiRefusal(f"{OWN_FIELD}.{name} must be true or false", parameter=f"{OWN_FIELD}.{name}")
            options[name] = wanted
    webhook, hold_plan = given.text("webhook", most=2000), flag(given, "hold_plan")
    assets = assets_in(given.take("assets"), f"{OWN_FIELD}.assets")
    given.refuse_unknown()
    rules = {name: option for name, option in options.items() if option is not None}
    return OwnOptions(rules, webhook, hold_plan, assets)


def assets_in(value: Any, name: str) -> tuple[InputAsset, ...]:
    """Parse the assets of a request; their images have the same form as those of the input."""
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > types.MAX_REQUEST_ASSETS:
        raise ApiRefusal(
            f"{name} must be a list of at most {types.MAX_REQUEST_ASSETS} assets", parameter=name
        )
    assets = tuple(_asset(each, f"{name}[{number}]") for number, each in enumerate(value))
    names = [asset.name.lower() for asset in assets]
    for number, asset in enumerate(assets):
        if asset.name.lower() in names[:number]:
            raise ApiRefusal(
                f"{name}: two assets have the name {asset.name!r}", parameter=f"{name}[{number}].name"
            )
    return assets


def _asset(value: Any, name: str) -> InputAsset:
    if not isinstance(value, dict):
        raise ApiRefusal(f"{name} must be an object with a name", parameter=name)
    given = parameters_of(value, ASSET_FIELDS)
    called = text_of(given.take("name"), f"{name}.name").strip()
    if not types.is_asset_name(called):
        raise ApiRefusal(f"{name}.name must be a few words, as in prompts", parameter=f"{name}.name")
    kind = given.take("kind") or "character"
    if kind not in get_args(types.AssetKind):
        raise ApiRefusal(
            f"{name}.kind must be one of {', '.join(get_args(types.AssetKind))}", parameter=f"{name}.kind"
        )
    description = text_of(given.take("description") or "", f"{name}.description").strip()
    if len(description) > text.MAX_FIELD_CHARACTERS:
        raise ApiRefusal(
            f"{name}.description has more than {text.MAX_FIELD_CHARACTERS:,} characters",
            parameter=f"{name}.description",
        )
    has_image = any(value.get(each) is not None for each in ("image_url", "file_id"))
    image = given_image(value, name) if has_image else None
    given.take("image_url"), given.take("file_id")
    given.refuse_unknown()
    if image is None and not description:
        raise ApiRefusal(f"{name} needs an image (image_url or file_id) or a description", parameter=name)
    return InputAsset(called, cast(types.AssetKind, kind), description, image)


def given_image(part: Mapping[str, Any], name: str) -> InputImage:
    """Return the image of an object with either `image_url` or `file_id`."""
    file, url = part.get("file_id"), part.get("image_url")
    if (file is None) == (url is None):
        raise ApiRefusal(f"{name} needs either image_url or file_id", parameter=name)
    if file is not None:
        if not isinstance(file, str) or not is_file_id(file):
            raise unknown("file", str(file))
        return FileReference(file)
    return image_at(url, f"{name}.image_url")


def parts_in(value: list[Any], name: str, read: Callable[[Any, str], list[InputPart]]) -> list[InputPart]:
    """Return the parts of all items of a list in order, within the limit."""
    if len(value) > MAX_PARTS:
        raise ApiRefusal(f"{name} has more than {MAX_PARTS} items", parameter=name)
    parts = [part for number, item in enumerate(value) for part in read(item, f"{name}[{number}]")]
    if len(parts) > MAX_PARTS:
        raise ApiRefusal(f"{name} has more than {MAX_PARTS} parts", parameter=name)
    return parts


def refuse_held_plan(hold_plan: bool) -> None:
    """Refuse `hold_plan` in APIs whose clients cannot return for the released document."""
    if hold_plan:
        raise ApiRefusal(f"{OWN_FIELD}.hold_plan: use /v1/responses to hold plans", parameter=OWN_FIELD)


def text_of(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ApiRefusal(f"{name} must be a string", parameter=name)
    if problem := text.unusable(value):
        raise ApiRefusal(f"{name} cannot be used: {problem}", parameter=name)
    return value


def image_at(url: Any, name: str) -> InputImage:
    """Return the image of a `data:` URL, or of an address of this service, which is read from disk."""
    url = url.get("url") if isinstance(url, dict) else url  # as in Chat Completions
    if isinstance(url, str) and (shared := shared_image(url)) is not None:
        return shared
    if not isinstance(url, str) or not url[:5].lower() == "data:":
        raise ApiRefusal(
            f"{name}: send the image itself, as data:image/png;base64,… or by file_id; the service "
            "fetches nothing",
            parameter=name,
            code="invalid_image_url",
        )
    return encoded_image(url, name)


def encoded_image(text: Any, name: str) -> EncodedImage:
    try:
        return image_from_base64(text, name=name)
    except Refusal as reason:
        raise ApiRefusal(str(reason), parameter=name, code="invalid_base64_image") from None
