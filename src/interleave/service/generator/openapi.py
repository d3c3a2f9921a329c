"""The description of the API: `/openapi.json`, and `/docs`, a page that is made from it.

FastAPI's own page loads its scripts from another site, and its description would be empty, because bodies are
read here and not by the framework. This page has no scripts and loads nothing.
"""

from __future__ import annotations

from html import escape
from typing import Any

from interleave import __version__
from interleave.service.generator import edit_api as reference
from interleave.service.generator import openai_images_api as openai

SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
IMAGE = "a PNG, JPEG or WebP image"

PARAMETERS: dict[str, tuple[str, str]] = {
    # name: its JSON type, and what it does
    "prompt": ("string", "what is to be drawn"),
    "image": ("string", f"{IMAGE} to start from, as base64; null: drawn from text; a list for several"),
    "mask_image": ("string", f"{IMAGE} as base64: what is white in it is redrawn"),
    "seed": ("integer", "the same seed gives the same image; without one it is random"),
    "negative_prompt": ("string", "what is not to be drawn"),
    "num_inference_steps": ("integer", "denoising steps"),
    "num_inference_step": ("integer", "the same, as the reference's trainer spells it"),
    "guidance_scale": ("number", "how strongly the prompt is followed"),
    "true_cfg_scale": ("number", "the same, as Qwen-Image calls it"),
    "text_guidance_scale": ("number", "the same, as OmniGen2 calls it"),
    "image_guidance_scale": ("number", "how strongly the sources are followed; only the server's own value"),
    "max_sequence_length": ("integer", "tokens of the prompt that are read; only the server's own value"),
    "width": ("integer", "of the image, in pixels"),
    "height": ("integer", "of the image, in pixels"),
    "size": ("string", "auto, or e.g. 1024x1024"),
    "aspect_ratio": ("string", "e.g. 16:9"),
    "enhance_prompt": ("boolean", "only false: prompts are drawn as they are sent"),
    "num_images_per_prompt": ("integer", "only 1"),
    "model": ("string", "one of /v1/models"),
    "n": ("integer", f"images, 1 to {openai.MAX_IMAGES}"),
    "output_format": ("string", "png, jpeg or webp"),
    "output_compression": ("integer", "the quality of jpeg and webp, 0 to 100"),
    "response_format": ("string", "only b64_json"),
    "stream": ("boolean", "whether images come as server-sent events"),
    "partial_images": ("integer", "taken, and none are sent"),
    "quality": ("string", "only auto"),
    "background": ("string", "auto or opaque"),
    "moderation": ("string", "auto or low; there is none"),
    "style": ("string", "refused"),
    "input_fidelity": ("string", "refused"),
    "mask": ("string", f"{IMAGE}: what is transparent in it is redrawn"),
    "image[]": ("string", f"{IMAGE} to edit; repeat it for several"),
    "image_file": ("string", f"{IMAGE} to edit"),
    "mask_file": ("string", f"{IMAGE}: what is white in it is redrawn"),
    **dict.fromkeys(openai.WITHOUT_EFFECT, ("string", "taken, and without effect")),
    "metadata": ("object", "taken, and without effect"),
}
FILES = frozenset({"image_file", "mask_file", "image[]", "mask"})

DRAWING: dict[str, tuple[str, tuple[str, ...], bool]] = {
    # path: its summary, its parameters, and whether it is a form
    "/generate": ("Draw an image from text", reference.GENERATE, False),
    "/edit": ("Edit an image, or draw one from text", reference.EDIT, False),
    "/fill": ("Redraw an image where its mask is white", reference.EDIT, False),
    "/edit-upload": (
        "Edit an image that is sent as a file",
        (*(name for name in reference.EDIT if name not in ("image", "mask_image")), *reference.UPLOADS),
        True,
    ),
    "/v1/images/generations": ("OpenAI's API: draw images from text", openai.GENERATIONS, False),
    "/v1/images/edits": ("OpenAI's API: edit images", openai.EDITS, True),
}
READING = {
    "/": "What is served here",
    "/health": "Whether it can draw; needs no token",
    "/status": "Workers, queue, and what the generator draws with",
    "/metrics": "Figures for Prometheus",
    "/v1/models": "OpenAI's API: the models served here",
    "/docs": "This page",
    "/openapi.json": "This page as OpenAPI",
}


def openapi() -> dict[str, Any]:
    """The description of every route, as OpenAPI 3.1."""
    done = {"200": {"description": "done"}, "default": {"description": "refused or failed, with the reason"}}
    paths: dict[str, Any] = {
        path: {"get": {"summary": summary, "responses": done}} for path, summary in READING.items()
    }
    for path, (summary, names, form) in DRAWING.items():
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
    """The description as a page for people."""
    described = openapi()["paths"]
    return _PAGE.format(
        drawing="".join(_drawing(path, described[path]["post"]) for path in DRAWING),
        reading="".join(
            f"<tr><td><code>GET {escape(path)}</code></td><td>{escape(summary)}</td></tr>"
            for path, summary in READING.items()
        ),
    )


def _drawing(path: str, route: dict[str, Any]) -> str:
    ((kind, content),) = route["requestBody"]["content"].items()
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{schema['type']}</td>"
        f"<td>{escape(schema['description'])}</td></tr>"
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
<p>Every parameter is honoured or refused with the reason. <code>/status</code> has what the generator draws
with, and under <code>capabilities.request_settings</code> what a request may set for its own images.
The same as OpenAPI: <a href="openapi.json">openapi.json</a>.</p>
{drawing}
<h2>For reading</h2>
<table>{reading}</table>
</body></html>
"""
