"""Documents as content blocks of tool results: text, small images and links, in order.

Hosts limit results to about a megabyte, and several show `structuredContent` instead of the blocks, which
would hide the images. So a result has blocks only, each image is small, and the full files are resources.
"""

from __future__ import annotations

import base64
import io
import re
from collections import OrderedDict
from typing import Any

import anyio.to_thread
from mcp_types import CallToolResult, ContentBlock, ImageContent, ResourceLink, TextContent
from PIL import Image

from interleave.plugin import one_line
from interleave.service.mcp.api import DOCUMENTS, Api

SCHEME = "interleave://documents"
MAX_SIDE = 512
IMAGE_BYTES = 60_000
MAX_IMAGES = 12
"""Images of one result: together at most 960 kB as base64."""
TEXT_CHARACTERS = 1_500
"""Characters of a step's text; the resources have all of it."""
PROMPT_CHARACTERS = 600
ALT_CHARACTERS = 160
_MARKUP = re.compile(r"[\\\[\]<>`]")
QUALITIES = (85, 70, 50, 30)
MEDIA_TYPE = "image/jpeg"
"""Every vision model reads it, also those of local servers that have no WebP."""
_small: OrderedDict[str, bytes] = OrderedDict()
SMALL_KEPT = 256


def text(said: str) -> TextContent:
    return TextContent(text=said)


def document_uri(id_: str, name: str = "document.html") -> str:
    return f"{SCHEME}/{id_}/{name}"


def image_name(picture: str) -> str:
    return picture.rpartition("/")[2]


async def small_image(api: Api, id_: str, picture: str) -> ImageContent | None:
    """Return an image of a document, scaled down; `None` if it is gone."""
    name = image_name(picture)
    data = _small.get(name)
    if data is None:
        full = (await api.get(f"{DOCUMENTS}/{id_}/pictures/{name}")).content
        data = await anyio.to_thread.run_sync(scaled_down, full)
        _small[name] = data  # its name is the hash of its content
        while len(_small) > SMALL_KEPT:
            _small.popitem(last=False)
    return ImageContent(data=base64.b64encode(data).decode(), mime_type=MEDIA_TYPE)


def scaled_down(data: bytes) -> bytes:
    """Return an image as a JPEG file of at most `IMAGE_BYTES`."""
    with Image.open(io.BytesIO(data)) as opened:
        small = opened.convert("RGB")
    side = MAX_SIDE
    while True:
        small.thumbnail((side, side))
        for quality in QUALITIES:
            buffer = io.BytesIO()
            small.save(buffer, "JPEG", quality=quality)
            if buffer.tell() <= IMAGE_BYTES:
                return buffer.getvalue()
        side //= 2


def markdown_image(alt: str, address: str) -> str:
    """Return an image as Markdown that a model repeats as it stands.

    Hosts such as Open WebUI give the model results as JSON, and what it copies may keep the escapes. So the
    address ends with a bracket, not with a line, and the text has no characters that need a backslash.
    """
    plain = _MARKUP.sub(" ", alt).replace('"', "'")
    return f"![{one_line(' '.join(plain.split()), ALT_CHARACTERS)}]({address})"


def clipped(said: str, most: int = TEXT_CHARACTERS) -> str:
    return said if len(said) <= most else f"{said[:most]}… ({len(said):,} characters, shortened)"


async def document_result(
    api: Api, document: dict[str, Any], *, first_step: int | None = None
) -> CallToolResult:
    """Return a document as it is now: its state, its steps in order, and links to its files.

    The images of one result begin at `first_step` and are limited; the text says how to get the others.
    """
    status, shown = document["status"], None
    if document.get("steps") and status not in ("held", "asked"):
        shown = await api.shown(document["id"])
        document = {**document, "title": shown["title"]}
    blocks: list[ContentBlock] = [text(state_text(document))]
    if status in ("held", "asked"):
        blocks.append(text(plan_text(document)))
    elif shown is not None:
        blocks += await _steps(api, document, shown["steps"], first_step)
    return CallToolResult(content=blocks, is_error=status == "failed")


def state_text(document: dict[str, Any]) -> str:
    """Return what a document is, and what may be done next."""
    id_, status = document["id"], document["status"]
    lines = [f"# {one_line(document['title'], 200)}", f"document: {id_}", f"status: {status}"]
    if document.get("error"):
        lines.append(f"error: {document['error']['message']}")
        if nearest := document["error"].get("nearest"):
            lines.append("requests it can answer: " + "; ".join(map(repr, nearest)))
    elif document.get("reason"):
        lines.append(f"reason: {document['reason']}")
    if forced := document.get("forced"):
        steps = ", ".join(map(str, forced))
        lines.append(
            f"not accepted by the critic: step {steps}. Look at it, and redraw it with a better prompt."
        )
    lines += [f"note: {note}" for note in document.get("notes", [])]
    lines += NEXT.get(status, [])
    return "\n".join(lines)


NEXT = {
    "queued": ["next: call look_at_document with this document to wait for it"],
    "in_progress": ["next: call look_at_document with this document to wait for it"],
    "held": ["next: show the plan to the user, then call make_document with this document"],
    "asked": [
        "next: mend the plan or ask the user, then call make_document with this document and its steps"
    ],
    "failed": ["next: call make_document with this document to continue where it stopped"],
    "incomplete": ["next: call make_document with this document to continue where it stopped"],
    "cancelled": ["next: call make_document with this document to continue where it stopped"],
}


def plan_text(document: dict[str, Any]) -> str:
    """Return the plan of a document that waits for a person."""
    lines = ["## Plan"]
    for step in (document.get("plan") or {}).get("steps", []):
        lines.append(f"{step['number']}. {clipped(step.get('caption') or step.get('instruction') or '')}")
        prompt = step.get("prompt")
        lines.append(f"   image: {clipped(prompt, PROMPT_CHARACTERS)}" if prompt else "   no image")
    if missing := document.get("missing"):
        lines.append("The plan lacks: " + "; ".join(missing))
    return "\n".join(lines)


async def _steps(
    api: Api, document: dict[str, Any], shown: list[dict[str, Any]], first_step: int | None
) -> list[ContentBlock]:
    id_, blocks, links, left_out = document["id"], list[ContentBlock](), list[ContentBlock](), list[int]()
    details = {step["number"]: step for step in document["steps"]}
    for step in shown:
        if first_step is not None and step["step"] < first_step:
            continue
        blocks.append(text(await _step_text(api, step, details[step["step"]])))
        if step["picture"] is None:
            continue
        if len(links) >= MAX_IMAGES:
            left_out.append(step["step"])
            continue
        image = await small_image(api, id_, step["picture"])
        if image is not None:
            blocks.append(image)
        links.append(_image_link(id_, step))
    if left_out:
        blocks.append(
            text(
                f"Images of steps {left_out[0]} to {left_out[-1]} are not in this result: "
                f"call look_at_document with first_step={left_out[0]}."
            )
        )
    return [*blocks, *links, await page_link(api, document)]


async def _step_text(api: Api, step: dict[str, Any], details: dict[str, Any]) -> str:
    heading = f"## Step {step['step']}" + (f": {step['name']}" if step["name"] else "")
    lines = [heading, clipped(step["text"])]
    if step["picture"]:
        tries = len(details["attempts"])
        lines.append(markdown_image(step["alt"] or step["text"], await api.public_url(step["picture"])))
        lines += [f"attempts: {tries}"] if tries > 1 else []
        lines += ["not accepted by the critic"] if details["forced"] else []
    elif details["state"] == "unfinished":
        lines.append("(its image is not made yet)")
    lines += [f"note: {step['note']}"] if step["note"] else []
    return "\n".join(line for line in lines if line)


def _image_link(id_: str, step: dict[str, Any]) -> ResourceLink:
    return ResourceLink(
        uri=document_uri(id_, f"images/{image_name(step['picture'])}"),
        name=f"step-{step['step']}.png",
        title=f"Full image of step {step['step']}",
        description=one_line(step["alt"], 200) or None,
        mime_type="image/png",
    )


async def page_link(api: Api, document: dict[str, Any]) -> ResourceLink:
    """Return the link to the reading page of a document, which includes its images."""
    page = await api.public_url(f"{DOCUMENTS}/{document['id']}/document.html")
    return ResourceLink(
        uri=document_uri(document["id"]),
        name="document.html",
        title=one_line(document["title"], 100) or "Document",
        description=f"The whole document as one page, also at {page}",
        mime_type="text/html",
    )


async def attempts_result(api: Api, document: dict[str, Any], number: int) -> CallToolResult:
    """Return all attempts of a step, each with its image, prompt and verdict."""
    steps = {step["number"]: step for step in document.get("steps", [])}
    step = steps.get(number)
    if step is None:
        return CallToolResult(content=[text(f"the document has no step {number}")], is_error=True)
    shown = step["shown"]
    blocks: list[ContentBlock] = [
        text(f"# Step {number}: {clipped(step['text'])}\ndocument: {document['id']}")
    ]
    for attempt in step["attempts"][-MAX_IMAGES:]:
        blocks.append(text(_attempt_text(attempt, attempt["number"] == shown)))
        image = await small_image(api, document["id"], attempt["picture"])
        blocks += [image] if image is not None else []
    if not step["attempts"]:
        blocks.append(text("It has no image." if step["state"] == "text" else "Its image is not made yet."))
    return CallToolResult(content=blocks)


def _attempt_text(attempt: dict[str, Any], is_shown: bool) -> str:
    lines = [f"## Attempt {attempt['number']}" + (" (shown)" if is_shown else "")]
    lines.append(f"prompt: {clipped(attempt['prompt'], PROMPT_CHARACTERS)}")
    verdict = attempt["verdict"]
    if verdict:
        reasoning = clipped(verdict.get("reasoning") or "", PROMPT_CHARACTERS)
        lines.append(f"critic: {verdict['outcome']}. {reasoning}".rstrip())
    return "\n".join(lines)


def list_result(documents: list[dict[str, Any]]) -> CallToolResult:
    """Return the newest documents with their states."""
    if not documents:
        return CallToolResult(content=[text("There are no documents yet. make_document makes one.")])
    lines = [f"- {each['id']} · {each['status']} · {one_line(each['title'], 120)}" for each in documents]
    return CallToolResult(content=[text("\n".join(["# Newest documents", *lines]))])
