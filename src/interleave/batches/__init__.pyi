"""What rooms may use of `interleave.batches`, as `batches` of `interleave.plugin`."""

from interleave.batches.assignment import (
    Assignment as Assignment,
    Shard as Shard,
    Share as Share,
    WHOLE as WHOLE,
)
from interleave.batches.batch import (
    Batch as Batch,
    DEFAULT_CONCURRENCY as DEFAULT_CONCURRENCY,
    Executor as Executor,
    FAILURES_IN_A_ROW as FAILURES_IN_A_ROW,
    LOCK_NAME as LOCK_NAME,
    read_assignment as read_assignment,
    read_index as read_index,
    refuse_unusable_folder as refuse_unusable_folder,
    run_folder as run_folder,
)
from interleave.batches.ray_executor import executor_on_ray as executor_on_ray
from interleave.batches.ray_executor import RayOptions as RayOptions
from interleave.batches.requests import (
    Item as Item,
    checked_id as checked_id,
    lines_of as lines_of,
    parse_line as parse_line,
    picture_file as picture_file,
    raw_parts as raw_parts,
    read_requests as read_requests,
    refuse_unusable as refuse_unusable,
)
from interleave.batches.watcher import Watcher as Watcher
from interleave.batches.worker import Worker as Worker
