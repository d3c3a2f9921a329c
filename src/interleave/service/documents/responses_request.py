"""Request bodies of `POST /v1/responses`, parsed and checked. No parameter is silently ignored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from interleave.service.documents.input_roles import parts_with_roles
from interleave.service.documents.jobs import is_job_id
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.documents.submissions import (
    NOT_USED,
    OWN_FIELD,
    ROLES,
    InputPart,
    Submission,
    digest_of,
    flag,
    given_image,
    metadata_of,
    model_in,
    own_options,
    parameters_of,
    text_of,
)
from interleave.service.generator.parameters import Parameters
from interleave.service.http.request_bodies import image_from_base64

KNOWN = (
    *("input", "model", "background", "stream", "stream_options", "previous_response_id", "metadata"),
    *("instructions", "tools", "tool_choice", "parallel_tool_calls", "store", "include", "service_tier"),
    *("temperature", "top_p", "top_logprobs", "max_output_tokens", "max_tool_calls", "truncation"),
    *("reasoning", "text", "prompt", "conversation", "prompt_cache_retention", *NOT_USED, OWN_FIELD),
)
TEXT_PARTS = ("input_text", "output_text", "text")
MAX_PARTIAL_IMAGES = 3
NO_REASONING: tuple[dict[str, Any], ...] = (
    {},
    {"effort": None},
    {"effort": "none"},
    {"summary": None},
    {"effort": None, "summary": None},
)
"""Values of `reasoning` that ask for none."""


def parse_submission(
    body: dict[str, Any], models: tuple[str, ...], ignored: Iterable[str] = ()
) -> Submission:
    """Parse the submission in a body; a `Refusal` names the invalid parameter."""
    parameters = parameters_of(body, KNOWN, ignored)
    own = own_options(parameters.take(OWN_FIELD))
    instructions = parameters.text("instructions")
    said, roles = _input(parameters.take("input"))
    above = [instructions] if instructions else []
    submission = Submission(
        parts=(*above, *said),
        roles=(*["system" for _ in above], *roles),
        model=model_in(parameters.text("model", most=256), models),
        digest=digest_of(body),
        background=flag(parameters, "background"),
        stream=flag(parameters, "stream"),
        previous=_previous(parameters),
        metadata=metadata_of(parameters.take("metadata")),
        partial_images=_tools(parameters),
        settings={"instructions": instructions, **_settings(parameters)},
        options=own.rules,
        webhook=own.webhook,
        hold_plan=own.hold_plan,
        assets=own.assets,
    )
    parameters.refuse_unknown()
    return submission


def _settings(parameters: Parameters) -> dict[str, Any]:
    """Return the parameters that a response echoes; those without effect may only have their defaults."""
    because = "it has no effect on documents"
    parameters.only("temperature", 1, because=because)
    parameters.only("top_p", 1, because=because)
    parameters.only("top_logprobs", 0, because=because)
    parameters.only("truncation", "auto", "disabled", because=because)
    parameters.only("service_tier", "auto", "default", because=because)
    parameters.only("store", True, because="documents are always stored until they are deleted")
    parameters.only("reasoning", *NO_REASONING, because=because)
    parameters.only("include", [], because=because)
    _only_mapping(parameters, "text")
    _only_mapping(parameters, "stream_options")
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
    if name == "text" and value and value.get("verbosity") not in (None, "medium"):
        raise ApiRefusal("text.verbosity has no effect on documents: omit it", parameter="text")
    if name == "text" and value and (value.get("format") or {"type": "text"}) != {"type": "text"}:
        raise ApiRefusal("text.format: documents are text and images, not JSON; omit it", parameter="text")


def _previous(parameters: Parameters) -> str | None:
    value = parameters.take("previous_response_id")
    if value is not None and (not isinstance(value, str) or not is_job_id(value)):
        raise unknown("previous response", str(value))
    return value


def _tools(parameters: Parameters) -> int:
    """Return the number of partial images to stream per image. The only tool is `image_generation`."""
    tools, choice = parameters.take("tools"), parameters.take("tool_choice")
    allowed = (None, "auto", "required", {"type": "image_generation"})
    if choice not in allowed:
        raise ApiRefusal("tool_choice: the only tool is image_generation", parameter="tool_choice")
    if tools is None:
        return 0
    if not isinstance(tools, list) or len(tools) > 1:
        raise ApiRefusal("tools: the only tool is image_generation", parameter="tools")
    for tool in tools:
        if not isinstance(tool, dict) or tool.get("type") != "image_generation":
            raise ApiRefusal("tools: the only tool is image_generation", parameter="tools")
        given = Parameters(
            {name: value for name, value in tool.items() if name != "type"},
            parameters.info,
            known=("partial_images", "output_format", "quality", "size", "background", "model"),
        )
        for name in ("quality", "size", "background"):
            given.only(name, "auto", because="the settings of the generator decide it")
        given.only("output_format", "png", because="images are PNG files")
        partial = given.integer("partial_images", 0, MAX_PARTIAL_IMAGES)
        given.refuse_unknown()
        return partial or 0
    return 0


def _input(value: Any) -> tuple[list[InputPart], list[str]]:
    """Return the parts of `input` in order, a string or messages with texts and images, and their roles."""
    if isinstance(value, str):
        return [text_of(value, "input")], ["user"]
    if not isinstance(value, list) or not value:
        raise ApiRefusal("input must be a string or a list of messages", parameter="input")
    return parts_with_roles(value, "input", _item)


def _item(item: Any, name: str) -> list[InputPart]:
    if not isinstance(item, dict):
        raise ApiRefusal(f"{name} must be an object", parameter=name)
    if item.get("type") == "image_generation_call":  # an item of an earlier response
        return [image_from_base64(item.get("result"), name=f"{name}.result")]
    if item.get("type", "message") != "message" or item.get("role") not in ROLES:
        raise ApiRefusal(f"{name} must be a message with a role of {', '.join(ROLES)}", parameter=name)
    content = item.get("content")
    if isinstance(content, str):
        return [text_of(content, f"{name}.content")]
    if not isinstance(content, list):
        raise ApiRefusal(f"{name}.content must be a string or a list of parts", parameter=name)
    return [_part(part, f"{name}.content[{number}]") for number, part in enumerate(content)]


def _part(part: Any, name: str) -> InputPart:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in TEXT_PARTS:
        return text_of(part.get("text"), f"{name}.text")
    if kind == "input_image":
        return given_image(part, name)
    raise ApiRefusal(f"{name}.type must be input_text or input_image", parameter=name)
