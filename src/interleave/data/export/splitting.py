"""Training or validation: decided by the request, so that no request is in both.

All trajectories of one request, by whatever generator and in whatever collection, go the same way, and so do
all rows of each. A request is what it says and shows, whatever its spaces and capitals.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from interleave.batches.requests import read_requests
from interleave.data.trajectories import Trajectory
from interleave.pictures import pixel_digest
from interleave.types import Request, Text

TRAIN, VALIDATION = "train", "validation"


def split_of(fingerprint: str, share: float) -> str:
    """The split of a request; `share` of all requests, about, are for validation."""
    lot = int.from_bytes(hashlib.sha256(fingerprint.encode()).digest()[:8], "big")
    return VALIDATION if lot < share * 2**64 else TRAIN


def fingerprint_of(trajectory: Trajectory) -> str:
    """What a trajectory was asked; pictures by the names of their files, which are hashes."""
    return _fingerprint(
        (part.text or "") if part.image is None else part.image for part in trajectory.record.request
    )


def fingerprint_of_texts(texts: Iterable[str]) -> str:
    return _fingerprint(texts)


def held_out(files: Iterable[Path]) -> frozenset[str]:
    """The requests of files that nothing may be trained on; those with pictures go by what these show."""
    return frozenset(shown(item.load()) for path in files for item in read_requests(path)[0])


def shown(request: Request) -> str:
    """A request by its words and pixels: the same in a file and in a run folder."""
    return _fingerprint(
        part.text if isinstance(part, Text) else pixel_digest(part.image) for part in request.parts
    )


def _fingerprint(parts: Iterable[str]) -> str:
    return "\0".join(" ".join(part.casefold().split()) for part in parts)
