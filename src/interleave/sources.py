"""Source images and prompt of each step, within the capabilities of the generator.

Without assets and anchors, a step starts from the previous image or from the whole history. A step with
assets also gets their reference images and the first image, up to the generator's limit, and its prompt
includes their descriptions. A step that is drawn from its scene starts from its assets only, and its prompt
describes the whole scene.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from interleave.backends.protocols import GeneratorCapabilities
from interleave.config.run_config import Rules, SourceRule
from interleave.errors import ConfigurationError
from interleave.images import side_by_side
from interleave.scheduler import ancestors_of, named_needs, parents_of
from interleave.text import count
from interleave.types import Asset, Plan, PlanStep, Request

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")


@dataclass(frozen=True)
class Start(Generic[T]):
    """Source images and prompt of a step's attempts."""

    prompt: str
    sources: tuple[T, ...]
    """Oldest first. Empty means text-to-image."""
    before: tuple[T, ...]
    """Image that the step edits, for the critic. Empty if it is drawn from its scene."""
    references: Mapping[str, T] = field(default_factory=dict)
    """Images of the assets in the step, by name."""


class SourceImages(Generic[T]):
    """Images so far, or their names, and the sources of each step."""

    def __init__(
        self,
        given: tuple[T, ...],
        rule: SourceRule,
        capabilities: GeneratorCapabilities,
        *,
        assets: Mapping[str, T] | None = None,
        anchor_every: int | None = None,
        sheet_of: Callable[[Sequence[T]], T] | None = None,
    ) -> None:
        self._given = given
        self._first: T | None = given[0] if given else None
        self._first_drawn: int | None = None
        self._by_step: dict[int, T] = {}
        self._uses: Counter[int] = Counter()
        """Number of remaining steps that start from each image, plus one if it may always be used."""
        self._rule = rule
        self._capabilities = capabilities
        self._given_assets = {name.lower(): image for name, image in (assets or {}).items()}
        self._assets: tuple[Asset, ...] = ()
        self._anchor_every = anchor_every
        self._sheet_of = sheet_of
        self._added: set[int] = set()
        self._chains: dict[int, tuple[int, ...]] = {}
        """Steps whose images each step starts from by the run's rule, oldest first."""
        self._anchored: set[int] = set()

    def add(self, step: int, image: T) -> None:
        """Add the image of a step, and drop images that no later step starts from."""
        self._by_step[step] = image
        self._added.add(step)
        if step == self._first_drawn and not self._given:
            self._first = image
        for number in {*self._chains.get(step, ()), step}:
            self._uses[number] -= number != step
            if self._uses[number] <= 0:
                self._by_step.pop(number, None)

    def start_of(self, step: PlanStep, *, most: int | None = None, from_scene: bool = False) -> Start[T]:
        """Return the sources and prompt of a step that has a prompt.

        `most` is the limit of the step's generator. With `from_scene` the step is drawn from its scene.
        """
        most = self._capabilities.max_sources if most is None else min(most, self._capabilities.max_sources)
        bound = bound_assets(step, self._assets)
        shown = self._shown(bound, step.number)
        if (from_scene or step.number in self._anchored) and step.scene is not None:
            return Start(with_descriptions(step.scene, bound), self._references(shown, most), (), shown)
        sources = self.sources_of(step, most)
        before = sources[-1:]
        if bound and step.sources is None:
            sources = self._with_references(sources, shown, most)
        return Start(with_descriptions(step.prompt or "", bound), sources, before, shown)

    def sources_of(self, step: PlanStep, most: int) -> tuple[T, ...]:
        """Return the sources without images of assets, oldest first. Empty means text-to-image."""
        if step.sources is not None:
            return tuple(self._by_step[number] for number in step.sources)
        chain = tuple(self._by_step[number] for number in self._chains[step.number])
        wanted = 1 if self._rule is SourceRule.PREVIOUS else most
        return (*self._given, *chain)[-wanted:] if wanted else ()

    def _with_references(self, sources: tuple[T, ...], shown: Mapping[str, T], most: int) -> tuple[T, ...]:
        """Return the sources after as many images of assets, and the first image, as fit."""
        if not sources:
            return self._references(shown, most)
        first = () if self._first is None else (self._first,)
        more: list[T] = []
        for each in (*_each_once(shown.values()), *first):
            if each not in sources and each not in more:
                more.append(each)
        return (*reversed(more[: max(most - len(sources), 0)]), *sources)

    def _references(self, shown: Mapping[str, T], most: int) -> tuple[T, ...]:
        """Return the images of assets only, combined on one sheet if the generator takes one image."""
        images = _each_once(shown.values())
        if len(images) <= most:
            return tuple(images)
        if most == 1 and self._sheet_of is not None:
            return (self._sheet_of(images),)
        return tuple(images[:most])

    def _shown(self, bound: Sequence[Asset], number: int) -> dict[str, T]:
        """Return the reference images of these assets that exist before a step."""
        images = {
            asset.name: self._given_assets.get(asset.name.lower())
            if asset.step is None
            else self._by_step.get(asset.step if asset.step < number else 0)
            for asset in bound
        }
        return {name: image for name, image in images.items() if image is not None}

    def check_plan(self, plan: Plan) -> None:
        """Record the images that a plan refers to. Raises for a plan that this generator cannot draw.

        A plan in chapters is checked again with each chapter.
        """
        self._assets = (*plan.assets, *_only_given(self._given_assets, plan.assets))
        self._first_drawn = next((step.number for step in plan.steps if step.prompt is not None), None)
        self._anchored = anchored_steps(plan, self._anchor_every)
        self._chains = chains_of(plan, self._rule)
        self._count_uses(plan)
        most = self._capabilities.max_sources
        for step in (step for step in plan.steps if step.prompt is not None):
            named = len(step.sources or ())
            has_source = bool(self._given or self._chains[step.number])
            from_nothing = not named and (step.sources is not None or not has_source)
            if from_nothing and not self._capabilities.text_to_image:
                raise ConfigurationError(
                    f"step {step.number} has no source image, and this generator only edits: "
                    "add an image to the request, or use a generator that draws from text"
                )
            if named > most or (most == 0 and not from_nothing):
                raise ConfigurationError(
                    f"step {step.number} starts from {count(max(named, 1), 'image')}, and this generator "
                    f"takes {most or 'none'}: use one that edits images, or a plan whose steps name fewer "
                    '("sources": [] draws a step from its prompt alone)'
                )

    def _count_uses(self, plan: Plan) -> None:
        """Count the remaining uses of each image, and drop images without any.

        Another chapter may start from any image of the previous one.
        """
        left = [step for step in plan.steps if step.prompt is not None and step.number not in self._added]
        kept = {number for step in left for number in step.sources or ()}
        kept |= {asset.step for asset in plan.assets if asset.step is not None}
        kept |= self._used_by_another_chapter(plan) if plan.is_unfinished else set()
        self._uses = Counter(number for step in left for number in self._chains[step.number]) + Counter(kept)
        self._by_step = {step: image for step, image in self._by_step.items() if self._uses[step]}

    def _used_by_another_chapter(self, plan: Plan) -> set[int]:
        """Return the steps whose images an unplanned chapter may start from."""
        every = self._rule is SourceRule.HISTORY or plan.chapter is None
        first = 0 if every or plan.chapter is None else plan.chapter.first
        latest = [step.number for step in plan.steps if step.number >= first]
        return {*latest, *(number for step in latest for number in self._chains[step])}

    @property
    def latest(self) -> tuple[T, ...]:
        """Image of the last step that has one, else the user's last image."""
        last = max(self._by_step, default=None)
        return self._given[-1:] if last is None else (self._by_step[last],)

    def needs_of(self, plan: Plan) -> dict[int, frozenset[int]]:
        """Return the steps that must finish before each step of a checked plan begins."""
        named = named_needs(plan)
        needs: dict[int, frozenset[int]] = {}
        for step in plan.steps:
            bound = bound_assets(step, self._assets)
            shown = {asset.step for asset in bound if asset.step is not None}
            first = {self._first_drawn} if bound and not self._given else set()
            used = {*named[step.number], *self._chains[step.number], *(step.sources or ()), *shown, *first}
            needs[step.number] = frozenset(each for each in used if each is not None and each < step.number)
        return needs


def images_of(request: Request, rules: Rules, capabilities: GeneratorCapabilities) -> SourceImages[Image]:
    """Return the images of a new run."""
    return SourceImages(
        request.images,
        rules.sources,
        capabilities,
        assets={asset.name: asset.image for asset in request.assets if asset.image is not None},
        anchor_every=rules.anchor_every,
        sheet_of=side_by_side,
    )


def chains_of(plan: Plan, rule: SourceRule) -> dict[int, tuple[int, ...]]:
    """Return the steps whose images each step starts from by default, oldest first."""
    if rule is SourceRule.HISTORY:
        return {number: tuple(sorted(found)) for number, found in ancestors_of(plan).items()}
    return {number: parents[-1:] for number, parents in parents_of(plan).items()}


def anchored_steps(plan: Plan, every: int | None) -> set[int]:
    """Return the steps that are drawn from their scene: one after every `every` steps of a chain.

    A step that names its sources is drawn from those and starts a new count.
    """
    anchored: set[int] = set()
    if every is None:
        return anchored
    parents, counted = parents_of(plan), dict[int, int]()
    for step in (step for step in plan.steps if step.prompt is not None):
        since = counted[parents[step.number][-1]] if parents[step.number] else 0
        if step.sources is not None:
            since = 0
        elif since >= every and step.scene is not None:
            anchored.add(step.number)
            since = 0
        counted[step.number] = since + 1
    return anchored


def bound_assets(step: PlanStep, assets: Sequence[Asset]) -> tuple[Asset, ...]:
    """Return the assets of a step: those in its `assets`, else those that its texts name."""
    if step.assets is not None:
        wanted = {name.lower() for name in step.assets}
        return tuple(asset for asset in assets if asset.name.lower() in wanted)
    if not assets:
        return ()
    texts = " ".join(filter(None, (step.prompt, step.instruction, step.caption, step.scene)))
    return tuple(asset for asset in assets if asset.kind == "style" or _names(texts, asset.name))


def with_descriptions(prompt: str, assets: Sequence[Asset]) -> str:
    """Return a prompt with the descriptions of its assets, unless it includes them."""
    said = [
        f"{asset.name}: {asset.description.strip().rstrip('.')}."
        for asset in assets
        if asset.description.strip() and asset.description.strip().lower() not in prompt.lower()
    ]
    if not said:
        return prompt
    ended = prompt if prompt.rstrip().endswith((".", "!", "?")) else f"{prompt.rstrip()}."
    return " ".join([ended, *said])


def steps_that_follow(
    plan: Plan,
    rule: SourceRule,
    number: int,
    *,
    anchor_every: int | None = None,
    from_scene: Collection[int] = (),
) -> set[int]:
    """Return the later steps whose images depend on this one, directly or indirectly."""
    follow: set[int] = set()
    anchored, chains = anchored_steps(plan, anchor_every) | set(from_scene), chains_of(plan, rule)
    reference = {asset.name.lower(): asset.step for asset in plan.assets if asset.step is not None}
    first = next((step.number for step in plan.steps if step.prompt is not None), None)
    for step in (step for step in plan.steps if step.prompt is not None):
        if step.sources is not None:
            starts_from = set(step.sources)
        else:
            starts_from = set() if step.number in anchored else set(chains[step.number])
        if step.sources is None and (bound := bound_assets(step, plan.assets)):
            starts_from |= {
                reference[asset.name.lower()] for asset in bound if asset.name.lower() in reference
            }
            if first is not None and step.number not in anchored:
                starts_from.add(first)
        if step.number > number and starts_from & {number, *follow}:
            follow.add(step.number)
    return follow


def _each_once(images: Iterable[T]) -> list[T]:
    found: list[T] = []
    for image in images:
        if image not in found:
            found.append(image)
    return found


def _only_given(given: Mapping[str, object], planned: Sequence[Asset]) -> list[Asset]:
    """Return assets of the user that the planner did not name. They are bound by name only."""
    known = {asset.name.lower() for asset in planned}
    return [Asset(name=name) for name in given if name not in known]


def _names(texts: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", texts, re.IGNORECASE) is not None
