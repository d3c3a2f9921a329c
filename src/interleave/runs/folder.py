"""A run folder: its images, its lock, and the checks before a run starts or continues in it."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from PIL import Image

from interleave.config.run_config import RunConfig, differences
from interleave.errors import InputError, MissingImage, RunError, StorageError
from interleave.files import make_folder, open_below, remove_temporaries_of, sync_folder, write_atomic
from interleave.images import decode_image, encode_png, original_of, pixel_digest
from interleave.locks import lock, open_lock_file, require_locks
from interleave.runs.journal import Journal, RequestPart, StoredAsset, StoredReading, no_locks
from interleave.runs.journal_files import JOURNAL_NAME, Lease, claimed_journal, is_journal
from interleave.runs.record import RunRecord, read_record
from interleave.types import GivenAsset, ImagePart, Part, Reading, Request, Text

IMAGES_FOLDER = "images"
_NAME = re.compile(r"[0-9a-f]{64}\.png\Z")


class ImageStore:
    """Writes images into a run folder and reads them back, without following links."""

    def __init__(self, run: Path, root: Path | None = None) -> None:
        """`root` is the folder below which no link is followed; by default the run folder itself."""
        self.folder = run / IMAGES_FOLDER
        self._root = root or run
        self._folder_made = False

    def put(self, image: Image.Image, metadata: Mapping[str, str] | None = None) -> str:
        """Store an image and return its name; equal images with equal metadata share one file."""
        data = encode_png(image, metadata)
        name = _name_of(data)
        if not self._folder_made:
            self._make_folder()
        if (original := original_of(image)) is not None:
            write_atomic(self._original(name), original)
        write_atomic(self.folder / name, data)
        return name

    def original(self, name: str) -> bytes | None:
        """Return the file that the image `name` was decoded from, if that had content credentials."""
        try:
            with open(
                open_below(self._root, *self._original(name).relative_to(self._root).parts), "rb"
            ) as file:
                return file.read()
        except OSError:
            return None

    def copy_original(self, name: str, source: ImageStore) -> None:
        """Copy the original of an image from another store, if it has one."""
        if (data := source.original(name)) is not None:
            write_atomic(self._original(name), data)

    def _original(self, name: str) -> Path:
        return self.path(name).with_suffix(".original")

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise StorageError.at(self.folder, error) from error
        sync_folder(self.folder.parent)
        self._folder_made = True

    def has(self, name: str) -> bool:
        """Return whether the image `name` exists and is unaltered."""
        return self.problem_with(name) is None

    def problem_with(self, name: str) -> MissingImage | None:
        """Return the problem with the image `name`, if any."""
        try:
            self.read(name)
        except MissingImage as problem:
            return problem
        return None

    def get(self, name: str) -> Image.Image:
        """Return the image `name`; raise `MissingImage` if it is missing or altered."""
        try:
            data = self.read(name)
            return decode_image(data, name=str(self.path(name)), max_bytes=len(data))  # a file of this run
        except InputError as error:
            raise RunError(str(error)) from None

    def read(self, name: str) -> bytes:
        """Return the file of the image `name`; raise `MissingImage` if it is missing or altered."""
        with self.open(name) as file:
            data = file.read()
        if _name_of(data) != name:
            raise MissingImage(self.path(name), "has been altered")
        return data

    def open(self, name: str) -> BinaryIO:
        """Open the image `name`, for its size or header: its content is not checked."""
        path = self.path(name)
        try:
            return open(open_below(self._root, *path.relative_to(self._root).parts), "rb")
        except FileNotFoundError:
            raise MissingImage(path, "is missing") from None
        except OSError as error:
            raise MissingImage(path, f"cannot be read ({error.strerror})") from None

    def bytes_of(self, name: str) -> int:
        """Return the size of the image's file; raise `MissingImage` if it is missing."""
        with self.open(name) as file:
            return os.fstat(file.fileno()).st_size

    def path(self, name: str) -> Path:
        """Return the path of the image `name`. Names come from files, so they are checked."""
        if not _NAME.match(name):
            raise RunError(f"{name!r} is not the name of a stored image: the journal is damaged")
        return self.folder / name


def image_name(image: Image.Image) -> str:
    """Return the name of an image without metadata in a store."""
    return _name_of(encode_png(image))


def _name_of(data: bytes) -> str:
    return f"{hashlib.sha256(data).hexdigest()}.png"


def remove_temporary_files(run: Path) -> None:
    """Remove temporary files of a crashed process; call this only while holding the lock."""
    for folder in (run, run / IMAGES_FOLDER):
        remove_temporaries_of(folder)


DOCUMENT_NAME = "document.html"
"""HTML page of a run; the function that writes it is passed to `Run.open`."""


def refuse_foreign_folder(folder: Path, *, marker: str = JOURNAL_NAME) -> None:
    """Refuse an output folder that is neither new, nor empty, nor marked as ours by the file `marker`."""
    require_locks()  # locks are taken much later, once the models are loaded
    try:
        if not folder.exists():
            return
        if not folder.is_dir():
            raise RunError(f"{folder} is a file: choose another folder with out=")
        contents = set(os.listdir(folder))
    except OSError as error:
        raise RunError(
            f"{folder} cannot be read ({error.strerror}): choose another folder with out="
        ) from None
    is_ours = any(map(is_journal, contents)) if marker == JOURNAL_NAME else marker in contents
    if contents and not is_ours:
        raise RunError(
            f"{folder} has other files ({sorted(contents)[0]!r}…): choose a new or empty folder with out="
        )


def refuse_other_run(folder: Path, record: RunRecord, request: Request, config: RunConfig) -> None:
    """Refuse to continue a run with a different request or configuration."""
    if not _same_request(folder, record.request, request) or not _same_assets(folder, record, request):
        raise RunError(f"{folder} holds a run of a different request: choose another folder with out=")
    if different := differences(config, record.config):
        raise RunError(
            f"{folder} holds this request with a different configuration ({'; '.join(different)}): "
            f"continue it with 'interleave resume {folder}', or choose another folder with out="
        )


def _same_request(folder: Path, stored: tuple[RequestPart, ...], given: Request) -> bool:
    """Return whether the parts are equal; images are compared by pixels, as compression may differ."""
    if stored == request_parts(given):
        return True
    if [part.text for part in stored] != [part.text for part in request_parts(given)]:
        return False
    return _same_pixels(folder, [part.image for part in stored if part.image], given.images)


def _same_assets(folder: Path, record: RunRecord, given: Request) -> bool:
    ours, theirs = stored_assets(given), record.assets
    if theirs == ours:
        return True
    if [_without_image(asset) for asset in theirs] != [_without_image(asset) for asset in ours]:
        return False
    images = [asset.image for asset in given.assets if asset.image is not None]
    return _same_pixels(folder, [asset.image for asset in theirs if asset.image], images)


def _same_pixels(folder: Path, names: Sequence[str], given: Iterable[Image.Image]) -> bool:
    store = ImageStore(folder)
    if not all(map(store.has, names)):
        return False
    return [pixel_digest(store.get(name)) for name in names] == list(map(pixel_digest, given))


def _without_image(asset: StoredAsset) -> tuple[str, str, str, bool]:
    return asset.name, asset.kind, asset.description, asset.image is None


def open_journal(folder: Path, name: str = JOURNAL_NAME, *, lease: Lease | None = None) -> Journal:
    """Open the journal of a folder for writing; create the folder if it does not exist.

    With a lease, the journal is taken over from earlier leases.
    """
    require_locks()
    is_run = name == JOURNAL_NAME
    try:
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        path = claimed_journal(folder, lease) if is_run else folder / name
        journal = Journal(path, chained=is_run, lease=lease)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):  # the disk is full: the folder itself is fine
            raise StorageError.at(folder, error) from error
        raise RunError(
            f"cannot write to {folder} ({error.strerror}): choose another folder with out="
        ) from None
    if journal.is_empty:  # the file and the folder may be new
        try:
            sync_folder(folder)
            sync_folder(folder.parent)
        except BaseException:
            journal.close()
            raise
    return journal


@contextmanager
def folder_lock(folder: Path, lock_name: str) -> Iterator[None]:
    """Wait for an exclusive lock on a folder and hold it; only for short operations."""
    try:
        make_folder(folder)
        file = open_lock_file(folder / lock_name)
    except OSError as error:
        raise RunError(
            f"cannot write to {folder} ({error.strerror}): choose another folder with out="
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
    """Return the assets of a request as the journal stores them."""
    return tuple(
        StoredAsset(
            name=asset.name,
            image=None if asset.image is None else image_name(asset.image),
            kind=asset.kind,
            description=asset.description,
        )
        for asset in request.assets
    )


def given_assets(stored: Iterable[StoredAsset], store: ImageStore) -> tuple[GivenAsset, ...]:
    """Return stored assets with their images."""
    return tuple(
        GivenAsset(asset.name, store.get(asset.image) if asset.image else None, asset.kind, asset.description)
        for asset in stored
    )


def request_parts(request: Request) -> tuple[RequestPart, ...]:
    """Return a request as the journal stores it: text, and images by their names in the store."""
    return _stored_parts(request.parts)


def _stored_parts(parts: Iterable[Part]) -> tuple[RequestPart, ...]:
    return tuple(
        RequestPart(text=part.text) if isinstance(part, Text) else RequestPart(image=image_name(part.image))
        for part in parts
    )


def stored_reading(request: Request) -> StoredReading | None:
    """Return the reading of a request as the journal stores it."""
    reading = request.reading
    if reading is None:
        return None
    return StoredReading(parts=_stored_parts(reading.parts), captions=reading.captions, notes=reading.notes)


def with_reading(request: Request, stored: StoredReading | None) -> Request:
    """Return a request with a stored reading; a continued run is read as it was when it started."""
    if stored is None:
        return replace(request, reading=None)
    images = {image_name(image): image for image in request.images}
    parts = tuple(
        ImagePart(images[part.image]) if part.image else Text(part.text or "") for part in stored.parts
    )
    return replace(request, reading=Reading(parts, stored.captions, stored.notes))


def stored_request(folder: Path, record: RunRecord) -> Request:
    """Read the request of a run, with its images, from its folder."""
    store = ImageStore(folder)
    return Request(
        tuple(
            ImagePart(store.get(part.image)) if part.image else Text(part.text or "")
            for part in record.request
        ),
        given_assets(record.assets, store),
    )


def comparable(folder: str | Path) -> dict[str, Any]:
    """Return the part of a record that equal runs share: no times, prices, people, paths, versions, retries.

    Images are compared by pixels, not by file bytes. Drift is left out: it is computed from the images.
    """
    store = ImageStore(Path(folder))
    record = read_record(folder).model_dump(mode="json")
    for name in ("software", "seconds", "started", "errors", "version", "journal"):
        del record[name]
    del record["calls"]["repeated"], record["config"]["prompts"]["version"]
    for part in record["request"]:
        if part["image"]:
            part["image"] = pixel_digest(store.get(part["image"]))
    for asset in record["assets"]:
        if asset.get("image"):
            asset["image"] = pixel_digest(store.get(asset["image"]))
    for name in ("assets", "audits"):  # as in records of runs that have none
        if not record[name]:
            del record[name]
    for step in record["steps"]:
        del step["drift"]
        if not step["anew"]:
            del step["anew"]
        for attempt in step["attempts"]:
            attempt["image"] = pixel_digest(store.get(attempt["image"]))
            if attempt["sources"]:
                attempt["sources"] = [pixel_digest(store.get(name)) for name in attempt["sources"]]
            del attempt["draw_seconds"], attempt["judge_seconds"], attempt["cost"]
    for decision in record["decisions"]:
        del decision["by"], decision["time"], decision["parent"]
        if decision["cause"] is None:
            del decision["cause"]
    return record
