"""API description: `/openapi.json`, and `/docs`, a page generated from it.

FastAPI's page loads its scripts from another site, and its description would be empty, because the server
reads bodies itself. This page has no scripts and loads nothing.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from interleave import __version__
from interleave.service.generator import edit_api as reference
from interleave.service.generator import openai_images_api as openai

SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_CODE, _MARKED = re.compile("`(.+?)`"), r"<code>\1</code>"
IMAGE = "a PNG, JPEG or WebP image"

PARAMETERS: dict[str, tuple[str, str]] = {
    # name: JSON type and description
    "prompt": ("string", "Description of the image to generate."),
    "image": ("string", f"Source image: {IMAGE} as base64. A list for several, null for text-to-image."),
    "mask_image": ("string", f"Mask: {IMAGE} as base64. White areas are redrawn."),
    "seed": ("integer", "Random seed. The same seed gives the same image; the default is random."),
    "negative_prompt": ("string", "Content that the image must not show."),
    "num_inference_steps": ("integer", "Number of denoising steps."),
    "num_inference_step": ("integer", "`num_inference_steps`, as the reference's trainer spells it."),
    "guidance_scale": ("number", "Classifier-free guidance scale."),
    "true_cfg_scale": ("number", "`guidance_scale`, as Qwen-Image calls it."),
    "text_guidance_scale": ("number", "`guidance_scale`, as OmniGen2 calls it."),
    "image_guidance_scale": ("number", "Guidance of the source images. Only the server's value is accepted."),
    "max_sequence_length": ("integer", "Maximum prompt tokens. Only the server's value is accepted."),
    "width": ("integer", "Width in pixels."),
    "height": ("integer", "Height in pixels."),
    "size": ("string", "`auto`, or width x height such as `1024x1024`."),
    "aspect_ratio": ("string", "Aspect ratio such as `16:9`."),
    "enhance_prompt": ("boolean", "Only false is accepted: prompts are used unchanged."),
    "num_images_per_prompt": ("integer", "Only 1 is accepted."),
    "model": ("string", "A model listed by `/v1/models`."),
    "n": ("integer", f"Number of images, 1 to {openai.MAX_IMAGES}."),
    "output_format": ("string", "`png`, `jpeg` or `webp`."),
    "output_compression": ("integer", "Quality of `jpeg` and `webp`, 0 to 100."),
    "response_format": ("string", "Only `b64_json` is accepted."),
    "stream": ("boolean", "Whether to return images as server-sent events."),
    "partial_images": ("integer", "Accepted and ignored: no partial images are sent."),
    "quality": ("string", "Only `auto` is accepted."),
    "background": ("string", "`auto` or `opaque`."),
    "moderation": ("string", "`auto` or `low`, without effect: there is no moderation."),
    "style": ("string", "Not supported."),
    "input_fidelity": ("string", "Not supported."),
    "mask": ("string", f"Mask: {IMAGE}. Transparent areas are redrawn."),
    "image[]": ("string", f"Image to edit: {IMAGE}. Repeat the field for several."),
    "image_file": ("string", f"Image to edit: {IMAGE}."),
    "mask_file": ("string", f"Mask: {IMAGE}. White areas are redrawn."),
    **dict.fromkeys(openai.WITHOUT_EFFECT, ("string", "Accepted and ignored.")),
    "metadata": ("object", "Accepted and ignored."),
}
FILES = frozenset({"image_file", "mask_file", "image[]", "mask"})

POST_ROUTES: dict[str, tuple[str, tuple[str, ...], bool]] = {
    # path: summary, parameters, whether the body is a form
    "/generate": ("Generate an image from text", reference.GENERATE, False),
    "/edit": ("Edit an image, or generate one from text", reference.EDIT, False),
    "/fill": ("Redraw the white areas of a mask", reference.EDIT, False),
    "/edit-upload": (
        "Edit an uploaded image",
        (*(name for name in reference.EDIT if name not in ("image", "mask_image")), *reference.UPLOADS),
        True,
    ),
    "/v1/images/generations": ("OpenAI's API: generate images from text", openai.GENERATIONS, False),
    "/v1/images/edits": ("OpenAI's API: edit images", openai.EDITS, True),
}
GET_ROUTES = {
    "/": "Name and status of the server",
    "/health": "Health check; needs no token",
    "/status": "Workers, queue and generator settings",
    "/metrics": "Prometheus metrics",
    "/v1/models": "OpenAI's API: list the models",
    "/docs": "This page",
    "/openapi.json": "OpenAPI description",
}


def openapi() -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of every route."""
    done = {"200": {"description": "Success"}, "default": {"description": "Error, with its reason"}}
    paths: dict[str, Any] = {
        path: {"get": {"summary": summary, "responses": done}} for path, summary in GET_ROUTES.items()
    }
    for path, (summary, names, form) in POST_ROUTES.items():
        schema = {
            "type": "object",
            "required": ["prompt"],
            "properties": {name: _schema(name) for name in names},
        }
        kind = "multipart/form-data" if form else "application/json"
        body = {"required": True, "content": {kind: {"schema": schema}}}
        paths[path] = {"post": {"summary": summary, "requestBody": body, "responses": done}}
    bearer = {"bearer": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "interleave generator server", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": bearer},
        "security": [{"bearer": []}, {}],
    }


def _schema(name: str) -> dict[str, str]:
    kind, description = PARAMETERS[name]
    file = {"contentMediaType": "application/octet-stream"} if name in FILES else {}
    return {"type": kind, "description": description, **file}


def docs_page() -> str:
    """Return the description as an HTML page."""
    described = openapi()["paths"]
    return _PAGE.format(
        post="".join(_post_section(path, described[path]["post"]) for path in POST_ROUTES),
        get="".join(
            f"<tr><td><code>GET {escape(path)}</code></td><td>{escape(summary)}</td></tr>"
            for path, summary in GET_ROUTES.items()
        ),
    )


def _post_section(path: str, route: dict[str, Any]) -> str:
    ((kind, content),) = route["requestBody"]["content"].items()
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{schema['type']}</td>"
        f"<td>{_CODE.sub(_MARKED, escape(schema['description']))}</td></tr>"
        for name, schema in content["schema"]["properties"].items()
    )
    return (
        f"<h2><code>POST {escape(path)}</code></h2><p>{escape(route['summary'])}. "
        f"The body is <code>{escape(kind)}</code>; only <code>prompt</code> is required.</p>"
        f"<table><tr><th>parameter</th><th>type</th><th></th></tr>{rows}</table>"
    )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>interleave generator server</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-collapse: collapse; width: 100%; margin-bottom: 2rem }}
th, td {{ text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0 }}
tr {{ border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent) }}
td:first-child {{ white-space: nowrap }}
h2 {{ font-size: 1.15rem; margin: 2rem 0 .3rem }}
@media (max-width: 36rem) {{ td:first-child {{ white-space: normal; overflow-wrap: anywhere }} }}
</style></head><body>
<h1>interleave generator server</h1>
<p>The server applies each parameter, or refuses the request with the reason. <code>/status</code> lists the
generator's settings, and under <code>capabilities.request_settings</code> those a request may change.
OpenAPI description: <a href="openapi.json">openapi.json</a>.</p>
{post}
<h2>GET routes</h2>
<table>{get}</table>
</body></html>
"""
