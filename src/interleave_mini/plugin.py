"""What the miniature adds to `interleave`, through the entry points that any package may use."""

from __future__ import annotations

from interleave.backends.registry import LOCAL_NEEDS, BackendInfo

GENERATOR = BackendInfo(
    "interleave_mini.backends.mini_generator:MiniGenerator",
    "the miniature's own model, a small FLUX.2-klein that ships with this package and runs on a CPU",
    needs=LOCAL_NEEDS,
    extra="local",
    draws="interleave_mini.vocabulary_check:refuse_foreign_prompt",
)
WORLD = BackendInfo(
    "interleave_mini.backends.world_generator:WorldPainter",
    "the miniature's world as its own perfect painter: draws by rule, not by a model",
    note="{} from “world”, a program that draws the miniature by rule; no image model took part.",
    notes_on={"mistakes": "It errs on purpose now and then."},
)
VLM = BackendInfo(
    "interleave_mini.backends.mini_vlm:MiniAgent",
    "the miniature's own planner and critic, small Qwen3-VL models that ship with this package",
    needs=LOCAL_NEEDS,
    extra="local",
    note="The miniature's own small models took part: they know its little world alone, and they err.",
    takes="interleave_mini.oracle:suited",
)
ORACLE = BackendInfo(
    "interleave_mini.oracle:Oracle",
    "plans, judges and scores by rule in the miniature's world: the teacher and upper bound",
    note="{} from the “oracle”, a program that knows the miniature's language and reads its pictures; "
    "no language model took part.",
    takes="interleave_mini.oracle:suited",
)
