"""What the studio is told when it opens: the profiles with requests they can take, formats and limits."""

from __future__ import annotations

from interleave import InterleaveError, __version__
from interleave.plugin import config, images, render, text, types
from interleave.service.documents.keys import Caller
from interleave.service.documents.model_cache import Offer
from interleave.service.documents.service import Documents, suggestions_for
from interleave.studio.examples import any_examples, strictness_within
from interleave.studio.schemas import (
    Example,
    ExportFormat,
    InputLimits,
    ProfileFacts,
    RoleModels,
    Start,
)

EXAMPLES = 6


class StartFacts:
    """Makes the facts of a service; what costs time is made once."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self._profiles: list[ProfileFacts] = []

    def signed_out(self) -> Start:
        return Start(version=__version__, needs_key=True, signed_in=False)

    def of(self, caller: Caller, needs_key: bool) -> Start:
        """The facts for one caller; looks for examples the first time, so run it in a thread."""
        shelf = self.documents.shelf
        if not self._profiles:
            offers = {self.documents.own_profile: shelf.own, **shelf.others}
            self._profiles = [self._facts(name, offer) for name, offer in offers.items()]
        return Start(
            version=__version__,
            needs_key=needs_key,
            signed_in=True,
            guest=caller.is_guest,
            can_manage="admin" in caller.scopes,
            rater=caller.name,
            models_state=shelf.state,
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
            limits=InputLimits(
                max_pictures=types.MAX_REQUEST_PICTURES,
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
    except InterleaveError:  # a file that was removed since
        return ""


def examples_of(offer: Offer) -> list[Example]:
    """Requests that this profile takes: what its planner suggests, else some for one that takes any."""
    suggested = [Example(text=text) for text in suggestions_for("", offer.config.planner, EXAMPLES)]
    return suggested or any_examples()
