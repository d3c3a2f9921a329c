"""How long a service keeps what has ended: jobs with their runs, and uploads, are removed after some days."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from interleave import StorageError
from interleave.plugin import count

if TYPE_CHECKING:
    from interleave.service.documents.service import Documents

log = logging.getLogger(__name__)
DAY = 86_400.0
LOOK_SECONDS = 600.0
AT_ONCE = 100


async def remove_regularly(documents: Documents, days: float) -> None:
    """Remove what is old, again and again; a disk that fails is tried again later."""
    while True:
        try:
            if removed := await remove_older(documents, days):
                log.info("removed %s that ended more than %g days ago", count(removed, "job"), days)
        except (StorageError, OSError) as error:
            log.error("old jobs cannot be removed: %s", error)
        await asyncio.sleep(LOOK_SECONDS)


async def remove_older(documents: Documents, days: float) -> int:
    """Remove jobs that ended so many days ago, held ones too, and uploads; returns the number of jobs."""
    before, removed = documents.clock() - days * DAY, 0
    while ids := await documents.jobs.ended_before(before, limit=AT_ONCE):
        for id_ in ids:
            await documents.forget(id_)
        removed += len(ids)
    while files := await documents.jobs.files_before(before, limit=AT_ONCE):
        for file in files:
            await documents.forget_file(file)
    return removed
