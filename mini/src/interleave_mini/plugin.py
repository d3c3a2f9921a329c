"""The backends that the miniature registers with `interleave`, named by the entry points in `pyproject.toml`.

A string such as "interleave_mini.oracle:Oracle" is imported when the backend is first used. `draws` checks a
prompt and `takes` checks and normalises a request before any model is loaded, `suggests` finds requests that
it can take; `generators` names the ones whose images the miniature's agents can read.
"""

from __future__ import annotations

from interleave import BackendInfo

NEEDS = ("onnxruntime",)
IMAGES_OF = ("mini", "world")
CHAINS = "interleave_mini.bench.chains:MiniChains"

GENERATOR = BackendInfo(
    "interleave_mini.backends:MiniGenerator",
    "the miniature's own model, a small FLUX.2-klein that ships with this package and runs on a CPU",
    needs=NEEDS,
    draws="interleave_mini.requests:check_prompt",
    chains=CHAINS,
)
WORLD = BackendInfo(
    "interleave_mini.world_painter:WorldPainter",
    "the miniature's world as its own perfect painter: draws by rule, not by a model",
    note="{} from “world”, a program that draws the miniature by rule; no image model took part.",
    notes_on={"mistakes": "It errs on purpose now and then."},
    chains=CHAINS,
)
VLM = BackendInfo(
    "interleave_mini.backends:MiniAgent",
    "the miniature's own planner and critic, small Qwen3-VL models that ship with this package",
    needs=NEEDS,
    note="The miniature's own small models took part. They know only its small world, and can be wrong.",
    takes="interleave_mini.requests:accept_request",
    suggests="interleave_mini.requests:suggest_requests",
    generators=IMAGES_OF,
)
ORACLE = BackendInfo(
    "interleave_mini.oracle:Oracle",
    "plans, judges and scores by rule in the miniature's world: the teacher and upper bound",
    note="{} from the “oracle”, a program that knows the miniature's language and reads its images; "
    "no language model took part.",
    takes="interleave_mini.requests:accept_request",
    suggests="interleave_mini.requests:suggest_requests",
    generators=IMAGES_OF,
)
