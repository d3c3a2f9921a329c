"""What rooms may use of `interleave.backends`, as `backends` of `interleave.plugin`."""

from interleave.backends.concurrency import CallLimit as CallLimit
from interleave.backends.deadlines import Deadline as Deadline, waiting as waiting
from interleave.backends.progress import report as report
from interleave.backends.protocols import (
    NO_SETTINGS as NO_SETTINGS,
    PictureSettings as PictureSettings,
    Token as Token,
    check_extras as check_extras,
)
from interleave.backends.registry import (
    check_agent as check_agent,
    check_generator as check_generator,
    find_backend as find_backend,
    load_agent as load_agent,
    look_for_model as look_for_model,
    note_for as note_for,
    refuse_unloadable as refuse_unloadable,
    require_backend as require_backend,
    suggested_requests as suggested_requests,
)
from interleave.backends.remote.endpoints import read_endpoints as read_endpoints
from interleave.backends.retries import (
    IMAGE_DEADLINE_SECONDS as IMAGE_DEADLINE_SECONDS,
    RetriedGenerator as RetriedGenerator,
    RetryPolicy as RetryPolicy,
    VLM_DEADLINE_SECONDS as VLM_DEADLINE_SECONDS,
)
from interleave.backends.sampling import SamplingOptions as SamplingOptions, sampling_for as sampling_for
