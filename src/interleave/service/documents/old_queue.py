"""The file `queue.json`, in which services kept the state of their queue before the job table did."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import Field, ValidationError

from interleave.plugin import Value
from interleave.service.documents.job_table import JobTable

log = logging.getLogger(__name__)
FILE_NAME = "queue.json"


class QueueState(Value):
    """Whether the queue is paused, and the order of its jobs."""

    paused: bool = False
    order: list[str] = Field(default_factory=list)


async def adopt_queue(folder: Path, jobs: JobTable) -> None:
    """Move the state of a queue from its file into the job table, once."""
    path = folder / FILE_NAME
    try:
        state = QueueState.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return
    except (OSError, ValidationError) as error:
        log.error("%s cannot be read, so the queue is in order of arrival: %s", path, error)
        return
    if state.paused:
        await jobs.pause(True)
    for id_ in reversed(state.order):
        job = await jobs.get(id_)
        if job is not None:
            await jobs.move(job, 0)
    path.unlink()
