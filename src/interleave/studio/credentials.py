"""Where the images of a document come from: models, earlier images, and files that others signed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from starlette.responses import Response

from interleave import MissingDependency, RunRecord
from interleave.plugin import ImageStore, Value, runs
from interleave.provenance.claims import FAKES
from interleave.provenance.keys import require_c2pa
from interleave.provenance.origins import GIVEN, Origin, origins_of
from interleave.provenance.reading import credentials_of
from interleave.service.documents.document_routes import SeenRun
from interleave.service.documents.routes import Router, value_json

router = Router(prefix="/v1/studio")


class Received(Value):
    """The signed file that an image was decoded from."""

    state: Literal["none", "altered", "intact", "unread"]
    """`unread`: the package that reads credentials is not installed."""
    signer: str = ""
    software: str = ""
    source_types: tuple[str, ...] = ()
    """What its signer says it is, such as `trainedAlgorithmicMedia`."""


class Source(Value):
    """An image that another one was made from."""

    step: int | None
    """Number that readers see; null for an image given by the user, and for one that is not shown."""
    given: bool
    received: Received | None


class ImageOrigin(Value):
    """Where the image of a step comes from."""

    number: int
    """Number of the step that readers see."""
    edited: bool
    """Whether it is an edit of its first source, or a new image."""
    model: str
    program: bool
    """Whether its generator is a program, not a trained model."""
    received: Received | None
    """Null if the file that the generator returned had no credentials."""
    sources: list[Source]


class ImageOrigins(Value):
    """`GET /v1/studio/documents/{id}/credentials`."""

    images: list[ImageOrigin]


@router.get("/documents/{id}/credentials", response_model=ImageOrigins)
async def credentials(run: SeenRun) -> Response:
    """Where each image comes from: its model, the images before it, and signed files that were received."""
    folder = run.call.documents.folders.run(run.job.id)
    found = await run.call.documents.in_thread(_origins, folder, run.started)
    return value_json(ImageOrigins(images=found))


def _origins(folder: Path, record: RunRecord) -> list[ImageOrigin]:
    store, origins = ImageStore(folder), origins_of(record)
    shown = [
        (step.number, step.record.attempt.image)
        for step in runs.as_shown(record).steps
        if step.record.attempt is not None
    ]
    numbers = {image: number for number, image in reversed(shown)}
    return [
        ImageOrigin(
            number=number,
            edited=origin.parent is not None,
            model=origin.model,
            program=origin.model in FAKES,
            received=_received(store, image),
            sources=list(_sources(store, origin, origins, numbers)),
        )
        for number, image in shown
        for origin in (origins.get(image, GIVEN),)
    ]


def _sources(
    store: ImageStore, origin: Origin, origins: Mapping[str, Origin], numbers: Mapping[str, int]
) -> Iterator[Source]:
    for image in (*filter(None, [origin.parent]), *origin.inputs):
        is_given = origins.get(image, GIVEN).is_given
        received = _received(store, image) if is_given else None  # others have a line of their own
        yield Source(step=None if is_given else numbers.get(image), given=is_given, received=received)


def _received(store: ImageStore, image: str) -> Received | None:
    data = store.original(image)
    if data is None:
        return None
    try:
        require_c2pa()
    except MissingDependency:
        return Received(state="unread")
    found = credentials_of(data)
    claim = found.claim
    if claim is None:
        return Received(state=found.state)
    return Received(
        state=found.state,
        signer=claim.signer,
        software=claim.software,
        source_types=claim.source_types,
    )
