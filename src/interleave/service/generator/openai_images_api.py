"""OpenAI's Images API: `/v1/images/generations`, `/v1/images/edits`, `/v1/models`.

It also takes the parameters that other servers (SGLang-Diffusion, vLLM-Omni) add: `seed`,
`negative_prompt`, `num_inference_steps`, `guidance_scale`, `width`, `height`. Responses contain the images,
not URLs, because nothing is stored. Requests may not contain URLs, because nothing is fetched.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from interleave.plugin import one_line
from interleave.service.generator.messages import (
    MEDIA_TYPES,
    GeneratedImage,
    GenerationTask,
    GeneratorInfo,
    Job,
    OutputFormat,
)
from interleave.service.generator.parameters import MAX_SEED, Parameters, check_mask, check_sources
from interleave.service.http.decoding import EncodedImage
from interleave.service.http.refusals import Refusal

MAX_IMAGES = 10
MAX_PARTIAL_IMAGES = 3
WITHOUT_EFFECT = ("user", "safety_identifier", "prompt_cache_key", "service_tier", "metadata")
"""Parameters that SDKs and proxies add to any request; accepted and ignored."""
NO_USAGE = {
    "input_tokens": 0,
    "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
    "output_tokens": 0,
    "total_tokens": 0,
}
"""Usage of a streamed image. OpenAI's events always have one; this server counts no tokens."""
GENERATION_SETTINGS = ("num_inference_steps", "guidance_scale", "true_cfg_scale", "max_sequence_length")
SHARED = (
    *("prompt", "model", "n", "size", "quality", "background", "output_format", "output_compression"),
    *("response_format", "stream", "partial_images", *WITHOUT_EFFECT),
    *("seed", "negative_prompt", "width", "height"),
    *GENERATION_SETTINGS,
)
GENERATIONS = (*SHARED, "moderation", "style")
EDITS = (*SHARED, "image", "image[]", "mask", "input_fidelity")
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def generations(body: dict[str, Any], info: GeneratorInfo, models: tuple[str, ...]) -> Job:
    """Parse `POST /v1/images/generations`."""
    check_sources(0, info, parameter="prompt")
    parameters = Parameters(body, info, known=GENERATIONS)
    parameters.only("moderation", "auto", "low", because="this server has no moderation")
    return _job(parameters, (), None, models)


def edits(
    fields: dict[str, Any], files: Mapping[str, list[bytes]], info: GeneratorInfo, models: tuple[str, ...]
) -> Job:
    """Parse `POST /v1/images/edits`: images in `image` (one) or `image[]` (several), a mask in `mask`."""
    parameters = Parameters(fields, info, known=EDITS)
    sent = {name: data for name, data in files.items() if name not in info.ignored}
    parameters.dropped += sorted(set(files) & info.ignored)
    return _job(parameters, _sources(sent, info), _mask(sent, info), models)


def refusal(reason: Refusal) -> dict[str, Any]:
    """Return an error body in OpenAI's format."""
    status = status_of(reason)
    kind = TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    code = "model_not_found" if status == 404 and reason.parameter == "model" else None
    return {"error": {"message": str(reason), "type": kind, "param": reason.parameter, "code": code}}


def status_of(reason: Refusal) -> int:
    """Return the status of a refusal: OpenAI uses 400 instead of 422."""
    return 400 if reason.status == 422 else reason.status


def models_list(models: tuple[str, ...], created: int) -> dict[str, Any]:
    """Return the body of `GET /v1/models`."""
    return {"object": "list", "data": [model_card(name, created) for name in models]}


def model_card(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "interleave"}


def _job(
    parameters: Parameters,
    sources: tuple[EncodedImage, ...],
    mask: EncodedImage | None,
    models: tuple[str, ...],
) -> Job:
    info = parameters.info
    _check_model(parameters, models)
    prompt = parameters.prompt()
    number = parameters.integer("n", 1, MAX_IMAGES) or 1
    seed = parameters.seed()
    output = _output(parameters)
    parameters.size()
    parameters.negative_prompt()
    parameters.generation_settings(*GENERATION_SETTINGS)
    streamed = _is_streamed(parameters)
    _refuse_unsupported(parameters)
    parameters.refuse_unknown()
    # The images of one request must differ, so their seeds are consecutive.
    settings = parameters.settings
    tasks = [
        GenerationTask(prompt, (seed + k) % (MAX_SEED + 1), output=output, settings=settings)
        for k in range(number)
    ]

    def answer(images: list[GeneratedImage]) -> dict[str, Any]:
        first = images[0]
        return {
            "created": int(time.time()),
            "background": "opaque",
            "output_format": output.format,
            "size": f"{first.width}x{first.height}",
            "data": [_item(image, info) for image in images],
        }

    def events(images: list[GeneratedImage]) -> list[dict[str, Any]]:
        kind = "image_edit.completed" if sources else "image_generation.completed"
        return [_event(kind, image, output, info) for image in images]

    return Job(tasks, answer, parameters.dropped, sources, mask, events if streamed else None)


def _event(kind: str, image: GeneratedImage, output: OutputFormat, info: GeneratorInfo) -> dict[str, Any]:
    """Return the event of a streamed image, in the form OpenAI's client reads."""
    return {
        "type": kind,
        **_item(image, info),
        "created_at": int(time.time()),
        "background": "opaque",
        "output_format": output.format,
        "quality": "auto",
        "size": f"{image.width}x{image.height}",
        "usage": NO_USAGE,
    }


def _is_streamed(parameters: Parameters) -> bool:
    """Return whether the response is a stream of events.

    OpenAI's API allows fewer partial images than requested. This server sends none, and lists the parameter
    in the header of dropped parameters.
    """
    if parameters.integer("partial_images", 0, MAX_PARTIAL_IMAGES):
        parameters.dropped.append("partial_images")
    return parameters.boolean("stream")


def _item(image: GeneratedImage, info: GeneratorInfo) -> dict[str, Any]:
    item: dict[str, Any] = {"b64_json": image.data}
    return item | ({"seed": image.seed} if info.capabilities.seeds else {})


def _check_model(parameters: Parameters, models: tuple[str, ...]) -> None:
    model = parameters.text("model")
    if model is not None and model not in models:
        raise Refusal(
            f"no model {one_line(model, 80)!r}; this server has {', '.join(models)}",
            status=404,
            parameter="model",
        )


def _output(parameters: Parameters) -> OutputFormat:
    chosen = parameters.choice("output_format", MEDIA_TYPES) or "png"
    quality = parameters.integer("output_compression", 0, 100)
    if chosen == "png" and quality is not None and quality != 100:
        raise Refusal(
            "output_compression: PNG is lossless and has no quality; request jpeg or webp",
            parameter="output_compression",
        )
    return OutputFormat(chosen, quality)


def _refuse_unsupported(parameters: Parameters) -> None:
    parameters.only("response_format", "b64_json", because="images are returned as b64_json")
    parameters.only("quality", "auto", because="the generator decides the quality")
    parameters.only("background", "auto", "opaque", because="images have no transparency")
    for name in WITHOUT_EFFECT:
        if name != "metadata":
            parameters.text(name, most=256)
        elif not isinstance(parameters.take(name), dict | str | None):
            raise Refusal("metadata must be an object", parameter=name)


def _sources(files: Mapping[str, list[bytes]], info: GeneratorInfo) -> tuple[EncodedImage, ...]:
    for name in files:
        if name not in ("image", "image[]", "mask"):
            raise Refusal(
                f"unknown file field {one_line(name, 60)!r}: send images as image[]", parameter="image"
            )
    images = [*files.get("image", []), *files.get("image[]", [])]
    if not images:
        raise Refusal("no image to edit: send one as image, or several as image[]", parameter="image")
    check_sources(len(images), info)
    return tuple(EncodedImage(data, "image") for data in images)


def _mask(files: Mapping[str, list[bytes]], info: GeneratorInfo) -> EncodedImage | None:
    """Return the mask of an edit. Its transparent areas are redrawn."""
    masks = files.get("mask", [])
    check_mask(bool(masks), info, parameter="mask")
    if len(masks) > 1:
        raise Refusal("mask: send one mask, for the first image", parameter="mask")
    return EncodedImage(masks[0], "mask", transparent_mask=True) if masks else None
