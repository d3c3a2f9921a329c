"""`POST /v1/responses`: the body of a request, read and checked. Nothing in it is ignored in silence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from interleave.backends.protocols import GeneratorCapabilities
from interleave.config.run_config import MOST_ATTEMPTS, SourceRule
from interleave.service.decoding import EncodedPicture
from interleave.service.documents.jobs import is_file_id, is_job_id
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.messages import Refusal, ServiceFacts
from interleave.service.parameters import MAX_SEED, Parameters
from interleave.service.request_bodies import picture_from_base64
from interleave.text import one_line, unusable

OWN_FIELD = "interleave"
"""The field of our own options in a request, and of our own facts in a response."""
OWN_OPTIONS = ("seed", "max_attempts", "sources", "webhook")
NOT_USED = ("user", "safety_identifier", "prompt_cache_key")
"""Texts that identify the client's own users: checked, repeated, and not used."""
KNOWN = (
    *("input", "model", "background", "stream", "stream_options", "previous_response_id", "metadata"),
    *("instructions", "tools", "tool_choice", "parallel_tool_calls", "store", "include", "service_tier"),
    *("temperature", "top_p", "top_logprobs", "max_output_tokens", "max_tool_calls", "truncation"),
    *("reasoning", "text", "prompt", "conversation", "prompt_cache_retention", *NOT_USED, OWN_FIELD),
)
ROLES = ("user", "system", "developer", "assistant")
TEXT_PARTS = ("input_text", "output_text", "text")
MAX_PARTS = 500
MAX_METADATA, MAX_METADATA_NAME, MAX_METADATA_VALUE = 16, 64, 512
MAX_PARTIAL_IMAGES = 3


@dataclass(frozen=True)
class FileReference:
    """A picture that was uploaded before."""

    id: str


InputPart = str | EncodedPicture | FileReference


@dataclass(frozen=True)
class Submission:
    """What a request asks for; its pictures are still to be decoded."""

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


def parse_submission(
    body: dict[str, Any], models: tuple[str, ...], ignored: Iterable[str] = ()
) -> Submission:
    """The submission in a body; raises a `Refusal` that names the parameter at fault."""
    facts = ServiceFacts(GeneratorCapabilities(), ignored=frozenset(ignored))
    parameters = Parameters(body, facts, known=KNOWN)
    options, webhook = _own_options(parameters.take(OWN_FIELD))
    instructions = parameters.text("instructions")
    parts = (*((instructions,) if instructions else ()), *_input(parameters.take("input")))
    submission = Submission(
        parts=parts,
        model=_model(parameters, models),
        digest=hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest(),
        background=_flag(parameters, "background"),
        stream=_flag(parameters, "stream"),
        previous=_previous(parameters),
        metadata=_metadata(parameters.take("metadata")),
        partial_images=_tools(parameters),
        settings={"instructions": instructions, **_settings(parameters)},
        options=options,
        webhook=webhook,
    )
    parameters.refuse_unknown()
    return submission


def _settings(parameters: Parameters) -> dict[str, Any]:
    """Parameters that a response repeats; those without effect here are taken with their defaults only."""
    because = "it has no effect on documents"
    parameters.only("temperature", 1, because=because)
    parameters.only("top_p", 1, because=because)
    parameters.only("top_logprobs", 0, because=because)
    parameters.only("truncation", "auto", "disabled", because=because)
    parameters.only("service_tier", "auto", "default", because=because)
    parameters.only("store", True, because="documents are stored until they are deleted")
    _only_mapping(parameters, "reasoning")
    _only_mapping(parameters, "text")
    _only_mapping(parameters, "stream_options")
    parameters.take("include")
    parallel = parameters.take("parallel_tool_calls")
    texts = {name: parameters.text(name, most=256) for name in NOT_USED}
    return {
        "parallel_tool_calls": parallel if isinstance(parallel, bool) else True,
        **{name: text for name, text in texts.items() if text is not None},
    }


def _only_mapping(parameters: Parameters, name: str) -> None:
    value = parameters.take(name)
    if value is not None and not isinstance(value, dict):
        raise ApiRefusal(f"{name} must be an object", parameter=name)
    if name == "text" and value and (value.get("format") or {"type": "text"}) != {"type": "text"}:
        raise ApiRefusal("text.format: a document is text and pictures, not JSON", parameter="text")


def _model(parameters: Parameters, models: tuple[str, ...]) -> str:
    model = parameters.text("model", most=256)
    if model is None:
        return models[0]
    if model not in models:
        raise ApiRefusal(
            f"there is no model {one_line(model, 80)!r} here; this service has {', '.join(models)}",
            status=404,
            parameter="model",
            code="model_not_found",
        )
    return model


def _flag(parameters: Parameters, name: str) -> bool:
    value = parameters.take(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise ApiRefusal(f"{name} must be true or false", parameter=name)


def _previous(parameters: Parameters) -> str | None:
    value = parameters.take("previous_response_id")
    if value is not None and (not isinstance(value, str) or not is_job_id(value)):
        raise unknown("previous response", str(value))
    return value


def _metadata(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    problem = ApiRefusal(
        f"metadata has at most {MAX_METADATA} pairs of texts: names of at most {MAX_METADATA_NAME} "
        f"characters, values of at most {MAX_METADATA_VALUE}",
        parameter="metadata",
    )
    if not isinstance(value, dict) or len(value) > MAX_METADATA:
        raise problem
    for name, text in value.items():
        if len(name) > MAX_METADATA_NAME or not isinstance(text, str) or len(text) > MAX_METADATA_VALUE:
            raise problem
        if unusable(name) or unusable(text):
            raise problem
    return value


def _tools(parameters: Parameters) -> int:
    """How many attempts at a picture are streamed before it is final. The only tool draws pictures."""
    tools, choice = parameters.take("tools"), parameters.take("tool_choice")
    allowed = (None, "auto", "required", {"type": "image_generation"})
    if choice not in allowed:
        raise ApiRefusal("tool_choice: the only tool here is image_generation", parameter="tool_choice")
    if tools is None:
        return 0
    if not isinstance(tools, list) or len(tools) > 1:
        raise ApiRefusal("tools: the only tool here is image_generation", parameter="tools")
    for tool in tools:
        if not isinstance(tool, dict) or tool.get("type") != "image_generation":
            raise ApiRefusal("tools: the only tool here is image_generation", parameter="tools")
        given = Parameters(
            {name: value for name, value in tool.items() if name != "type"},
            parameters.facts,
            known=("partial_images", "output_format", "quality", "size", "background", "model"),
        )
        for name in ("quality", "size", "background"):
            given.only(name, "auto", because="the generator's own settings decide it")
        given.only("output_format", "png", because="pictures are PNG files")
        partial = given.integer("partial_images", 0, MAX_PARTIAL_IMAGES)
        given.refuse_unknown()
        return partial or 0
    return 0


def _own_options(value: Any) -> tuple[dict[str, Any], str | None]:
    if value is None:
        return {}, None
    if not isinstance(value, dict):
        raise ApiRefusal(f"{OWN_FIELD} must be an object", parameter=OWN_FIELD)
    given = Parameters(value, ServiceFacts(GeneratorCapabilities()), known=OWN_OPTIONS)
    options = {
        "seed": given.integer("seed", 0, MAX_SEED),
        "max_attempts": given.integer("max_attempts", 1, MOST_ATTEMPTS),
        "sources": given.choice("sources", [rule.value for rule in SourceRule]),
    }
    webhook = given.text("webhook", most=2000)
    given.refuse_unknown()
    return {name: option for name, option in options.items() if option is not None}, webhook


def _input(value: Any) -> list[InputPart]:
    """The parts of `input` in order: a text, or messages with texts and pictures."""
    if isinstance(value, str):
        return [_text(value, "input")]
    if not isinstance(value, list) or not value:
        raise ApiRefusal("input must be a text, or a list of messages", parameter="input")
    if len(value) > MAX_PARTS:
        raise ApiRefusal(f"input has more than {MAX_PARTS} items", parameter="input")
    parts = [part for number, item in enumerate(value) for part in _item(item, f"input[{number}]")]
    if len(parts) > MAX_PARTS:
        raise ApiRefusal(f"input has more than {MAX_PARTS} parts", parameter="input")
    return parts


def _item(item: Any, name: str) -> list[InputPart]:
    if not isinstance(item, dict):
        raise ApiRefusal(f"{name} must be an object", parameter=name)
    if item.get("type") == "image_generation_call":  # an item of an earlier response, sent again
        return [picture_from_base64(item.get("result"), name=f"{name}.result")]
    if item.get("type", "message") != "message" or item.get("role") not in ROLES:
        raise ApiRefusal(f"{name}: items are messages with a role of {', '.join(ROLES)}", parameter=name)
    content = item.get("content")
    if isinstance(content, str):
        return [_text(content, f"{name}.content")]
    if not isinstance(content, list):
        raise ApiRefusal(f"{name}.content must be a text or a list of parts", parameter=name)
    return [_part(part, f"{name}.content[{number}]") for number, part in enumerate(content)]


def _part(part: Any, name: str) -> InputPart:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in TEXT_PARTS:
        return _text(part.get("text"), f"{name}.text")
    if kind == "input_image":
        return _picture(part, name)
    raise ApiRefusal(f"{name}: parts are input_text or input_image", parameter=name)


def _picture(part: Mapping[str, Any], name: str) -> InputPart:
    file, url = part.get("file_id"), part.get("image_url")
    if (file is None) == (url is None):
        raise ApiRefusal(f"{name} needs either image_url or file_id", parameter=name)
    if file is not None:
        if not isinstance(file, str) or not is_file_id(file):
            raise unknown("file", str(file))
        return FileReference(file)
    url = url.get("url") if isinstance(url, dict) else url  # as in Chat Completions
    if not isinstance(url, str) or not url[:5].lower() == "data:":
        raise ApiRefusal(
            f"{name}.image_url: send the picture itself, as data:image/png;base64,… or by file_id; nothing "
            "is fetched from the web",
            parameter=f"{name}.image_url",
            code="invalid_image_url",
        )
    try:
        return picture_from_base64(url, name=f"{name}.image_url")
    except Refusal as reason:
        raise ApiRefusal(str(reason), parameter=f"{name}.image_url", code="invalid_base64_image") from None


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ApiRefusal(f"{name} must be text", parameter=name)
    if problem := unusable(value):
        raise ApiRefusal(f"{name} cannot be used: {problem}", parameter=name)
    return value
