"""Exported files of a document: one route for each format, also for those of other packages."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import tempfile
import zipfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Query
from starlette.responses import Response

from interleave import ConfigurationError, InputError, RunError, RunRecord
from interleave.plugin import render, runs, slug
from interleave.service.documents import schemas as wire
from interleave.service.documents.bodies import json_body
from interleave.service.documents.document_routes import Run, SeenRun
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.routes import Call, Router, per_service, sending

log = logging.getLogger(__name__)
PAGE_POLICY = (
    "default-src 'none'; img-src data: 'self'; font-src data:; style-src 'unsafe-inline'; "
    "sandbox allow-popups"
)
MAX_CONCURRENT_RENDERS = 2
RENDER_COPIES = 4
"""Memory for rendering a page or an archive, as a multiple of the size of its images."""


_rendering = per_service(lambda documents: asyncio.Semaphore(MAX_CONCURRENT_RENDERS))


def router() -> Router:
    """Return the routes of all known formats; POST takes words in other languages."""
    made = Router()
    for each in render.known_formats().values():
        path, kind = f"/v1/documents/{{id}}/document.{each.name}", sending(each.media_type)
        get, post = _export(each)
        made.get(path, summary=f"Get the document as {each.title}", response_class=kind)(get)
        title = f"Get the document as {each.title} in other languages"
        made.post(path, summary=title, response_class=kind)(post)
    return made


async def _options(
    call: Call,
    paper: str = "",
    layout: render.PageLayout = "print",
    language: Annotated[str, Query(description="Tags of the languages to show, with commas")] = "",
    bleed: Annotated[bool, Query(description="A PDF for a printer: bleed, 300 dpi, even pages")] = False,
    details: Annotated[bool, Query(description="Prompts, attempts and verdicts too (html, zip)")] = False,
    ai_notice: Annotated[bool, Query(description="Say below the title that AI made it")] = False,
    sign: Annotated[
        bool,
        Query(
            description="Add content credentials with the key of the service. Formats that cannot hold them "
            "(pptx, cbz, zip, html, texts) come in a ZIP file with their credentials beside them"
        ),
    ] = False,
) -> render.ExportOptions:
    key = call.documents.settings.sign if sign else ""
    if sign and not key:
        message = "this service signs nothing: whoever runs it has named no key with --sign"
        raise ApiRefusal(message, status=501, code="not_configured", parameter="sign")
    languages = tuple(tag for each in language.split(",") if (tag := each.strip()))
    try:
        return render.ExportOptions(
            paper, layout, languages, bleed=bleed, details=details, sign=key, ai_notice=ai_notice
        )
    except ConfigurationError as error:
        raise ApiRefusal(str(error), parameter="language") from None


def _with_texts(
    folder: Path, record: RunRecord, name: str, options: render.ExportOptions, texts: tuple[str, ...]
) -> render.Exported:
    """Export a document with words in other languages, which the exporters read from files."""
    with tempfile.TemporaryDirectory() as own:
        files = tuple(Path(own) / f"texts-{place}.toml" for place in range(1, len(texts) + 1))
        for file, text in zip(files, texts, strict=True):
            file.write_text(text, "utf-8")
        try:
            return render.export_run(folder, record, name, replace(options, texts=files))
        except (ConfigurationError, InputError) as error:  # an unknown paper, a character without a font
            if options.sign and str(error).startswith("sign"):  # its path is not for clients
                log.error("%s", error)
                message = "the document could not be signed: the service's key cannot be used"
                raise ApiRefusal(message, status=500, code="not_signed") from None
            raise ApiRefusal(str(error).replace(f"{own}{os.sep}", "")) from None


def _with_sidecar(file: str, made: render.Exported) -> bytes:
    """Return a ZIP file of an export and the credentials beside it."""
    both = io.BytesIO()
    with zipfile.ZipFile(both, "w") as archive:
        archive.writestr(file, made.data)
        archive.writestr(f"{file}{render.SIDECAR}", made.sidecar or b"")
    return both.getvalue()


def _export(wanted: render.Format) -> tuple[Callable[..., Awaitable[Response]], ...]:
    """Return the handlers that send a document in this format, without and with texts."""

    async def export(
        rendering: Annotated[asyncio.Semaphore, Depends(_rendering)],
        run: SeenRun,
        options: Annotated[render.ExportOptions, Depends(_options)],
        download: str | None = None,
    ) -> Response:
        return await send(rendering, run, options, (), download)

    async def export_with_texts(
        rendering: Annotated[asyncio.Semaphore, Depends(_rendering)],
        run: SeenRun,
        options: Annotated[render.ExportOptions, Depends(_options)],
        body: Annotated[wire.ExportTexts, json_body(wire.ExportTexts)],
        download: str | None = None,
    ) -> Response:
        return await send(rendering, run, options, body.texts, download)

    async def send(
        rendering: asyncio.Semaphore,
        run: Run,
        options: render.ExportOptions,
        texts: tuple[str, ...],
        download: str | None,
    ) -> Response:
        call, job, record = run.call, run.job, run.started
        if wanted.missing is not None:
            message = f"{wanted.title} files need a package that is not installed: {wanted.missing}"
            raise ApiRefusal(message, status=501, code="not_installed")
        store, size = call.images(job), 0
        for name in runs.image_names(record):
            with suppress(RunError):
                size += store.bytes_of(name)
        await call.lease.reserve(RENDER_COPIES * size, asyncio.get_running_loop().time() + 60)
        async with rendering:
            folder = call.documents.folders.run(job.id)
            made: render.Exported = await call.documents.in_thread(
                _with_texts, folder, record, wanted.name, options, texts
            )
        file = f"{slug(record.title) or job.id}.{wanted.suffix or wanted.name}"
        data, kind, is_page = made.data, wanted.media_type, wanted.name == "html"
        if made.sidecar is not None:
            data, kind, is_page, file = _with_sidecar(file, made), "application/zip", False, f"{file}.zip"
        call.lease.keep(len(data))
        headers: dict[str, str] = {}
        if is_page:
            headers |= {"content-security-policy": PAGE_POLICY, "referrer-policy": "no-referrer"}
            kind = f"{kind}; charset=utf-8"
        if not is_page or download is not None:
            headers["content-disposition"] = f'attachment; filename="{file}"'
        return Response(data, headers=headers, media_type=kind)

    return export, export_with_texts
