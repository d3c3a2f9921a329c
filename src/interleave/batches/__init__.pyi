"""Public names of `interleave.batches`, available as `interleave.plugin.batches`."""

from interleave.config.run_config import DEFAULT_CONCURRENCY as DEFAULT_CONCURRENCY
from interleave.batches.assignment import (
    Assignment as Assignment,
    Shard as Shard,
    Share as Share,
    WHOLE as WHOLE,
)
from interleave.batches.batch import (
    Batch as Batch,
    Executor as Executor,
    read_assignment as read_assignment,
    read_index as read_index,
    refuse_unusable_folder as refuse_unusable_folder,
    run_folder as run_folder,
)
from interleave.batches.requests import (
    Item as Item,
    checked_id as checked_id,
    checked_parts as checked_parts,
    read_requests as read_requests,
    rows_of as rows_of,
)
from interleave.batches.batch import Watcher as Watcher
from interleave.batches.worker import (
    RemoteWork as RemoteWork,
    Worker as Worker,
    WorkerOptions as WorkerOptions,
    executor_named as executor_named,
)
from interleave.api import batch_of as batch_of
from interleave.batches.requests import items_of as items_of
