"""Request bodies of `generateContent`, parsed and checked. No field is silently ignored.

Google's JSON allows two spellings of each field, `inlineData` and `inline_data`; its SDK sends both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from interleave.service.documents.input_roles import parts_with_roles
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.submissions import (
    OWN_FIELD,
    InputPart,
    Submission,
    digest_of,
    encoded_image,
    model_in,
    own_options,
    parameters_of,
    refuse_held_plan,
    text_of,
)
from interleave.service.generator.parameters import MAX_SEED, Parameters

ROLES = (None, "", "user", "model", "system")
MODALITIES = {"TEXT", "IMAGE"}
KNOWN = (
    *("contents", "systemInstruction", "generationConfig", "tools", "toolConfig", "safetySettings"),
    *("cachedContent", "labels", "model", OWN_FIELD),
)
CONFIG = (
    *("responseModalities", "seed", "candidateCount", "temperature", "topP", "topK", "maxOutputTokens"),
    *("stopSequences", "responseMimeType", "responseSchema", "responseJsonSchema", "imageConfig"),
    *("presencePenalty", "frequencyPenalty", "responseLogprobs", "logprobs", "thinkingConfig"),
    *("speechConfig", "mediaResolution", "audioTimestamp", "enableEnhancedCivicAnswers"),
)
PART_METADATA = {"thought", "thoughtSignature", "videoMetadata", "mediaResolution"}
"""Fields of a part other than its content."""
_URL_ALPHABET = str.maketrans("-_", "+/")
_SNAKE = re.compile(r"_([a-z])")


def parse_content(
    body: dict[str, Any], models: tuple[str, ...], ignored: Iterable[str] = (), *, model: str
) -> Submission:
    """Parse the submission in a body; a `Refusal` names the invalid field."""
    ignored = tuple(ignored)
    parameters = parameters_of(_camel(body, "the request"), KNOWN, ignored)
    own = own_options(parameters.take(OWN_FIELD))
    refuse_held_plan(own.hold_plan)
    system = parameters.take("systemInstruction")
    instructions = [] if system is None else _content(system, "systemInstruction")
    seed = _config(parameters.take("generationConfig"), ignored)
    for name in ("tools", "safetySettings", "labels"):
        if parameters.take(name) not in (None, [], {}):
            raise ApiRefusal(f"{name} has no effect on documents: omit it", parameter=name)
    parameters.take("model")  # the path names the model
    said, roles = _contents(parameters.take("contents"))
    submission = Submission(
        parts=(*instructions, *said),
        roles=(*["system" for _ in instructions], *roles),
        model=model_in(model, models),
        digest=digest_of({"model": model, "body": body}),
        options=own.rules if seed is None else {"seed": seed, **own.rules},
        webhook=own.webhook,
        assets=own.assets,
    )
    parameters.refuse_unknown()
    return submission


def _config(value: Any, ignored: tuple[str, ...]) -> int | None:
    """Check `generationConfig` and return its seed."""
    if value is None:
        return None
    config = parameters_of(_camel(value, "generationConfig"), CONFIG, ignored)
    _check_modalities(config)
    because = "it has no effect on documents"
    for name, default in {"temperature": 1, "topP": 1, "presencePenalty": 0, "frequencyPenalty": 0}.items():
        config.only(name, default, because=because)
    config.only("candidateCount", 1, because="each request makes one document")
    config.only("responseMimeType", "text/plain", because="documents are text and images")
    if config.take("imageConfig") not in (None, {}):
        raise ApiRefusal("imageConfig: the generator's settings decide it; omit it", parameter="imageConfig")
    seed = config.integer("seed", 0, MAX_SEED)
    config.refuse_unknown()
    return seed


def _check_modalities(config: Parameters) -> None:
    value = config.take("responseModalities")
    if value is None:
        return
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ApiRefusal("responseModalities must be a list of strings", parameter="responseModalities")
    if {each.upper() for each in value} != MODALITIES:
        raise ApiRefusal(
            'responseModalities must be ["TEXT", "IMAGE"]',
            parameter="responseModalities",
        )


def _contents(value: Any) -> tuple[list[InputPart], list[str]]:
    """Return the texts and images of all contents in order, and the role of each."""
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list) or not value:
        raise ApiRefusal("contents must be a list of objects with parts", parameter="contents")
    return parts_with_roles(value, "contents", _content)


def _content(value: Any, name: str) -> list[InputPart]:
    content = _camel(value, name)
    if content.get("role") not in ROLES:
        raise ApiRefusal(f"{name}.role must be user or model", parameter=f"{name}.role")
    parts = content.get("parts")
    if isinstance(parts, dict):
        parts = [parts]
    if not isinstance(parts, list):
        raise ApiRefusal(f"{name}.parts must be a list", parameter=f"{name}.parts")
    found = [_part(part, f"{name}.parts[{number}]") for number, part in enumerate(parts)]
    return [part for part in found if part is not None and part != ""]


def _part(value: Any, name: str) -> InputPart | None:
    """Return a text or an image; `None` for a thought of an earlier answer."""
    part = _camel(value, name)
    kinds = {kind for kind, given in part.items() if given is not None and kind not in PART_METADATA}
    if part.get("thought") is True:
        return None
    if kinds == {"text"}:
        return text_of(part["text"], f"{name}.text")
    if kinds == {"inlineData"}:
        name = f"{name}.inlineData"
        return encoded_image(_plain_base64(_camel(part["inlineData"], name).get("data")), name)
    raise ApiRefusal(f"{name} must be text or inlineData; the service fetches nothing", parameter=name)


def _plain_base64(data: Any) -> Any:
    """Return standard base64: Google's JSON allows both alphabets, padded or not."""
    if not isinstance(data, str):
        return data
    plain = data.rstrip("=").translate(_URL_ALPHABET)
    return plain + "=" * (-len(plain) % 4)


def _camel(value: Any, name: str) -> dict[str, Any]:
    """Return an object with camel-case fields, as in Google's documentation."""
    if not isinstance(value, dict):
        raise ApiRefusal(f"{name} must be an object", parameter=name)
    found = {_SNAKE.sub(lambda match: match[1].upper(), field): each for field, each in value.items()}
    if len(found) < len(value):
        raise ApiRefusal(f"{name}: a field is given twice", parameter=name)
    return found
