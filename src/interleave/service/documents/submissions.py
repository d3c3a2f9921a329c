"""What a client asks for, in whatever API: the value, and how the fields that all APIs have are read."""

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
from interleave.service.generator.messages import ServiceFacts
from interleave.service.generator.parameters import MAX_SEED, Parameters
from interleave.service.http.decoding import EncodedImage
from interleave.service.http.refusals import Refusal
from interleave.service.http.request_bodies import image_from_base64

OWN_FIELD = "interleave"
"""The field of our own options in a request, and of our own facts in a response."""
OWN_OPTIONS = ("seed", "max_attempts", "sources", "webhook", "hold_plan", "assets", "sheets")
ASSET_FIELDS = ("name", "kind", "description", "image_url", "file_id")
MAX_PARTS = 500
MAX_METADATA, MAX_METADATA_NAME, MAX_METADATA_VALUE = 16, 64, 512


@dataclass(frozen=True)
class FileReference:
    """An image that was uploaded before."""

    id: str


InputImage = EncodedImage | FileReference | SharedImage
InputPart = str | InputImage


@dataclass(frozen=True)
class InputAsset:
    """A named thing that must stay the same; its image is still to be decoded."""

    name: str
    kind: types.AssetKind = "character"
    description: str = ""
    image: InputImage | None = None


@dataclass(frozen=True)
class OwnOptions:
    """The field `interleave` of a request."""

    rules: dict[str, Any] = field(default_factory=dict)
    """What the client chose among the rules of its run: seed, max_attempts, sources."""
    webhook: str | None = None
    hold_plan: bool = False
    assets: tuple[InputAsset, ...] = ()


@dataclass(frozen=True)
class Submission:
    """What a request asks for; its images are still to be decoded."""

    parts: tuple[InputPart, ...]
    model: str
    digest: str
    """Of the whole body: whether two requests with one idempotency key are the same."""
    background: bool = False
    stream: bool = False
    previous: str | None = None
    metadata: dict[str, str] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    partial_images: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    """What the client chose among the rules of its run: seed, max_attempts, sources."""
    webhook: str | None = None
    hold_plan: bool = False
    assets: tuple[InputAsset, ...] = ()


def parameters_of(values: dict[str, Any], known: Iterable[str], ignored: Iterable[str] = ()) -> Parameters:
    """The fields of a body, to be taken one by one."""
    return Parameters(values, ServiceFacts(GeneratorCapabilities(), ignored=frozenset(ignored)), known=known)


def digest_of(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def model_in(name: str | None, models: tuple[str, ...]) -> str:
    """The model that a request names, the first where it names none."""
    if name is None:
        return models[0]
    if name not in models:
        raise ApiRefusal(
            f"there is no model {one_line(name, 80)!r} here; this service has {', '.join(models)}",
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
        f"metadata has at most {MAX_METADATA} pairs of texts: names of at most {MAX_METADATA_NAME} "
        f"characters, values of at most {MAX_METADATA_VALUE}",
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
    """The rules that a client chose, its webhook, whether the plan is held, and its assets."""
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
    if (sheets := given.take("sheets")) is not None:
        if not isinstance(sheets, bool):
            raise ApiRefusal(f"{OWN_FIELD}.sheets must be true or false", parameter=f"{OWN_FIELD}.sheets")
        options["sheets"] = sheets
    webhook, hold_plan = given.text("webhook", most=2000), flag(given, "hold_plan")
    assets = assets_in(given.take("assets"), f"{OWN_FIELD}.assets")
    given.refuse_unknown()
    rules = {name: option for name, option in options.items() if option is not None}
    return OwnOptions(rules, webhook, hold_plan, assets)


def assets_in(value: Any, name: str) -> tuple[InputAsset, ...]:
    """The assets of a request, checked; their images are given as those of the input are."""
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
                f"{name}: two assets are named {asset.name!r}", parameter=f"{name}[{number}].name"
            )
    return assets


def _asset(value: Any, name: str) -> InputAsset:
    if not isinstance(value, dict):
        raise ApiRefusal(f"{name} must be an object with a name", parameter=name)
    given = parameters_of(value, ASSET_FIELDS)
    called = text_of(given.take("name"), f"{name}.name").strip()
    if not types.is_asset_name(called):
        raise ApiRefusal(f"{name}.name: use a word or a few, as prompts say it", parameter=f"{name}.name")
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
    """The image of an object that has it as `image_url`, or names an upload as `file_id`."""
    file, url = part.get("file_id"), part.get("image_url")
    if (file is None) == (url is None):
        raise ApiRefusal(f"{name} needs either image_url or file_id", parameter=name)
    if file is not None:
        if not isinstance(file, str) or not is_file_id(file):
            raise unknown("file", str(file))
        return FileReference(file)
    return image_at(url, f"{name}.image_url")


def parts_in(value: list[Any], name: str, read: Callable[[Any, str], list[InputPart]]) -> list[InputPart]:
    """The parts of all items of a list, in order, within the limit."""
    if len(value) > MAX_PARTS:
        raise ApiRefusal(f"{name} has more than {MAX_PARTS} items", parameter=name)
    parts = [part for number, item in enumerate(value) for part in read(item, f"{name}[{number}]")]
    if len(parts) > MAX_PARTS:
        raise ApiRefusal(f"{name} has more than {MAX_PARTS} parts", parameter=name)
    return parts


def refuse_held_plan(hold_plan: bool) -> None:
    """A job that ends with its plan has no answer in the APIs that cannot come back to it."""
    if hold_plan:
        raise ApiRefusal(f"{OWN_FIELD}.hold_plan: plans are held with /v1/responses", parameter=OWN_FIELD)


def text_of(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ApiRefusal(f"{name} must be text", parameter=name)
    if problem := text.unusable(value):
        raise ApiRefusal(f"{name} cannot be used: {problem}", parameter=name)
    return value


def image_at(url: Any, name: str) -> InputImage:
    """The image of a `data:` URL, or of an address of our own, which is read from disk."""
    url = url.get("url") if isinstance(url, dict) else url  # as in Chat Completions
    if isinstance(url, str) and (shared := shared_image(url)) is not None:
        return shared
    if not isinstance(url, str) or not url[:5].lower() == "data:":
        raise ApiRefusal(
            f"{name}: send the image itself, as data:image/png;base64,… or by file_id; nothing "
            "is fetched from the web",
            parameter=name,
            code="invalid_image_url",
        )
    return encoded_image(url, name)


def encoded_image(text: Any, name: str) -> EncodedImage:
    try:
        return image_from_base64(text, name=name)
    except Refusal as reason:
        raise ApiRefusal(str(reason), parameter=name, code="invalid_base64_image") from None
