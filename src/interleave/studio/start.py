"""The studio's initial data: profiles with example requests, formats and limits."""

from __future__ import annotations

from interleave import InterleaveError, __version__
from interleave.plugin import config, images, render, text, types
from interleave.service.documents.keys import Caller
from interleave.service.documents.model_cache import Offer
from interleave.service.documents.service import Documents, suggestions_for
from interleave.studio.schemas import (
    Example,
    ExportFormat,
    InputLimits,
    ProfileFacts,
    RoleModels,
    Start,
    Strictness,
)

EXAMPLES = 6
ANY = (
    "How a frog grows up, step by step, in four pictures",
    "Tell a bedtime story about a lighthouse keeper and a lost whale, in five pictures",
    "Show how to fold a paper boat, one picture for each fold",
    "Explain how a rainbow forms, in three pictures for children",
    "How to repot a house plant, step by step",
    "A cup of tea through one day, from morning to night, in four pictures",
)
"""Example requests for planners that accept any."""


class StartFacts:
    """Builds the initial data of a service. Expensive parts are built once."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self._profiles: list[ProfileFacts] = []

    def signed_out(self) -> Start:
        return Start(version=__version__, needs_key=True, signed_in=False)

    def of(self, caller: Caller, needs_key: bool) -> Start:
        """Return the data for one caller. Looks for examples the first time, so run it in a thread."""
        model_cache = self.documents.model_cache
        if not self._profiles:
            offers = {self.documents.own_profile: model_cache.own, **model_cache.others}
            self._profiles = [self._facts(name, offer) for name, offer in offers.items()]
        return Start(
            version=__version__,
            needs_key=needs_key,
            signed_in=True,
            guest=caller.is_guest,
            can_manage="admin" in caller.scopes,
            rater=caller.name,
            models_state=model_cache.state,
            default_profile=self.documents.own_profile,
            profiles=self._profiles,
            exports=[
                ExportFormat(
                    format=each.name,
                    media_type=each.media_type,
                    available=each.missing is None,
                    missing=each.missing,
                )
                for each in render.known_formats().values()
            ],
            signs=bool(self.documents.settings.sign),
            limits=InputLimits(
                max_pictures=types.MAX_REQUEST_IMAGES,
                max_picture_bytes=images.MAX_BYTES,
                max_text=text.MAX_REQUEST_CHARACTERS,
            ),
        )

    def _facts(self, name: str, offer: Offer) -> ProfileFacts:
        config = offer.config
        most = min(config.max_attempts, self.documents.settings.max_attempts or config.max_attempts)
        return ProfileFacts(
            name=name,
            description=_description(offer),
            notes=list(config.notes),
            models=RoleModels(
                planner=config.planner.identity,
                critic=config.critic.identity,
                generator=config.generator.identity,
            ),
            max_attempts=most,
            max_steps=config.max_steps,
            examples=examples_of(offer),
            strictness=strictness_within(most),
        )


def _description(offer: Offer) -> str:
    try:
        return config.load_profile(offer.chosen.profile).description
    except InterleaveError:  # the file has been removed since
        return ""


def examples_of(offer: Offer) -> list[Example]:
    """Return requests that this profile accepts: its planner's suggestions, else generic ones."""
    suggested = suggestions_for("", offer.config.planner, EXAMPLES)
    return [Example(text=text) for text in suggested or ANY]


def strictness_within(most: int) -> list[Strictness]:
    """Return the choices of attempt limits for a profile with at most `most` attempts per step."""
    quick, normal = Strictness(name="quick", max_attempts=1), max(1, (most + 1) // 2)
    choices = [quick, Strictness(name="normal", max_attempts=normal)]
    choices.append(Strictness(name="strict", max_attempts=most))
    return [
        each for at, each in enumerate(choices) if not at or each.max_attempts > choices[at - 1].max_attempts
    ]
