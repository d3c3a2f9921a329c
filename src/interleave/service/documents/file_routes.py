"""`/v1/files`: images that clients upload once and refer to in requests by their id.

An image is decoded on arrival and stored as PNG. The client's file name is not kept.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from interleave import RunError, StorageError
from interleave.service.documents.jobs import is_file_id, new_file_id
from interleave.service.documents.keys import Caller
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.documents.routes import caller_of, plain_json
from interleave.service.documents.service import RECEIVE_SECONDS, STORAGE_RETRY_SECONDS, Documents, image_of
from interleave.service.documents.uploads import StoredFile
from interleave.service.http.decoding import EncodedImage
from interleave.service.http.middleware import LEASE
from interleave.service.http.request_bodies import read_form

if TYPE_CHECKING:
    from starlette.requests import Request

PURPOSES = ("vision", "user_data", "assistants")
FILE_FIELDS = {"purpose", "expires_after[anchor]", "expires_after[seconds]"}
MAX_FILES_LISTED = 1000


class FileRoutes:
    """Handlers of `/v1/files`."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents

    async def create(self, request: Request) -> Response:
        caller = caller_of(request, "submit")
        if caller.is_guest:  # their quota counts documents only; uploads could fill the disk
            raise ApiRefusal("guests cannot upload files", status=403, code="not_for_guests")
        fields, files = (await read_form(request)).parse()
        data, purpose = _upload(fields, files)
        ends_at = asyncio.get_running_loop().time() + RECEIVE_SECONDS
        encoded = EncodedImage(data, "file")
        (raw,) = await self.documents.decoder.decode([encoded], request.scope[LEASE], ends_at)
        try:
            image = await asyncio.to_thread(self.documents.folders.files.put, image_of(raw))
            file = StoredFile(
                id=new_file_id(),
                key=caller.key,
                image=image,
                filename="image.png",
                purpose=purpose,
                bytes=len(data),
                created=round(self.documents.clock(), 3),
            )
            await self.documents.uploads.add(file)
        except StorageError as error:
            raise ApiRefusal(
                "the service cannot store the image: its disk is full or failing",
                status=503,
                code="storage_failed",
                retry_after=STORAGE_RETRY_SECONDS,
            ) from error
        return plain_json(_file_object(file))

    async def listing(self, request: Request) -> Response:
        caller = caller_of(request, "read")
        files = await self.documents.uploads.newest(caller.sees, limit=MAX_FILES_LISTED)
        return plain_json(
            {"object": "list", "data": [_file_object(file) for file in files], "has_more": False}
        )

    async def retrieve(self, request: Request) -> Response:
        caller_of(request, "read")
        return plain_json(_file_object(await self._find(caller_of(request), request.path_params["id"])))

    async def content(self, request: Request) -> Response:
        caller_of(request, "read")
        file = await self._find(caller_of(request), request.path_params["id"])
        headers = {"content-security-policy": "default-src 'none'; sandbox"}
        try:
            data = await asyncio.to_thread(self.documents.folders.files.read, file.image)
        except RunError:
            raise unknown("file", file.id) from None
        return Response(data, headers=headers, media_type="image/png")

    async def delete(self, request: Request) -> Response:
        caller_of(request, "submit")
        file = await self._find(caller_of(request), request.path_params["id"])
        await self.documents.remove_file(file)
        return plain_json({"id": file.id, "object": "file", "deleted": True})

    async def _find(self, caller: Caller, id_: str) -> StoredFile:
        file = await self.documents.uploads.get(id_) if is_file_id(id_) else None
        if file is None or (caller.sees is not None and file.key != caller.sees):
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
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": int(file.created),
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
    }
