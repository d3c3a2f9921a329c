"""Names of `interleave.agents` for rooms, as `agents` of `interleave.plugin`."""

from interleave.agents.critic import critic_sampling as critic_sampling
from interleave.agents.loading import (
    agent_from as agent_from,
    critic_from as critic_from,
    is_prompted as is_prompted,
    scorer_from as scorer_from,
)
from interleave.agents.planner import planner_messages as planner_messages
from interleave.agents.prompts import (
    AnswerForm as AnswerForm,
    DEFAULT_PACK as DEFAULT_PACK,
    PackDescription as PackDescription,
    pack_folders as pack_folders,
)
from interleave.agents.reference_sheets import (
    reference_sheets_of as reference_sheets_of,
    without_reference_sheets as without_reference_sheets,
)
from interleave.agents.replies import (
    PLAN_KEYS as PLAN_KEYS,
    TEXT_SCHEMA as TEXT_SCHEMA,
    object_schema as object_schema,
    parse_plan as parse_plan,
    parse_prompt as parse_prompt,
    parse_reply as parse_reply,
    parse_verdict as parse_verdict,
    read_plan as read_plan,
    render_plan as render_plan,
    render_verdict as render_verdict,
    require_object as require_object,
)
from interleave.agents.strict_form import is_strict_verdict as is_strict_verdict
from interleave.step_counts import named_step_count as named_step_count
from interleave.agents.auditor import Document as Document
from interleave.agents.critic import VlmCritic as VlmCritic
from interleave.agents.loading import planner_from as planner_from
from interleave.agents.planner import named_steps as named_steps
from interleave.agents.planner import request_parts as request_parts
