"""What people decided about the queue, on disk: whether it is paused, and the order of what waits."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import Field, ValidationError

from interleave.plugin import Value, write_atomic

log = logging.getLogger(__name__)
FILE_NAME = "queue.json"


class QueueState(Value):
    """The queue as it was when it was last changed by hand; jobs that came later wait behind these."""

    paused: bool = False
    order: list[str] = Field(default_factory=list)


def read_queue(folder: Path) -> QueueState:
    """The state in a folder; that of a new queue where there is none, or it cannot be read."""
    try:
        return QueueState.model_validate_json((folder / FILE_NAME).read_bytes())
    except FileNotFoundError:
        return QueueState()
    except (OSError, ValidationError) as error:
        log.error("%s cannot be read, and the queue is in order of arrival: %s", folder / FILE_NAME, error)
        return QueueState()


def write_queue(folder: Path, state: QueueState) -> None:
    write_atomic(folder / FILE_NAME, state.model_dump_json().encode())
