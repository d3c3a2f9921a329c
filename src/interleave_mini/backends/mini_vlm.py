"""`mini`: the miniature's own planner and critic, small Qwen3-VL models that ship in this package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import interleave_mini as mini
from interleave.backends.vlms.transformers import TransformersVlm
from interleave.config.specs import Spec
from interleave.errors import ConfigurationError

WEIGHTS = Path(mini.__file__).parent / "weights"
ROLES = ("planner", "critic")


class MiniAgent(TransformersVlm):
    """The transformers backend on the weights in this package; it takes the same options."""

    class Options(TransformersVlm.Options):
        guess: bool = False
        """Whether it may plan requests that read like none it has learned; most of such plans are wrong."""

    def __init__(self, *, spec: Spec, options: Options, role: str) -> None:
        if spec.model or spec.base_url:
            raise ConfigurationError(
                f"{str(spec)!r}: 'mini' is the model in this package and takes no name and no address; "
                "a model of your own is 'transformers:./folder'"
            )
        if role not in ROLES:
            raise ConfigurationError(
                f"'mini' is no {role}: it plans and judges; the miniature's scorer is 'oracle'"
            )
        if options.compile is None:  # it would take longer than many documents do
            options = options.model_copy(update={"compile": False})
        super().__init__(spec=replace(spec, model=str(WEIGHTS / role)), options=options)
