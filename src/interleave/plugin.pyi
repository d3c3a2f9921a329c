# Stable names for packages and rooms, besides those of `interleave`. docs/reference/plugin.md describes each.

# Values
from interleave.config.run_config import Limits as Limits, RoleConfig as RoleConfig, RunConfig as RunConfig
from interleave.types import Part as Part, Prose as Prose, Value as Value

# Agents and models
from interleave.agents.critic import (
    critic_input as critic_input,
    critic_messages as critic_messages,
    read_verdict as read_verdict,
)
from interleave.agents.loading import LoadedAgent as LoadedAgent
from interleave.agents.prompts import PromptPack as PromptPack, load_pack as load_pack
from interleave.agents.prompts import ask as ask
from interleave.backends.retries import RetriedVlm as RetriedVlm
from interleave.config.specs import BackendOptions as BackendOptions, Spec as Spec, parse_spec as parse_spec
from interleave.runs.models import Models as Models
from interleave.runs.resolve import (
    load_models as load_models,
    resolve as resolve,
    split_choices as split_choices,
)

# Runs, files and text
from interleave.api import open_run as open_run
from interleave.errors import did_you_mean as did_you_mean
from interleave.files import make_folder as make_folder, read_text as read_text, write_atomic as write_atomic
from interleave.runs.folder import folder_lock as folder_lock
from interleave.runs.folder import ImageStore as ImageStore
from interleave.text import count as count, one_line as one_line, slug as slug
from interleave.errors import first_problem as first_problem
from interleave.errors import problem_with as problem_with

# Commands
from interleave.cli import options as options, request_input as request_input
from interleave.cli.streams import make_console as make_console
from interleave.cli.lazy_group import lazy_command as lazy_command, lazy_group as lazy_group
from interleave.cli.run_command import (
    Output as Output,
    cancel_on_terminate as cancel_on_terminate,
    run_and_report as run_and_report,
)
from interleave.cli.batch_progress import progress_bar as progress_bar
from interleave.cli.streams import say as say

# Parts of the core, used by name: `runs.read_journal`. The stub of a package lists its names.
from interleave import (
    agents as agents,
    backends as backends,
    batches as batches,
    cli as cli,
    config as config,
    drift as drift,
    entry_points as entry_points,
    errors as errors,
    files as files,
    images as images,
    locks as locks,
    redaction as redaction,
    render as render,
    runs as runs,
    text as text,
    types as types,
)
from interleave.runs import journal as journal
