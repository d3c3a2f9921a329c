"""The tools: plan, make, look, redraw, choose, edit words, undo, stop, export."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, ResourceLink
from pydantic import BaseModel, ConfigDict, Field

from interleave.plugin import render, slug, types
from interleave.service.mcp import results
from interleave.service.mcp.api import DOCUMENTS, current
from interleave.service.mcp.following import follow

MAX_REQUEST = 20_000
MAX_IMAGES = 8
MAX_IMAGE_CHARACTERS = 3_000_000
"""Characters of an image as a `data:` URL; hosts limit a whole call to about 4 MB."""
WAIT_SECONDS = 45.0
"""Time a call waits for a document. Many hosts give a call a minute."""
LISTED = 20
STARTED: ContextVar[list[str] | None] = ContextVar("started", default=None)
"""Receives the id of a document instead of waiting for it, if the call runs as a task."""

REQUEST = "What to make, in the user's words, with the number of images if the user said one."
IMAGES = (
    "Images that the document starts from: addresses of images in earlier results, or data:image/ URLs. "
    "Never file paths."
)
STEPS = "The whole plan, edited, to release instead of the held one. Leave it out to release the held plan."
FORMATS = "pdf, epub, pptx, html, zip or another format that this server has."

DocumentId = Annotated[
    str, Field(pattern=r"^resp_[0-9a-f]{48}$", description="The id of a document, from an earlier result.")
]
Step = Annotated[int, Field(ge=1, le=999_999, description="The number of a step.")]
Said = Annotated[str, Field(min_length=1, max_length=results.TEXT_CHARACTERS * 4)]
Ctx = Context[Any, Any]


class Given(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Asset(Given):
    """A character or an object that must look the same in every image."""

    name: Annotated[str, Field(min_length=1, max_length=60, description="As the request names it.")]
    description: Said
    kind: types.AssetKind = "character"


class PlanStep(Given):
    """A step of an edited plan."""

    number: Annotated[
        int | None, Field(description="The step of the held plan that it replaces; null for a new one.")
    ] = None
    name: Said | None = None
    caption: Annotated[Said | None, Field(description="The text shown with the image.")] = None
    prompt: Annotated[
        Said | None, Field(description="What the image shows; 'none' for a step of text only.")
    ] = None


class StepWords(Given):
    """Changed words of a step. Fields that are left out stay."""

    step: Step
    name: Annotated[str | None, Field(max_length=200, description="Heading; empty for none.")] = None
    text: Annotated[str | None, Field(max_length=results.TEXT_CHARACTERS * 4)] = None
    alt: Annotated[str | None, Field(max_length=1000, description="Alternative text of the image.")] = None
    hidden: bool | None = None


class Tools:
    """The tools of a server. `exports` is the folder for exported files, if they may be written there."""

    def __init__(self, *, wait_seconds: float = WAIT_SECONDS, exports: Path | None = None) -> None:
        self.wait_seconds = wait_seconds
        self.exports = exports

    async def plan_document(
        self,
        ctx: Ctx,
        request: Annotated[str, Field(min_length=1, max_length=MAX_REQUEST, description=REQUEST)],
        assets: Annotated[list[Asset] | None, Field(max_length=8)] = None,
        images: Annotated[list[str] | None, Field(max_length=MAX_IMAGES, description=IMAGES)] = None,
        continues: DocumentId | None = None,
        seed: Annotated[int | None, Field(ge=0, le=2**31 - 1)] = None,
    ) -> CallToolResult:
        """Plan an illustrated document, and make no image yet.

        Returns the steps with their texts and image prompts. Show them to the user. Then call make_document
        with the document's id, unchanged or with edited steps.
        """
        id_ = await self._submit(request, assets, images, continues, seed=seed, hold_plan=True)
        return await self._followed(ctx, id_)

    async def make_document(
        self,
        ctx: Ctx,
        request: Annotated[str | None, Field(max_length=MAX_REQUEST, description=REQUEST)] = None,
        document: DocumentId | None = None,
        steps: Annotated[list[PlanStep] | None, Field(max_length=100, description=STEPS)] = None,
        assets: Annotated[list[Asset] | None, Field(max_length=8)] = None,
        images: Annotated[list[str] | None, Field(max_length=MAX_IMAGES, description=IMAGES)] = None,
        continues: DocumentId | None = None,
        seed: Annotated[int | None, Field(ge=0, le=2**31 - 1)] = None,
        max_attempts: Annotated[int | None, Field(ge=1, le=20)] = None,
        review_plan: Annotated[bool, Field(description="Whether the user approves the plan first.")] = False,
    ) -> CallToolResult:
        """Make a document of texts and images in order: a picture story, a guide, a sequence of edits.

        Give a request for a new document, or the id of one that waits for its plan's release or was stopped.
        Each image is checked and redrawn if it is wrong. A long document is still being made when this
        returns: call look_at_document until its status is completed.
        """
        if (request is None) == (document is None):
            raise ToolError("give either a request for a new document or the id of an existing document")
        if request is not None:
            refuse_given(steps, "steps belong to an existing document: leave out request")
            rules = {"seed": seed, "max_attempts": max_attempts, "hold_plan": review_plan or None}
            id_ = await self._submit(request, assets, images, continues, **rules)
        else:
            id_ = str(document)
            await self._continue(id_, steps)
        return await self._followed(ctx, id_)

    async def look_at_document(
        self,
        ctx: Ctx,
        document: DocumentId | None = None,
        step: Annotated[Step | None, Field(description="Show all attempts of this step.")] = None,
        first_step: Annotated[Step | None, Field(description="Show the document from this step on.")] = None,
        wait: Annotated[bool, Field(description="Whether to wait while it is being made.")] = True,
    ) -> CallToolResult:
        """Look at a document, and wait a while if it is being made. Without an id: list the newest documents.

        With a step: every attempt with its prompt and the critic's verdict, to choose another one.
        """
        api = current()
        if document is None:
            listed = await api.json(DOCUMENTS, limit=LISTED)
            return results.list_result(listed["data"])
        if step is not None:
            return await results.attempts_result(api, await api.document(document), step)
        return await self._followed(ctx, document, first_step=first_step, wait=wait)

    async def redraw_step(
        self,
        ctx: Ctx,
        document: DocumentId,
        step: Step,
        prompt: Annotated[Said | None, Field(description="What the image shows instead.")] = None,
        seed: Annotated[int | None, Field(ge=0, le=2**31 - 1)] = None,
        only_step: Annotated[bool, Field(description="Keep the images of all later steps.")] = False,
    ) -> CallToolResult:
        """Redraw the image of a step, and those of the steps that follow from it."""
        body = {"prompt": prompt, "seed": seed, "only_step": only_step}
        await current().post(f"{DOCUMENTS}/{document}/steps/{step}/redraw", body)
        return await self._followed(ctx, document)

    async def choose_attempt(
        self,
        ctx: Ctx,
        document: DocumentId,
        step: Step,
        attempt: Annotated[int, Field(ge=1, le=999_999)],
        only_step: Annotated[bool, Field(description="Keep the images of all later steps.")] = False,
    ) -> CallToolResult:
        """Show another attempt of a step, and redraw the steps that follow from it."""
        body = {"attempt": attempt, "only_step": only_step}
        await current().post(f"{DOCUMENTS}/{document}/steps/{step}/choose", body)
        return await self._followed(ctx, document)

    async def edit_words(
        self,
        ctx: Ctx,
        document: DocumentId,
        title: Annotated[str | None, Field(min_length=1, max_length=200)] = None,
        steps: Annotated[list[StepWords] | None, Field(max_length=100)] = None,
        order: Annotated[
            list[int] | None, Field(max_length=100, description="Steps to show first, in order.")
        ] = None,
    ) -> CallToolResult:
        """Change the words of a document: title, headings, texts, alternative texts, order, hidden steps.

        No image changes, and nothing is generated.
        """
        changed = [
            {"number": each.step, **each.model_dump(exclude={"step"}, exclude_none=True)}
            for each in steps or ()
        ]
        body: dict[str, Any] = {"title": title, "steps": changed or None, "order": order or None}
        if not any(body.values()):
            raise ToolError("nothing to change: give a title, steps or an order")
        await current().post(f"{DOCUMENTS}/{document}/words", body)
        return await self._followed(ctx, document)

    async def undo_change(self, ctx: Ctx, document: DocumentId) -> CallToolResult:
        """Undo the last redraw, choice or change of words."""
        await current().post(f"{DOCUMENTS}/{document}/undo", {})
        return await self._followed(ctx, document)

    async def stop_document(self, ctx: Ctx, document: DocumentId) -> CallToolResult:
        """Stop making a document. Finished steps are kept, and make_document continues it."""
        await current().post(f"/v1/responses/{document}/cancel", {})
        return await self._followed(ctx, document)

    async def export_document(
        self,
        document: DocumentId,
        format: Annotated[str, Field(description=FORMATS)] = "pdf",
        layout: Annotated[str | None, Field(pattern="^[a-z-]{1,30}$")] = None,
    ) -> CallToolResult:
        """Export a document as a file, and return a link to it."""
        known = render.known_formats()
        if format not in known:
            raise ToolError(f"no format {format[:40]!r}: choose one of {', '.join(known)}")
        api = current()
        name = f"document.{format}"
        made = await api.get(f"{DOCUMENTS}/{document}/{name}", layout=layout)
        shown = await api.shown(document)
        file = f"{slug(shown['title']) or document}.{format}"
        said = f"{known[format].title} file of {len(made.content):,} bytes."
        if self.exports is not None:
            path = await anyio.to_thread.run_sync(written, self.exports, document, file, made.content)
            said += f"\nfile: {path}"
        query = f"?layout={layout}" if layout else ""
        said += f"\naddress: {await api.public_url(f'{DOCUMENTS}/{document}/{name}{query}')}"
        link = ResourceLink(
            uri=results.document_uri(document, name),
            name=file,
            title=f"{shown['title']} ({known[format].title})",
            mime_type=known[format].media_type,
            size=len(made.content),
        )
        return CallToolResult(content=[results.text(said), link])

    async def _submit(
        self,
        request: str,
        assets: list[Asset] | None,
        images: list[str] | None,
        continues: str | None,
        **rules: Any,
    ) -> str:
        """Submit a request as a job that continues without its client; return its id."""
        content = [{"type": "input_text", "text": request}]
        content += [{"type": "input_image", "image_url": image_given(image)} for image in images or ()]
        own = {name: value for name, value in rules.items() if value is not None}
        if assets:
            own["assets"] = [asset.model_dump() for asset in assets]
        body = {
            "input": [{"role": "user", "content": content}],
            "background": True,
            "previous_response_id": continues,
            "interleave": own,
        }
        made = await current().post("/v1/responses", body)
        return str(made["id"])

    async def _continue(self, id_: str, steps: list[PlanStep] | None) -> None:
        """Release the plan of a document, or resume the document; one being made is left alone."""
        api = current()
        found = await api.document(id_)
        if found["status"] in ("held", "asked"):
            plan = None if steps is None else {"steps": edited_steps(found["plan"], steps)}
            await api.post(f"{DOCUMENTS}/{id_}/plan/release", {"plan": plan})
            return
        refuse_given(steps, "the plan of this document is released: use redraw_step or edit_words")
        if found["status"] in ("failed", "incomplete", "cancelled"):
            await api.post(f"{DOCUMENTS}/{id_}/continue", {})

    async def _followed(
        self, ctx: Ctx, id_: str, *, first_step: int | None = None, wait: bool = True
    ) -> CallToolResult:
        """Wait for a document within the limit, and return it."""
        if (started := STARTED.get()) is not None:
            started.append(id_)
            return CallToolResult(content=[])
        document = await follow(current(), id_, self.wait_seconds if wait else 0.0, ctx.report_progress)
        return await results.document_result(current(), document, first_step=first_step)


def refuse_given(value: object, because: str) -> None:
    if value is not None:
        raise ToolError(because)


def image_given(image: str) -> str:
    """Return an image of a request as the service takes it; refuse paths and foreign addresses."""
    if image.startswith("data:image/"):
        if len(image) > MAX_IMAGE_CHARACTERS:
            raise ToolError(f"an image has more than {MAX_IMAGE_CHARACTERS:,} characters: send a smaller one")
        return image
    if len(image) < 1000 and "/v1/pictures/" in image:
        return image.rpartition("](")[2].rstrip(")") if image.startswith("![") else image
    raise ToolError(
        "an image of a request is an address that a result of this server has shown, or a data:image/ URL; "
        "files and other addresses are not read"
    )


def edited_steps(plan: dict[str, Any], steps: list[PlanStep]) -> list[dict[str, Any]]:
    """Return the steps of an edited plan; what an edit leaves out stays as it was planned."""
    held = {step["number"]: step for step in plan["steps"]}
    made = []
    for step in steps:
        if step.number is not None and step.number not in held:
            raise ToolError(f"the plan has no step {step.number}: leave out the number of a new step")
        changes = step.model_dump(exclude={"number"}, exclude_none=True)
        if (step.prompt or "").strip().lower() == "none":
            changes["prompt"] = None
        made.append({**held.get(step.number or 0, {"prompt": None}), **changes})
    return made


def written(folder: Path, id_: str, name: str, data: bytes) -> Path:
    """Write an exported file; documents of the same title keep apart."""
    place = folder / id_.removeprefix("resp_")[:12]
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(data)
    return place / name
