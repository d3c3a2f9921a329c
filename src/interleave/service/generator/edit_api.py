"""API of the reference's services: `/edit`, `/edit-upload`, and EditThinker's `/generate` and `/fill`.

Fields and responses match theirs, so their trainer works with this server. Three things differ. Parameters
that they accept and ignore are refused, unless the value is the one the server uses anyway.
`original_image` is null, because the client has it. Failures have a fitting status instead of always 500.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from interleave.service.generator.messages import GeneratedImage, GenerationTask, GeneratorInfo, Job
from interleave.service.generator.parameters import Parameters, check_mask, check_sources
from interleave.service.http.decoding import EncodedImage
from interleave.service.http.refusals import Refusal
from interleave.service.http.request_bodies import image_from_base64

SHARED = ("prompt", "negative_prompt", "seed", "enhance_prompt", "width", "height")
GENERATION_SETTINGS = ("num_inference_steps", "num_inference_step", "guidance_scale", "max_sequence_length")
EDIT_SETTINGS = ("text_guidance_scale", "image_guidance_scale")
EDIT = (*SHARED, *GENERATION_SETTINGS, *EDIT_SETTINGS, "image", "mask_image", "num_images_per_prompt")
UPLOADS = ("image_file", "mask_file")
GENERATE = (*SHARED, *GENERATION_SETTINGS, "aspect_ratio")


def edit(body: dict[str, Any], info: GeneratorInfo, request_id: str) -> Job:
    """Parse `POST /edit`: `image` is base64, null for text-to-image, or a list for several sources.

    White areas of `mask_image` are redrawn. `POST /fill` is the same, for services that require a mask.
    """
    parameters = Parameters(body, info, known=EDIT)
    image, mask = parameters.take("image"), parameters.take("mask_image")
    given = image if isinstance(image, list) else [] if image is None else [image]
    check_sources(len(given), info)
    check_mask(mask is not None, info, parameter="mask_image")
    sources = [image_from_base64(each, name="image") for each in given]
    decoded = None if mask is None else image_from_base64(mask, name="mask_image")
    return _edit_job(parameters, sources, decoded, request_id)


def edit_upload(
    fields: dict[str, Any], files: dict[str, list[bytes]], info: GeneratorInfo, request_id: str
) -> Job:
    """Parse `POST /edit-upload`: `/edit` as a form with `image_file` and `mask_file`."""
    one_each = all(len(sent) == 1 for sent in files.values())
    if "image_file" not in files or not one_each or not set(files) <= set(UPLOADS):
        raise Refusal(
            "send one image in the field image_file, and optionally its mask in mask_file",
            parameter="image_file",
        )
    check_sources(1, info, parameter="image_file")
    check_mask("mask_file" in files, info, parameter="mask_file")
    source, *mask = (EncodedImage(files[name][0], name) for name in UPLOADS if name in files)
    return _edit_job(Parameters(fields, info, known=EDIT), [source], mask[0] if mask else None, request_id)


def generate(body: dict[str, Any], info: GeneratorInfo, request_id: str) -> Job:
    """Parse `POST /generate`: text-to-image."""
    parameters = Parameters(body, info, known=GENERATE)
    check_sources(0, info)
    task = _task(parameters)
    started = time.monotonic()

    def answer(images: list[GeneratedImage]) -> dict[str, Any]:
        return {
            **_common(images[0], info, request_id),
            "image": images[0].data,
            "enhanced_prompt": None,
            "generation_time": time.monotonic() - started,
        }

    return Job([task], answer, parameters.dropped)


def refusal(reason: Refusal) -> dict[str, Any]:
    """Return an error body: the reference's `detail`, and the two fields its trainer reads."""
    return {"success": False, "error": str(reason), "detail": str(reason)}


def _edit_job(
    parameters: Parameters, sources: Sequence[EncodedImage], mask: EncodedImage | None, request_id: str
) -> Job:
    parameters.generation_settings(*EDIT_SETTINGS)
    parameters.only("num_images_per_prompt", 1, because="this API returns one image per request")
    task = _task(parameters)
    started = time.monotonic()

    def answer(images: list[GeneratedImage]) -> dict[str, Any]:
        return {
            **_common(images[0], parameters.info, request_id),
            "original_image": None,
            "edited_image": images[0].data,
            "original_prompt": task.prompt,
            "enhanced_prompt": None,
            "processing_time": time.monotonic() - started,
        }

    return Job([task], answer, parameters.dropped, tuple(sources), mask)


def _task(parameters: Parameters) -> GenerationTask:
    prompt, seed = parameters.prompt(), parameters.seed()
    parameters.negative_prompt()
    parameters.only("enhance_prompt", False, because="prompts are used unchanged")
    parameters.generation_settings(*GENERATION_SETTINGS)
    parameters.size()
    parameters.refuse_unknown()
    return GenerationTask(prompt, seed, settings=parameters.settings)


def _common(image: GeneratedImage, info: GeneratorInfo, request_id: str) -> dict[str, Any]:
    device = image.device or ""
    return {
        "success": True,
        "task_id": request_id,
        "seed": image.seed if info.capabilities.seeds else None,
        "gpu_id": int(device) if device.isdigit() else image.worker,
        "error": None,
    }
