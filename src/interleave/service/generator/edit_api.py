"""The API of the reference's services: `/edit`, `/edit-upload`, and EditThinker's `/generate` and `/fill`.

Fields and responses are theirs, so that their trainer works with this server. What differs: parameters that
they accept and ignore are refused unless they name what the server draws with anyway; `original_image` is
null, because the client has it; failures have a fitting status instead of 500 for all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from interleave.service.generator.messages import Drawing, DrawnImage, Job, ServiceFacts
from interleave.service.generator.parameters import Parameters, check_mask, check_sources
from interleave.service.http.decoding import EncodedImage
from interleave.service.http.refusals import Refusal
from interleave.service.http.request_bodies import image_from_base64

SHARED = ("prompt", "negative_prompt", "seed", "enhance_prompt", "width", "height")
DRAWING = ("num_inference_steps", "num_inference_step", "guidance_scale", "max_sequence_length")
EDITING = ("text_guidance_scale", "image_guidance_scale")
EDIT = (*SHARED, *DRAWING, *EDITING, "image", "mask_image", "num_images_per_prompt")
UPLOADS = ("image_file", "mask_file")
GENERATE = (*SHARED, *DRAWING, "aspect_ratio")


def edit(body: dict[str, Any], facts: ServiceFacts, request_id: str) -> Job:
    """`POST /edit`: `image` is base64, null for text-to-image, or a list for several sources.

    `mask_image` says what is redrawn of it: white. `POST /fill` is the same, for services that need a mask.
    """
    parameters = Parameters(body, facts, known=EDIT)
    image, mask = parameters.take("image"), parameters.take("mask_image")
    given = image if isinstance(image, list) else [] if image is None else [image]
    check_sources(len(given), facts)
    check_mask(mask is not None, facts, parameter="mask_image")
    sources = [image_from_base64(each, name="image") for each in given]
    decoded = None if mask is None else image_from_base64(mask, name="mask_image")
    return _edit_job(parameters, sources, decoded, request_id)


def edit_upload(
    fields: dict[str, Any], files: dict[str, list[bytes]], facts: ServiceFacts, request_id: str
) -> Job:
    """`POST /edit-upload`: the same as a form, its image in `image_file`, its mask in `mask_file`."""
    one_each = all(len(sent) == 1 for sent in files.values())
    if "image_file" not in files or not one_each or not set(files) <= set(UPLOADS):
        raise Refusal(
            "send one image, in the field image_file, and its mask, if any, in mask_file",
            parameter="image_file",
        )
    check_sources(1, facts, parameter="image_file")
    check_mask("mask_file" in files, facts, parameter="mask_file")
    source, *mask = (EncodedImage(files[name][0], name) for name in UPLOADS if name in files)
    return _edit_job(Parameters(fields, facts, known=EDIT), [source], mask[0] if mask else None, request_id)


def generate(body: dict[str, Any], facts: ServiceFacts, request_id: str) -> Job:
    """`POST /generate`: text-to-image."""
    parameters = Parameters(body, facts, known=GENERATE)
    check_sources(0, facts)
    drawing = _drawing(parameters)
    started = time.monotonic()

    def answer(images: list[DrawnImage]) -> dict[str, Any]:
        return {
            **_common(images[0], facts, request_id),
            "image": images[0].data,
            "enhanced_prompt": None,
            "generation_time": time.monotonic() - started,
        }

    return Job([drawing], answer, parameters.dropped)


def refusal(reason: Refusal) -> dict[str, Any]:
    """The body of an error: their `detail`, and the two fields that their trainer reads."""
    return {"success": False, "error": str(reason), "detail": str(reason)}


def _edit_job(
    parameters: Parameters, sources: Sequence[EncodedImage], mask: EncodedImage | None, request_id: str
) -> Job:
    parameters.drawing_settings(*EDITING)
    parameters.only("num_images_per_prompt", 1, because="an answer on this wire has one image")
    drawing = _drawing(parameters)
    started = time.monotonic()

    def answer(images: list[DrawnImage]) -> dict[str, Any]:
        return {
            **_common(images[0], parameters.facts, request_id),
            "original_image": None,
            "edited_image": images[0].data,
            "original_prompt": drawing.prompt,
            "enhanced_prompt": None,
            "processing_time": time.monotonic() - started,
        }

    return Job([drawing], answer, parameters.dropped, tuple(sources), mask)


def _drawing(parameters: Parameters) -> Drawing:
    prompt, seed = parameters.prompt(), parameters.seed()
    parameters.negative_prompt()
    parameters.only("enhance_prompt", False, because="prompts are drawn as they are sent")
    parameters.drawing_settings(*DRAWING)
    parameters.size()
    parameters.refuse_unknown()
    return Drawing(prompt, seed, settings=parameters.settings)


def _common(image: DrawnImage, facts: ServiceFacts, request_id: str) -> dict[str, Any]:
    device = image.device or ""
    return {
        "success": True,
        "task_id": request_id,
        "seed": image.seed if facts.capabilities.seeds else None,
        "gpu_id": int(device) if device.isdigit() else image.worker,
        "error": None,
    }
