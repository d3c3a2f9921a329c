"""A job as a Response object of OpenAI's API, and our own facts about it in the field `interleave`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interleave import RunRecord
from interleave.plugin import journal, render, runs
from interleave.service.documents.jobs import Job
from interleave.service.documents.submissions import OWN_FIELD

DOCUMENTS = "/v1/documents"
HELD_REASON = "plan_held"


def response_status(job: Job) -> str:
    """The state of a job in the words of a Response, which has none for a plan that waits for a person."""
    return "incomplete" if job.status == "held" else job.status


def response_object(
    job: Job, items: Sequence[Mapping[str, Any]], record: RunRecord | None, usage: Mapping[str, int]
) -> dict[str, Any]:
    """The Response of a job; `items` are its output so far."""
    settings = {"instructions": None, "parallel_tool_calls": True, **job.settings}
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
        OWN_FIELD: facts_of(job, record),
    }


def waiting_response(job: Job) -> dict[str, Any]:
    """The Response of a job that was never worked on."""
    return response_object(job, [], None, {})


def _incomplete_details(job: Job) -> dict[str, str] | None:
    reasons = {"incomplete": "max_output_tokens", "held": HELD_REASON}
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


def facts_of(job: Job, record: RunRecord | None) -> dict[str, Any]:
    """What a Response has no field for: plan, attempts, verdicts, calls, cost."""
    facts: dict[str, Any] = {
        "document": f"{DOCUMENTS}/{job.id}",
        "cancelling": job.cancelling,
        "held": job.status == "held",
        "parent": job.parent,
    }
    if record is None:
        return facts | {"assets": [asset_facts(job, asset, started=False) for asset in job.assets]}
    return facts | {
        "assets": [asset_facts(job, asset) for asset in record.assets],
        "audits": [audit.model_dump(mode="json") for audit in record.audits],
        "reason": record.reason,
        "plan": record.plan.model_dump(mode="json") if record.plan else None,
        "steps": [
            _step(job, step, before) for step, before in zip(record.steps, images_before(record), strict=True)
        ],
        "forced": list(record.forced_steps),
        "calls": record.calls.model_dump(),
        "cost": record.cost,
        "seconds": record.seconds,
        "models": {
            role: getattr(record.config, role).identity for role in ("planner", "critic", "generator")
        },
        "seed": record.config.seed,
        "max_attempts": record.config.max_attempts,
        "notes": list(record.config.notes),
        "decisions": [_decision(each) for each in record.decisions],
    }


def images_before(record: RunRecord) -> list[str | None]:
    """For each step the image before it: the latest of those that it starts from."""
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
        "name": step.plan.name,
        "text": step.plan.text,
        "picture": image_url(job.id, step.attempt.image) if step.attempt else None,
        "before": image_url(job.id, before) if before else None,
        "accepted": step.plan.prompt is None or step.accepted,
        "shown": step.shown,
        "forced": step.forced,
        "finished": step.finished,
        "state": render.state_of(step),
        "by_hand": step.by_hand,
        "drift": step.drift.model_dump(mode="json") if step.drift else None,
        "attempts": [_attempt(job, attempt) for attempt in step.attempts],
    }


def asset_facts(job: Job, asset: journal.StoredAsset, *, started: bool = True) -> dict[str, Any]:
    """An asset of the request; its image has an address once the job has started."""
    return {
        "name": asset.name,
        "kind": asset.kind,
        "description": asset.description,
        "picture": image_url(job.id, asset.image) if asset.image and started else None,
    }


def _decision(decision: runs.DecisionRecord) -> dict[str, Any]:
    """What a person decided; the run that a branch came from is named by its job, not by its folder."""
    return decision.model_dump(mode="json", exclude={"generator", "parent"})


def _attempt(job: Job, attempt: runs.AttemptRecord) -> dict[str, Any]:
    verdict = attempt.verdict
    return {
        "number": attempt.number,
        "prompt": attempt.prompt,
        "seed": attempt.seed,
        "picture": image_url(job.id, attempt.image),
        "verdict": verdict.model_dump(mode="json") if verdict else None,
        "draw_seconds": attempt.draw_seconds,
        "judge_seconds": attempt.judge_seconds,
        "cost": attempt.cost,
        "bad_replies": list(attempt.bad_replies),
        "take": attempt.take,
        "aim": attempt.aim,
        "generator": attempt.generator,
        "inherited": attempt.inherited,
    }


def thumbnail_url(job: str, name: str) -> str:
    """The address of the small copy of an image."""
    return f"{DOCUMENTS}/{job}/thumbnails/{name.removesuffix('.png')}.webp"


def image_url(job: str, name: str) -> str:
    """The address of an image: named by its content, so it never changes and may be kept for ever."""
    return f"{DOCUMENTS}/{job}/pictures/{name}"
