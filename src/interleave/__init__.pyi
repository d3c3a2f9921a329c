"""The public names. Each is imported on first use."""

from interleave.agents.critic import (
    Critic as Critic,
    CriticInput as CriticInput,
)
from interleave.agents.planner import Planner as Planner
from interleave.agents.critic import Scorer as Scorer
from interleave.api import (
    LimitOptions as LimitOptions,
    PlanOptions as PlanOptions,
    RunEditor as RunEditor,
    RunOptions as RunOptions,
    agenerate as agenerate,
    agenerate_many as agenerate_many,
    aresume as aresume,
    edit as edit,
    export as export,
    generate as generate,
    generate_many as generate_many,
    plan as plan,
    read_run as read_run,
    resume as resume,
    stream as stream,
    stream_many as stream_many,
    stream_resume as stream_resume,
)
from interleave.backends.protocols import (
    DocumentEnd as DocumentEnd,
    DocumentModel as DocumentModel,
    GeneratorCapabilities as GeneratorCapabilities,
    ImageGenerator as ImageGenerator,
    ImageRequest as ImageRequest,
    Message as Message,
    Reply as Reply,
    Sampling as Sampling,
    VisionLanguageModel as VisionLanguageModel,
    VlmCapabilities as VlmCapabilities,
)
from interleave.backends.registry import (
    BackendInfo as BackendInfo,
    load_generator as load_generator,
    load_vlm as load_vlm,
)
from interleave.batches.batch import (
    BatchSummary as BatchSummary,
    Ended as Ended,
)
from interleave.config.specs import (
    Spec as Spec,
    parse_spec as parse_spec,
)
from interleave.errors import (
    BackendError as BackendError,
    ConfigurationError as ConfigurationError,
    Failure as Failure,
    FolderInUse as FolderInUse,
    InputError as InputError,
    InterleaveError as InterleaveError,
    LimitReached as LimitReached,
    MissingDependency as MissingDependency,
    ReplyError as ReplyError,
    RunError as RunError,
    StorageError as StorageError,
    UnknownWords as UnknownWords,
)
from interleave.events import (
    Attempt as Attempt,
    Drawn as Drawn,
    Judged as Judged,
    Planned as Planned,
    StepFinished as StepFinished,
)
from interleave.images import read_image as read_image
from interleave.request_files import (
    read_markdown as read_markdown,
    read_plan as read_plan,
)
from interleave.runs.branch import branch_run as branch_run
from interleave.runs.decisions import (
    change_generator as change_generator,
    choose_attempt as choose_attempt,
    redraw_step as redraw_step,
    release_plan as release_plan,
    undo_decision as undo_decision,
)
from interleave.runs.event_lines import (
    EventLine as EventLine,
    read_event_line as read_event_line,
)
from interleave.runs.folder import comparable as comparable
from interleave.runs.notebook import show as show
from interleave.runs.record import (
    CallCounts as CallCounts,
    RunRecord as RunRecord,
    read_record as read_record,
)
from interleave.runs.run import (
    Event as Event,
    RunResult as RunResult,
    ShownStep as ShownStep,
)
from interleave.types import (
    Asked as Asked,
    Asset as Asset,
    Finding as Finding,
    GivenAsset as GivenAsset,
    Outcome as Outcome,
    ImagePart as ImagePart,
    Plan as Plan,
    PlanStep as PlanStep,
    Question as Question,
    Reading as Reading,
    Request as Request,
    Scores as Scores,
    Slot as Slot,
    Text as Text,
    Verdict as Verdict,
)

__version__: str
