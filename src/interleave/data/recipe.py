"""What a collection is made with: models of any spec, one generator or several by weight.

A recipe is plain values, so that it can be sent to other processes, each of which loads the models itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interleave.backends.registry import load_generator
from interleave.batches.assignment import Casting, Share
from interleave.batches.worker import Studio
from interleave.config.run_config import RunConfig
from interleave.errors import ConfigurationError
from interleave.runs.limits import refuse_unpriced
from interleave.runs.models import Models
from interleave.runs.resolve import load_models, resolve, split_choices
from interleave.text import count


@dataclass(frozen=True)
class Recipe:
    """The choices of a user."""

    choices: Mapping[str, Any] = field(default_factory=dict)
    """What `generate` takes, but for the generator: profile, planner, critic, prompts, seed, limits…"""
    generators: tuple[str, ...] = ()
    """None: that of the profile."""
    weights: tuple[float, ...] = ()
    """One for each generator; none: all alike."""

    def casting(self) -> Casting:
        """Who does what; nothing is loaded yet."""
        return _mixed([resolve(split_choices(choices)[0])[0] for choices in self._each()], self._shares())

    def studio(self, folder: Path) -> Studio:
        """Load the models and be ready to carry requests out below this folder."""
        chosen, limits = split_choices(self._each()[0])
        config, pack = resolve(chosen)
        first = load_models(config, pack, chosen)
        casting = self.casting()
        models: dict[str, Models] = {}
        for each in casting.configs:
            loaded = first if not models else first.drawing_with(load_generator(each.generator.spec))
            refuse_unpriced(limits, loaded.prices_known(planner_is_asked=True))
            models[each.generator.identity] = loaded
        return Studio(folder, casting, limits, models)

    def _each(self) -> list[dict[str, Any]]:
        """The choices once for every generator."""
        return [{**self.choices, "generator": spec} for spec in self.generators or (None,)]

    def _shares(self) -> tuple[float, ...]:
        if self.weights and len(self.weights) != len(self.generators):
            raise ConfigurationError(
                f"{count(len(self.generators), 'generator')} and {count(len(self.weights), 'weight')}: "
                "give a --weight for each --generator, in the same order, or none at all"
            )
        for weight in self.weights:
            if not (weight > 0 and math.isfinite(weight)):
                raise ConfigurationError(f"--weight {weight:g}: must be more than 0")
        return self.weights or tuple(1.0 for _ in self.generators)


def _mixed(configs: list[RunConfig], weights: tuple[float, ...]) -> Casting:
    first = configs[0]
    if len(configs) == 1:
        return Casting(config=first, own_seeds=True)
    names = [config.generator.identity for config in configs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                f"--generator {name!r} is given twice: give it once, and a larger --weight"
            )
    shares = (
        Share(generator=config.generator, weight=weight)
        for config, weight in zip(configs, weights, strict=True)
    )
    return Casting(config=first, mixture=tuple(shares), own_seeds=True)
