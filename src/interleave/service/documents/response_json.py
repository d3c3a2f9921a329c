"""A job as a Response object of OpenAI's API, with further details in the field `interleave`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interleave import RunRecord
from interleave.plugin import journal, render, runs
from interleave.service.documents import input_roles
from interleave.service.documents.forecast import Forecast, forecasts_of
from interleave.service.documents.jobs import Job
from interleave.service.documents.submissions import OWN_FIELD

DOCUMENTS = "/v1/documents"
HELD_REASON, ASKED_REASON = "plan_held", "plan_asked"


def response_status(job: Job) -> str:
    """Return the status of a job as a Response; a plan that waits for a person is `incomplete`."""
    return "incomplete" if job.waits_for_person else job.status


def response_object(
    job: Job, items: Sequence[Mapping[str, Any]], record: RunRecord | None, usage: Mapping[str, int]
) -> dict[str, Any]:
    """Return the Response of a job; `items` is its output so far."""
    settings = {"instructions": None, "parallel_tool_calls": True, **job.settings}
    settings.pop(input_roles.SETTING, None)
    tool = {"type": "image_generation", "partial_images": job.partial_images}
    return {
        "id": job.id,
        "object": "response",
        "created_at": int(job.created),
        "completed_at": int(job.finished) if job.finished and job.status == "completed" else None,
        "status": response_status(job),
        "background": job.background,
        "model": job.model,
        "output": list(items),
        "error": job.error.model_dump() if job.error else None,
        "incomplete_details": _incomplete_details(job),
        "previous_response_id": job.previous,
        "metadata": job.metadata if job.metadata is not None else {},
        "tools": [tool],
        "tool_choice": "auto",
        "temperature": 1.0,
        "top_p": 1.0,
        "max_output_tokens": None,
        "reasoning": {"effort": None, "summary": None},
        "text": {"format": {"type": "text"}},
        "truncation": "disabled",
        "service_tier": "default",
        "store": True,
        "usage": _usage(usage) if job.is_final else None,
        **settings,
        OWN_FIELD: job_details(job, record),
    }


def waiting_response(job: Job) -> dict[str, Any]:
    """Return the Response of a job that has never run."""
    return response_object(job, [], None, {})


def _incomplete_details(job: Job) -> dict[str, str] | None:
    reasons = {"incomplete": "max_output_tokens", "held": HELD_REASON, "asked": ASKED_REASON}
    return {"reason": reasons[job.status]} if job.status in reasons else None


def _usage(usage: Mapping[str, int]) -> dict[str, Any]:
    read, written = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
    }


def job_details(job: Job, record: RunRecord | None) -> dict[str, Any]:
    """Return the details a Response has no fields for: plan, attempts, verdicts, calls, cost."""
    details: dict[str, Any] = {
        "document": f"{DOCUMENTS}/{job.id}",
        "cancelling": job.cancelling,
        "held": job.status == "held",
        "parent": job.parent,
    }
    if record is None:
        return details | {"assets": [asset_json(job, asset, started=False) for asset in job.assets]}
    same = {"reason", "audits", "plan", "calls", "cost", "seconds"}
    forecasts, document = forecasts_of(record), runs.as_shown(record)
    places = {step.record.plan.number: place for place, step in enumerate(document.steps, start=1)}
    return {
        **details,
        **record.model_dump(mode="json", include=same),
        "assets": [asset_json(job, asset) for asset in record.assets],
        "understood": list(record.question.understood) if record.question else None,
        "missing": list(record.question.missing) if record.question else None,
        "words": runs.words_of(record) if record.plan and not job.waits_for_person else None,
        "steps": [
            {
                **_step(job, step, before),
                **_words(step, record, places),
                **_redraw(forecasts.get(step.plan.number)),
            }
            for step, before in zip(record.steps, images_before(record), strict=True)
        ],
        "forced": list(record.forced_steps),
        "models": {
            role: getattr(record.config, role).identity for role in ("planner", "critic", "generator")
        },
        **record.config.model_dump(include={"seed", "max_attempts"}),
        "notes": list(record.notes),
        "decisions": [_decision(each) for each in record.decisions],
    }


def images_before(record: RunRecord) -> list[str | None]:
    """Return the source image of each step; the latest if it has several."""
    given = next((part.image for part in reversed(record.request) if part.image), None)
    parents = runs.parents_of(record.plan) if record.plan else {}
    shown = {step.plan.number: step.attempt.image for step in record.steps if step.attempt}
    return [_image_before(step, parents[step.plan.number], shown, given) for step in record.steps]


def _image_before(
    step: runs.StepRecord, parents: tuple[int, ...], shown: Mapping[int, str], given: str | None
) -> str | None:
    if step.plan.prompt is None or step.anew:
        return None
    if step.plan.sources is None and not parents:
        return given
    named = parents if step.plan.sources is None else step.plan.sources
    return next((shown[number] for number in reversed(named) if number in shown), None)


def _step(job: Job, step: runs.StepRecord, before: str | None) -> dict[str, Any]:
    return {
        "number": step.plan.number,
        "picture": image_url(job.id, step.attempt.image) if step.attempt else None,
        "before": image_url(job.id, before) if before else None,
        "accepted": step.plan.prompt is None or step.accepted,
        "state": render.state_of(step),
        **step.model_dump(mode="json", include={"shown", "forced", "finished", "by_hand", "drift"}),
        "attempts": [_attempt(job, attempt) for attempt in step.attempts],
    }


def _words(step: runs.StepRecord, record: RunRecord, places: Mapping[int, int]) -> dict[str, Any]:
    """Return the words of a step as readers see them, and its place; null if it is hidden."""
    number = step.plan.number
    shown = runs.step_as_shown(step, record.words or runs.DocumentLayer(), places.get(number, number))
    return {
        "name": shown.name or None,
        "text": shown.text,
        "alt": shown.alt if step.attempt else None,
        "place": places.get(number),
        "words_for": step.words_for,
    }


def _redraw(forecast: Forecast | None) -> dict[str, Any]:
    return {
        "redraws": list(forecast.follows) if forecast else [],
        "redraw_seconds": forecast.seconds if forecast else {},
    }


def asset_json(job: Job, asset: journal.StoredAsset, *, started: bool = True) -> dict[str, Any]:
    """Return an asset of the request; its image has an address once the job has started."""
    return {
        "name": asset.name,
        "kind": asset.kind,
        "description": asset.description,
        "picture": image_url(job.id, asset.image) if asset.image and started else None,
    }


def _decision(decision: runs.DecisionRecord) -> dict[str, Any]:
    """Return a decision, without the folder of a branch's parent, which is given as a job id."""
    return decision.model_dump(mode="json", exclude={"generator", "parent"})


def _attempt(job: Job, attempt: runs.AttemptRecord) -> dict[str, Any]:
    fields = attempt.model_dump(mode="json", exclude={"image", "sources"})
    return {**fields, "picture": image_url(job.id, attempt.image)}


def thumbnail_url(job: str, name: str) -> str:
    """Return the address of a thumbnail."""
    return f"{DOCUMENTS}/{job}/thumbnails/{name.removesuffix('.png')}.webp"


def image_url(job: str, name: str) -> str:
    """Return the address of an image. It contains the content hash, so it can be cached forever."""
    return f"{DOCUMENTS}/{job}/pictures/{name}"
