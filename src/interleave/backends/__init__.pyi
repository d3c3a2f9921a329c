"""Names of `interleave.backends` for rooms, as `backends` of `interleave.plugin`."""

from interleave.backends.concurrency import (
    Deadline as Deadline,
    TIMEOUT_ADVICE as TIMEOUT_ADVICE,
    waiting as waiting,
)
from interleave.backends.protocols import (
    MAX_TEMPERATURE as MAX_TEMPERATURE,
    NO_SETTINGS as NO_SETTINGS,
    DocumentEvent as DocumentEvent,
    ImageSettings as ImageSettings,
    SamplingOptions as SamplingOptions,
    Token as Token,
    check_extras as check_extras,
    has_listeners as has_listeners,
    report as report,
    sampling_for as sampling_for,
)
from interleave.backends.registry import (
    AGENT_KINDS as AGENT_KINDS,
    GROUPS as GROUPS,
    check_agent as check_agent,
    check_generator as check_generator,
    find_backend as find_backend,
    is_agent as is_agent,
    known_backends as known_backends,
    load_agent as load_agent,
    look_for_model as look_for_model,
    note_for as note_for,
    refuse_unloadable as refuse_unloadable,
    require_backend as require_backend,
    shared_options as shared_options,
    suggested_requests as suggested_requests,
    writes_documents as writes_documents,
)
from interleave.backends.retries import (
    IMAGE_DEADLINE_SECONDS as IMAGE_DEADLINE_SECONDS,
    RetriedGenerator as RetriedGenerator,
    RetryPolicy as RetryPolicy,
    VLM_DEADLINE_SECONDS as VLM_DEADLINE_SECONDS,
    explained_by as explained_by,
)
