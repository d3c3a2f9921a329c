"""What each image of a run was made from, by which model and with which prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from interleave import ConfigurationError, GeneratorCapabilities, RunRecord, parse_spec
from interleave.plugin import RoleConfig, runs

_ANY_NUMBER = GeneratorCapabilities(max_sources=10_000)


@dataclass(frozen=True)
class Origin:
    """How an image of a run came about."""

    step: int | None = None
    """Number of its step; `None` for an image that the user gave."""
    attempt: int = 1
    model: str = ""
    """Name of the model, without address, folder or options."""
    prompt: str = ""
    parent: str | None = None
    """Name of the image that it is an edit of."""
    inputs: tuple[str, ...] = ()
    """Names of further images that the model received."""

    @property
    def is_given(self) -> bool:
        return self.step is None


GIVEN = Origin()


def origins_of(record: RunRecord) -> Mapping[str, Origin]:
    """Return the origin of every image of a run, by its name. The first attempt with an image counts."""
    given = [part.image for part in record.request if part.image]
    given += [asset.image for asset in record.assets if asset.image]
    found = dict.fromkeys(given, GIVEN)
    for name, origin in _drawn(record):
        found.setdefault(name, origin)
    return found


def _drawn(record: RunRecord) -> Iterator[tuple[str, Origin]]:
    starts = _starts(record)
    for step in record.steps:
        start = starts.get(step.plan.number)
        for each in step.attempts:
            sources = each.sources if each.sources is not None else start.sources if start else ()
            edits = bool(sources) and not step.anew
            yield (
                each.image,
                Origin(
                    step=step.plan.number,
                    attempt=each.number,
                    model=_model_of(record, each),
                    prompt=each.prompt,
                    parent=sources[-1] if edits else None,
                    inputs=sources[:-1] if edits else sources,
                ),
            )


def _model_of(record: RunRecord, attempt: runs.AttemptRecord) -> str:
    config = record.config
    if runs.is_native(config.planner.spec) and attempt.number == 1 and attempt.generator is None:
        return model_name(config.planner)
    return short_name(attempt.generator) if attempt.generator else model_name(config.generator)


def model_name(role: RoleConfig | None) -> str:
    """Return the name of a model for readers."""
    return short_name(role.shown) if role else ""


def short_name(shown: str) -> str:
    """Return the last part of a model's name: a spec may name an address or a folder of its user."""
    try:
        spec = parse_spec(shown)
    except ConfigurationError:
        return "a model"
    return (spec.model or "").rstrip("/").rpartition("/")[2] or spec.name


def _starts(record: RunRecord) -> dict[int, runs.Start[str]]:
    """Return the source images of each step, by the run's own rule. Steps without them are left out."""
    images = runs.SourceImages(
        tuple(part.image for part in record.request if part.image),
        record.config.sources,
        _ANY_NUMBER,
        assets={each.name: each.image for each in record.assets if each.image},
        anchor_every=record.config.remedies.anchor_every,
    )
    starts: dict[int, runs.Start[str]] = {}
    if record.plan is None:
        return starts
    images.check_plan(record.plan)
    for step in record.steps:
        if not step.attempts:
            continue
        try:
            starts[step.plan.number] = images.start_of(step.plan, from_scene=step.anew)
        except KeyError:  # the run ended before its sources were redrawn
            continue
        if step.attempt is not None:
            images.add(step.plan.number, step.attempt.image)
    return starts
