"""The miniature's learned models, all called `mini`: its generator, its planner and its critic.

What computes by rule, without a model, is in `oracle.py` (planner, critic, scorer) and `world_painter.py`.
"""

from __future__ import annotations

from dataclasses import replace

from interleave import ConfigurationError
from interleave.local.diffusers_generator import DiffusersGenerator
from interleave.local.transformers_vlm import TransformersVlm
from interleave.plugin import Spec
from interleave_mini import WEIGHTS
from interleave_mini.requests import PlanCheck

ROLES = ("planner", "critic")


class MiniGenerator(DiffusersGenerator):
    """The diffusers backend on the weights in this package; it takes the same options."""

    def __init__(self, *, spec: Spec, options: DiffusersGenerator.Options) -> None:
        if spec.model or spec.base_url:
            raise ConfigurationError(
                f"{str(spec)!r}: 'mini' is the model in this package and takes no name and no address; "
                "a model of your own is 'diffusers:./folder'"
            )
        super().__init__(spec=replace(spec, model=str(WEIGHTS / "generator")), options=options)


class MiniAgent(TransformersVlm):
    """The transformers backend on the weights in this package; it takes the same options."""

    def __init__(self, *, spec: Spec, options: TransformersVlm.Options, role: str) -> None:
        if spec.model or spec.base_url:
            raise ConfigurationError(
                f"{str(spec)!r}: 'mini' is the model in this package and takes no name and no address; "
                "a model of your own is 'transformers:./folder'"
            )
        if role not in ROLES:
            raise ConfigurationError(
                f"'mini' is no {role}: it plans and judges; the miniature's scorer is 'oracle'"
            )
        if options.compile is None:  # compiling takes longer than many documents do
            options = options.model_copy(update={"compile": False})
        super().__init__(spec=replace(spec, model=str(WEIGHTS / role)), options=options)
        self.plan_check = PlanCheck()
