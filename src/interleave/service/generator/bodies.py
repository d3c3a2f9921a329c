"""Bodies of the image routes, as FastAPI describes them. `Parameters` reads and checks them.

Each has the parameters that the reader of its API knows, so that none is accepted without a description.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.config import JsonDict

from interleave.service.generator import edit_api as reference
from interleave.service.generator import openai_images_api as openai

IMAGE = "a PNG, JPEG or WebP image"

PARAMETERS: dict[str, tuple[Any, str]] = {
    # name: type and description
    "prompt": (str, "Description of the image to generate."),
    "image": (str, f"Source image: {IMAGE} as base64. A list for several, null for text-to-image."),
    "mask_image": (str, f"Mask: {IMAGE} as base64. White areas are redrawn."),
    "seed": (int, "Random seed. The same seed gives the same image; the default is random."),
    "negative_prompt": (str, "Content that the image must not show."),
    "num_inference_steps": (int, "Number of denoising steps."),
    "num_inference_step": (int, "`num_inference_steps`, as the reference's trainer spells it."),
    "guidance_scale": (float, "Classifier-free guidance scale."),
    "true_cfg_scale": (float, "`guidance_scale`, as Qwen-Image calls it."),
    "text_guidance_scale": (float, "`guidance_scale`, as OmniGen2 calls it."),
    "image_guidance_scale": (float, "Guidance of the source images. Only the server's value is accepted."),
    "max_sequence_length": (int, "Maximum prompt tokens. Only the server's value is accepted."),
    "width": (int, "Width in pixels."),
    "height": (int, "Height in pixels."),
    "size": (str, "`auto`, or width x height such as `1024x1024`."),
    "aspect_ratio": (str, "Aspect ratio such as `16:9`."),
    "enhance_prompt": (bool, "Only false is accepted: prompts are used unchanged."),
    "num_images_per_prompt": (int, "Only 1 is accepted."),
    "model": (str, "A model listed by `/v1/models`."),
    "n": (int, f"Number of images, 1 to {openai.MAX_IMAGES}."),
    "output_format": (str, "`png`, `jpeg` or `webp`."),
    "output_compression": (int, "Quality of `jpeg` and `webp`, 0 to 100."),
    "response_format": (str, "Only `b64_json` is accepted."),
    "stream": (bool, "Whether to return images as server-sent events."),
    "partial_images": (int, "Accepted and ignored: no partial images are sent."),
    "quality": (str, "Only `auto` is accepted."),
    "background": (str, "`auto` or `opaque`."),
    "moderation": (str, "`auto` or `low`, without effect: there is no moderation."),
    "style": (str, "Not supported."),
    "input_fidelity": (str, "Not supported."),
    "mask": (str, f"Mask: {IMAGE}. Transparent areas are redrawn."),
    "image[]": (str, f"Image to edit: {IMAGE}. Repeat the field for several."),
    "image_file": (str, f"Image to edit: {IMAGE}."),
    "mask_file": (str, f"Mask: {IMAGE}. White areas are redrawn."),
    **dict.fromkeys(openai.WITHOUT_EFFECT, (str, "Accepted and ignored.")),
    "metadata": (dict[str, Any], "Accepted and ignored."),
}
FILES = frozenset({"image_file", "mask_file", "image[]", "mask"})


def _without_defaults(schema: dict[str, Any]) -> None:
    """A parameter that was not sent has the generator's value, which only `/status` knows."""
    for described in schema["properties"].values():
        described.pop("default", None)


def _body(name: str, parameters: tuple[str, ...]) -> type[BaseModel]:
    fields: dict[str, Any] = {parameter: _field(parameter) for parameter in parameters}
    return create_model(name, __config__=ConfigDict(json_schema_extra=_without_defaults), **fields)


def _field(name: str) -> tuple[Any, Any]:
    kind, description = PARAMETERS[name]
    file: JsonDict = {"contentMediaType": "application/octet-stream"} if name in FILES else {}
    default: Any = ... if name == "prompt" else None
    return kind, Field(default, description=description, json_schema_extra=file)


UPLOADED = tuple(name for name in reference.EDIT if name not in ("image", "mask_image"))
Generate = _body("Generate", reference.GENERATE)
Edit = _body("Edit", reference.EDIT)
EditUpload = _body("EditUpload", (*UPLOADED, *reference.UPLOADS))
ImageGenerations = _body("ImageGenerations", openai.GENERATIONS)
ImageEdits = _body("ImageEdits", openai.EDITS)
