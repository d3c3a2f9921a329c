"""Request bodies of `POST /v1/chat/completions`, parsed and checked. No parameter is silently ignored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from interleave.service.documents.input_roles import parts_with_roles
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.shared_images import split_at_images
from interleave.service.documents.submissions import (
    NOT_USED,
    OWN_FIELD,
    ROLES,
    InputPart,
    Submission,
    digest_of,
    flag,
    image_at,
    metadata_of,
    model_in,
    own_options,
    parameters_of,
    refuse_held_plan,
    text_of,
)
from interleave.service.generator.parameters import MAX_SEED, Parameters

Images = Literal["url", "data", "markdown"]
IMAGES: tuple[Images, ...] = ("url", "data", "markdown")
MODALITIES = {"text", "image"}
KNOWN = (
    *("messages", "model", "modalities", "pictures", "stream", "stream_options", "n", "seed", "metadata"),
    *("temperature", "top_p", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "stop"),
    *("top_logprobs", "max_tokens", "max_completion_tokens", "response_format", "reasoning_effort"),
    *("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "store", "audio"),
    *("service_tier", "prediction", "verbosity", "web_search_options", *NOT_USED, OWN_FIELD),
)


@dataclass(frozen=True)
class ChatSubmission(Submission):
    """A parsed chat request."""

    images: Images | None = None
    """Form of images in the answer; `None` if the body does not specify it."""
    include_usage: bool = False
    """Whether a stream ends with a usage chunk."""


def parse_chat(body: dict[str, Any], models: tuple[str, ...], ignored: Iterable[str] = ()) -> ChatSubmission:
    """Parse the submission in a body; a `Refusal` names the invalid parameter."""
    parameters = parameters_of(body, KNOWN, ignored)
    own = own_options(parameters.take(OWN_FIELD))
    refuse_held_plan(own.hold_plan)
    seed = parameters.integer("seed", 0, MAX_SEED)
    _check_modalities(parameters)
    _check_settings(parameters)
    parts, roles = _messages(parameters.take("messages"))
    submission = ChatSubmission(
        parts=tuple(parts),
        roles=tuple(roles),
        model=model_in(parameters.text("model", most=256), models),
        digest=digest_of(body),
        stream=flag(parameters, "stream"),
        metadata=metadata_of(parameters.take("metadata")),
        options=own.rules if seed is None else {"seed": seed, **own.rules},
        webhook=own.webhook,
        assets=own.assets,
        images=images_choice(parameters.take("pictures")),
        include_usage=_include_usage(parameters.take("stream_options")),
    )
    parameters.refuse_unknown()
    return submission


def images_choice(value: Any) -> Images | None:
    """Return the form of images in an answer, from the body, the query or a header."""
    if value is None:
        return None
    for choice in IMAGES:
        if value == choice:
            return choice
    raise ApiRefusal(f"pictures must be one of {', '.join(IMAGES)}", parameter="pictures")


def _check_modalities(parameters: Parameters) -> None:
    value = parameters.take("modalities")
    if value is None:
        return
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ApiRefusal("modalities must be a list of strings", parameter="modalities")
    if {each.lower() for each in value} != MODALITIES:
        raise ApiRefusal('modalities must be ["text", "image"]', parameter="modalities")


def _check_settings(parameters: Parameters) -> None:
    """Refuse parameters without effect, unless they have their defaults."""
    because = "it has no effect on documents"
    for name in ("temperature", "top_p"):
        parameters.only(name, 1, because=because)
    for name in ("frequency_penalty", "presence_penalty", "top_logprobs"):
        parameters.only(name, 0, because=because)
    parameters.only("n", 1, because="each request makes one document")
    parameters.only("logprobs", False, because=because)
    parameters.only("service_tier", "auto", "default", because=because)
    parameters.only("store", True, because="documents are always stored until they are deleted")
    # Accept a list of tools, which chat programs send with every request; none is ever called.
    parameters.only("tool_choice", "none", "auto", because="this service does not call tools")
    if not isinstance(parameters.take("tools") or [], list):
        raise ApiRefusal("tools must be a list", parameter="tools")
    for name in ("functions", "logit_bias", "stop"):
        if parameters.take(name) not in (None, [], {}):
            raise ApiRefusal(f"{name} has no effect on documents: omit it", parameter=name)
    if parameters.take("response_format") not in (None, {"type": "text"}):
        raise ApiRefusal(
            "response_format: documents are text and images, not JSON; omit it", parameter="response_format"
        )
    flag(parameters, "parallel_tool_calls")
    for name in NOT_USED:
        parameters.text(name, most=256)


def _include_usage(value: Any) -> bool:
    if value is None:
        return False
    if not isinstance(value, dict):
        raise ApiRefusal("stream_options must be an object", parameter="stream_options")
    return bool(value.get("include_usage"))


def _messages(value: Any) -> tuple[list[InputPart], list[str]]:
    """Return the texts and images of all messages in order, and the role of each."""
    if not isinstance(value, list) or not value:
        raise ApiRefusal("messages must be a list of messages", parameter="messages")
    return parts_with_roles(value, "messages", _message)


def _message(message: Any, name: str) -> list[InputPart]:
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise ApiRefusal(f"{name} must be a message with a role of {', '.join(ROLES)}", parameter=name)
    if message.get("tool_calls") or message.get("function_call"):
        raise ApiRefusal(f"{name}: this service does not call tools", parameter=name)
    answer = message["role"] == "assistant"
    content, images = message.get("content"), message.get("images")
    parts: list[InputPart] = []
    if isinstance(content, str):
        parts += _content(content, f"{name}.content", answer=answer)
    elif isinstance(content, list):
        for number, part in enumerate(content):
            parts += _part(part, f"{name}.content[{number}]", answer=answer)
    elif content is not None or not answer:
        raise ApiRefusal(f"{name}.content must be a string or a list of parts", parameter=f"{name}.content")
    if images is not None:  # of an earlier answer
        if not isinstance(images, list):
            raise ApiRefusal(f"{name}.images must be a list", parameter=f"{name}.images")
        for number, part in enumerate(images):
            parts += _part(part, f"{name}.images[{number}]", answer=answer)
    return parts


def _part(part: Any, name: str, *, answer: bool) -> list[InputPart]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text":
        return _content(part.get("text"), f"{name}.text", answer=answer)
    if kind == "image_url":
        return [image_at(part.get("image_url"), f"{name}.image_url")]
    raise ApiRefusal(f"{name}.type must be text or image_url", parameter=name)


def _content(value: Any, name: str, *, answer: bool) -> list[InputPart]:
    """Return a text; in an earlier answer, Markdown images with addresses of this service become images."""
    text = text_of(value, name)
    if answer:
        return [*split_at_images(text)]
    return [text]
