"""`mini`: the miniature's own generator, a small FLUX.2-klein that ships in this package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import interleave_mini as mini
from interleave.backends.generators.diffusers import DiffusersGenerator
from interleave.config.specs import Spec
from interleave.errors import ConfigurationError

WEIGHTS = Path(mini.__file__).parent / "weights" / "generator"


class MiniGenerator(DiffusersGenerator):
    """The diffusers backend on the weights in this package; it takes the same options."""

    def __init__(self, *, spec: Spec, options: DiffusersGenerator.Options) -> None:
        if spec.model or spec.base_url:
            raise ConfigurationError(
                f"{str(spec)!r}: 'mini' is the model in this package and takes no name and no address; "
                "a model of your own is 'diffusers:./folder'"
            )
        super().__init__(spec=replace(spec, model=str(WEIGHTS)), options=options)
