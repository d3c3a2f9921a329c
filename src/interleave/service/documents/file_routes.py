"""`/v1/files`: images that clients upload once and refer to in requests by their id.

An image is decoded on arrival and stored as PNG. The client's file name is not kept.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from starlette.responses import Response

from interleave import RunError, StorageError
from interleave.service.documents import schemas as wire
from interleave.service.documents.bodies import described_body
from interleave.service.documents.jobs import is_file_id, new_file_id
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.documents.routes import (
    ReadCall,
    RequestContext,
    Router,
    SubmitCall,
    plain_json,
    sending,
)
from interleave.service.documents.service import RECEIVE_SECONDS, STORAGE_RETRY_SECONDS, image_of
from interleave.service.documents.uploads import StoredFile
from interleave.service.http.decoding import EncodedImage
from interleave.service.http.request_bodies import read_form

router = Router(prefix="/v1/files")
PURPOSES = ("vision", "user_data", "assistants")
FILE_FIELDS = {"purpose", "expires_after[anchor]", "expires_after[seconds]"}
MAX_FILES_LISTED = 1000


@router.post("", response_model=wire.File)
async def create(
    call: SubmitCall, body: Annotated[None, described_body(wire.Upload, media_type="multipart/form-data")]
) -> Response:
    """Upload an image."""
    caller, documents = call.caller, call.documents
    if caller.is_guest:  # their quota counts documents only; uploads could fill the disk
        raise ApiRefusal("guests cannot upload files", status=403, code="not_for_guests")
    fields, files = (await read_form(call.request)).parse()
    data, purpose = _upload(fields, files)
    ends_at = asyncio.get_running_loop().time() + RECEIVE_SECONDS
    (raw,) = await documents.decoder.decode([EncodedImage(data, "file")], call.lease, ends_at)
    try:
        image = await asyncio.to_thread(documents.folders.files.put, image_of(raw))
        file = StoredFile(
            id=new_file_id(),
            key=caller.key,
            image=image,
            filename="image.png",
            purpose=purpose,
            bytes=len(data),
            created=round(documents.clock(), 3),
        )
        await documents.uploads.add(file)
    except StorageError as error:
        raise ApiRefusal(
            "the service cannot store the image: its disk is full or failing",
            status=503,
            code="storage_failed",
            retry_after=STORAGE_RETRY_SECONDS,
        ) from error
    return plain_json(_file_object(file))


@router.get("", response_model=wire.Files)
async def listing(call: ReadCall) -> Response:
    """List the uploads."""
    files = await call.documents.uploads.newest(call.caller.sees, limit=MAX_FILES_LISTED)
    return plain_json({"object": "list", "data": [_file_object(file) for file in files], "has_more": False})


@router.get("/{id}", response_model=wire.File)
async def retrieve(call: ReadCall, id: str) -> Response:
    """Get an upload."""
    return plain_json(_file_object(await _find(call, id)))


@router.get("/{id}/content", response_class=sending("image/png"))
async def content(call: ReadCall, id: str) -> Response:
    """Get the image of an upload."""
    file = await _find(call, id)
    headers = {"content-security-policy": "default-src 'none'; sandbox"}
    try:
        data = await asyncio.to_thread(call.documents.folders.files.read, file.image)
    except RunError:
        raise unknown("file", file.id) from None
    return Response(data, headers=headers, media_type="image/png")


@router.delete("/{id}", response_model=wire.Deleted)
async def delete(call: SubmitCall, id: str) -> Response:
    """Delete an upload."""
    file = await _find(call, id)
    await call.documents.remove_file(file)
    return plain_json({"id": file.id, "object": "file", "deleted": True})


async def _find(call: RequestContext, id_: str) -> StoredFile:
    file = await call.documents.uploads.get(id_) if is_file_id(id_) else None
    if file is None or call.caller.sees not in (None, file.key):
        raise unknown("file", id_)
    return file


def _upload(fields: dict[str, Any], files: dict[str, list[bytes]]) -> tuple[bytes, str]:
    if set(files) != {"file"} or len(files["file"]) != 1:
        raise ApiRefusal("send one image in the form field 'file'", parameter="file")
    if other := sorted(set(fields) - FILE_FIELDS):
        raise ApiRefusal(f"unknown form field {other[0][:60]!r}", parameter=other[0][:60])
    purpose = fields.get("purpose", "vision")
    if purpose not in PURPOSES:
        raise ApiRefusal(f"purpose must be one of {', '.join(PURPOSES)}", parameter="purpose")
    return files["file"][0], purpose


def _file_object(file: StoredFile) -> dict[str, Any]:
    same = file.model_dump(include={"id", "bytes", "filename", "purpose"})
    return {**same, "object": "file", "created_at": int(file.created), "status": "processed"}
