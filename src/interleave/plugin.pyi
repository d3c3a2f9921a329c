# What packages and rooms build on beside the names of `interleave`; docs/reference/plugin.md describes each.

# Values
from interleave.types import Part as Part, Prose as Prose, Value as Value

# Replies of models: the codec
from interleave.agents.reask import ask as ask
from interleave.agents.replies import (
    PLAN_KEYS as PLAN_KEYS,
    TEXT_SCHEMA as TEXT_SCHEMA,
    object_schema as object_schema,
    parse_reply as parse_reply,
    read_plan as read_plan,
    require_object as require_object,
)
from interleave.errors import UnreadableLiteral as UnreadableLiteral

# Agents and models
from interleave.agents.critic import (
    critic_input as critic_input,
    critic_sampling as critic_sampling,
    read_verdict as read_verdict,
)
from interleave.agents.loading import (
    LoadedAgent as LoadedAgent,
    agent_from as agent_from,
    is_prompted as is_prompted,
)
from interleave.agents.prompts import PromptPack as PromptPack
from interleave.backends.retries import RetriedVlm as RetriedVlm
from interleave.runs.resolve import (
    load_agent as load_agent,
    resolve as resolve,
    split_choices as split_choices,
)

# Backends
from interleave.backends.deadlines import waiting as waiting
from interleave.backends.progress import report as report
from interleave.backends.protocols import Token as Token, check_extras as check_extras
from interleave.backends.sampling import SamplingOptions as SamplingOptions, sampling_for as sampling_for
from interleave.config.specs import BackendOptions as BackendOptions, Spec as Spec, parse_spec as parse_spec
from interleave.errors import OutOfMemory as OutOfMemory, causes as causes

# Runs, images and files
from interleave.api import open_run as open_run
from interleave.errors import did_you_mean as did_you_mean
from interleave.files import (
    make_folder as make_folder,
    read_from as read_from,
    read_text as read_text,
    sync_file as sync_file,
    why as why,
    write_atomic as write_atomic,
)
from interleave.images import (
    decode_picture as decode_picture,
    pixel_digest as pixel_digest,
    white_canvas as white_canvas,
)
from interleave.runs.folder import folder_lock as folder_lock
from interleave.runs.run import Run as Run
from interleave.runs.store import PictureStore as PictureStore
from interleave.validation_errors import first_problem as first_problem

# Commands
from interleave.cli import options as options, request_input as request_input
from interleave.cli.run_command import (
    Output as Output,
    cancel_on_terminate as cancel_on_terminate,
    run_and_report as run_and_report,
)
from interleave.cli.lazy_group import lazy_command as lazy_command, lazy_group as lazy_group
from interleave.cli.stage_progress import progress_bar as progress_bar
from interleave.cli.streams import say as say
