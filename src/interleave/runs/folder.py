"""Checks of a run folder before a run starts or continues in it, and its lock."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from interleave.config.run_config import RunConfig, differences
from interleave.errors import RunError, StorageError
from interleave.files import make_folder, sync_folder
from interleave.images import pixel_digest
from interleave.locks import lock, open_lock_file, require_locks
from interleave.runs.journal import Journal, RequestPart, StoredAsset, no_locks
from interleave.runs.journal_files import JOURNAL_NAME, claimed_journal, is_journal
from interleave.runs.lease import Lease
from interleave.runs.record import RunRecord
from interleave.runs.store import PictureStore, image_name
from interleave.types import GivenAsset, Picture, Request, Text

DOCUMENT_NAME = "document.html"
"""The page of a run; how it is written is given to `Run.open`."""


def refuse_foreign_folder(folder: Path, *, marker: str = JOURNAL_NAME) -> None:
    """Refuse an output folder that is neither new, nor empty, nor marked as ours by this file."""
    require_locks()  # they are taken much later, when the models are loaded
    try:
        if not folder.exists():
            return
        if not folder.is_dir():
            raise RunError(f"{folder} is a file: choose another folder with --out")
        contents = set(os.listdir(folder))
    except OSError as error:
        raise RunError(
            f"{folder} cannot be read ({error.strerror}): choose another folder with --out"
        ) from None
    is_ours = any(map(is_journal, contents)) if marker == JOURNAL_NAME else marker in contents
    if contents and not is_ours:
        raise RunError(
            f"{folder} holds other things ({sorted(contents)[0]!r}…): choose a new or empty folder with --out"
        )


def refuse_other_run(folder: Path, record: RunRecord, request: Request, config: RunConfig) -> None:
    """Refuse to continue a folder with another request or configuration than it was started with."""
    if not _same_request(folder, record.request, request) or not _same_assets(folder, record, request):
        raise RunError(f"{folder} holds a run of another request: choose another folder with --out")
    if different := differences(config, record.config):
        raise RunError(
            f"{folder} holds this request with another configuration ({'; '.join(different)}): "
            f"continue it with 'interleave resume {folder}', or choose another folder with --out"
        )


def _same_request(folder: Path, stored: tuple[RequestPart, ...], given: Request) -> bool:
    """Whether the parts are equal; pictures by their pixels, as another machine may compress differently."""
    if stored == request_parts(given):
        return True
    if [part.text for part in stored] != [part.text for part in request_parts(given)]:
        return False
    store = PictureStore(folder)
    names = [part.image for part in stored if part.image]
    if not all(store.has(name) for name in names):
        return False
    return [pixel_digest(store.get(name)) for name in names] == [
        pixel_digest(image) for image in given.pictures
    ]


def _same_assets(folder: Path, record: RunRecord, given: Request) -> bool:
    ours, theirs = stored_assets(given), record.assets
    if theirs == ours:
        return True
    if [_without_picture(asset) for asset in theirs] != [_without_picture(asset) for asset in ours]:
        return False
    store = PictureStore(folder)
    names = [asset.image for asset in theirs if asset.image]
    if not all(store.has(name) for name in names):
        return False
    return [pixel_digest(store.get(name)) for name in names] == [
        pixel_digest(asset.image) for asset in given.assets if asset.image is not None
    ]


def _without_picture(asset: StoredAsset) -> tuple[str, str, str, bool]:
    return asset.name, asset.kind, asset.description, asset.image is None


def open_journal(folder: Path, name: str = JOURNAL_NAME, *, lease: Lease | None = None) -> Journal:
    """The journal of a folder, open for writing; the folder is made if it does not exist.

    Under a lease it is taken over from earlier ones.
    """
    require_locks()
    is_run = name == JOURNAL_NAME
    try:
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        path = claimed_journal(folder, lease) if is_run else folder / name
        journal = Journal(path, chained=is_run, lease=lease)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):  # nothing is wrong with the folder
            raise StorageError.at(folder, error) from error
        raise RunError(
            f"cannot write to {folder} ({error.strerror}): choose another folder with --out"
        ) from None
    if journal.is_empty:  # so its name may be new, and the folder's
        try:
            sync_folder(folder)
            sync_folder(folder.parent)
        except BaseException:
            journal.close()
            raise
    return journal


@contextmanager
def folder_lock(folder: Path, lock_name: str) -> Iterator[None]:
    """Hold an exclusive lock on a folder, waiting for it; only for short work."""
    try:
        make_folder(folder)
        file = open_lock_file(folder / lock_name)
    except OSError as error:
        raise RunError(
            f"cannot write to {folder} ({error.strerror}): choose another folder with --out"
        ) from None
    try:
        try:
            lock(file, wait=True)
        except OSError as error:
            raise no_locks(folder, error) from None
        yield
    finally:
        os.close(file)


def stored_assets(request: Request) -> tuple[StoredAsset, ...]:
    """The assets of a request as a journal holds them."""
    return tuple(
        StoredAsset(
            name=asset.name,
            image=None if asset.image is None else image_name(asset.image),
            kind=asset.kind,
            description=asset.description,
        )
        for asset in request.assets
    )


def given_assets(stored: Iterable[StoredAsset], store: PictureStore) -> tuple[GivenAsset, ...]:
    """Stored assets with their pictures."""
    return tuple(
        GivenAsset(asset.name, store.get(asset.image) if asset.image else None, asset.kind, asset.description)
        for asset in stored
    )


def request_parts(request: Request) -> tuple[RequestPart, ...]:
    """A request as a journal holds it: text, and pictures by their names in the store."""
    return tuple(
        RequestPart(text=part.text) if isinstance(part, Text) else RequestPart(image=image_name(part.image))
        for part in request.parts
    )


def stored_request(folder: Path, record: RunRecord) -> Request:
    """The request of a run, with its pictures, from its folder."""
    store = PictureStore(folder)
    return Request(
        tuple(
            Picture(store.get(part.image)) if part.image else Text(part.text or "") for part in record.request
        ),
        given_assets(record.assets, store),
    )
