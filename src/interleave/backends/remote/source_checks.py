"""What a generator says it cannot do is refused before anything is sent."""

from __future__ import annotations

from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.errors import BackendError, Failure


def refuse_wrong_sources(where: str, request: ImageRequest, can: GeneratorCapabilities) -> None:
    """Too many pictures to start from, or none where one is needed."""
    count = len(request.sources)
    if count > can.max_sources:
        raise BackendError(
            f"{where} takes at most {can.max_sources} sources, not {count}", kind=Failure.INVALID
        )
    if not count and not can.text_to_image:
        raise BackendError(f"{where} only edits: it needs a picture to start from", kind=Failure.INVALID)
