"""The response of a job and its event stream: a fold of the run's journal and the final states of the job.

The same journal always gives the same events with the same numbers, regardless of restarts while it was
written. So a client that has seen event 17 can request those after 17 from any process. Events contain image
names; the bytes are read when an event is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from interleave import Plan, PlanStep, RunRecord
from interleave.plugin import journal, runs
from interleave.service.documents.jobs import Job, JobEnd, end_of
from interleave.service.documents.response_json import image_url, response_object
from interleave.service.documents.stored_images import StoredImage

Event = dict[str, Any]


class Fold(Protocol):
    """A fold of a job's journal into numbered events."""

    def __init__(self, job: Job) -> None: ...
    def begin(self) -> list[Event]: ...
    def add(self, entry: journal.Entry) -> list[Event]: ...
    def end(self, job: Job, record: RunRecord | None) -> list[Event]: ...
    def reopen(self) -> list[Event]: ...


class JobEvents:
    """Events of a job through all its final states.

    A reopened job has an earlier final state. Its event comes after the journal line where the job ended, and
    the numbers of later events continue from it. Edits of words come after the final state, which stays.
    """

    def __init__(self, job: Job, fold: Fold) -> None:
        self.job = job
        self.fold = fold
        self._marks: list[tuple[int, JobEnd | None]] = []
        """The lines of final states, and of the reopening after each, which is `None`."""
        for place, end in enumerate(job.ends):
            self._marks += [(job.edited_from.get(place, end.lines), end), (end.lines, None)]
        edited_from = job.edited_from.get(len(job.ends)) if job.is_final else None
        self._told = edited_from is not None
        """Whether the current final state has its place among the lines."""
        if edited_from is not None:
            self._marks.append((edited_from, end_of(job, edited_from)))
        self._lines = 0
        self._entries: list[journal.Entry] = []
        """Entries so far, kept while a final state is pending."""

    def begin(self) -> list[Event]:
        return [*self.fold.begin(), *self._due()]  # it may have ended before it started

    def add(self, entry: journal.Entry) -> list[Event]:
        events = self.fold.add(entry)
        self._lines += 1
        if self._marks:
            self._entries.append(entry)
        return [*events, *self._due()]

    def end(self, job: Job, record: RunRecord | None) -> list[Event]:
        """Return the events of the current final state, after all lines."""
        return [] if self._told else self.fold.end(job, record)

    def _due(self) -> list[Event]:
        events: list[Event] = []
        while self._marks and self._marks[0][0] == self._lines:
            end = self._marks.pop(0)[1]
            events += self.fold.reopen() if end is None else self._ended(end)
        return events

    def _ended(self, end: JobEnd) -> list[Event]:
        then = {**end.model_dump(exclude={"lines", "error"}), "error": end.error}
        job = self.job.model_copy(update={**then, "cancelling": end.status == "cancelled"})
        return self.fold.end(job, runs.fold(self._entries) if self._entries else None)


class JournalFold:
    """The journal as events, one per line, without the fields that only a replay needs.

    New kinds of journal lines are passed on without a change here. A further chapter is sent as the whole
    plan with it, so that clients need not assemble the plan.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self._number = 0
        self._plan: Plan | None = None

    def begin(self) -> list[Event]:
        return [self._event("job.queued")]

    def add(self, entry: journal.Entry) -> list[Event]:
        self._plan = getattr(entry, "plan", None) or self._plan
        if isinstance(entry, journal.ChapterPlanned) and self._plan is not None:
            self._plan = entry.after(self._plan)
            entry = journal.Planned(time=entry.time, plan=self._plan)
        fields = entry.model_dump(mode="json", exclude={"event", "fingerprint", "tokens"})
        if isinstance(entry, journal.Drawn):
            fields["picture"] = image_url(self.job.id, entry.image)
        return [self._event(entry.event, **fields)]

    def end(self, job: Job, record: RunRecord | None) -> list[Event]:
        error = job.error.model_dump() if job.error else None
        return [self._event(f"job.{job.status}", error=error)]

    def reopen(self) -> list[Event]:
        return [self._event("job.queued")]

    def _event(self, kind: str, **fields: Any) -> Event:
        self._number += 1
        return {"type": kind, "sequence_number": self._number - 1, **fields}


class ResponseFold:
    """Fold of a job's journal into output items and events."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.items: list[dict[str, Any]] = []
        self.usage = {"prompt_tokens": 0, "completion_tokens": 0}
        self._number = 0
        self._steps: dict[int, PlanStep] = {}
        self._images: dict[int, int] = {}
        """Item index of the image of each step."""
        self._texts: set[int] = set()
        self._in_progress = False
        self._seen: set[tuple[str, int, int]] = set()
        self._attempt_images: dict[tuple[int, int], str] = {}
        """Image of each attempt."""

    def begin(self) -> list[Event]:
        """Return the events of a waiting job."""
        waiting = self._response("queued")
        return [
            self._event("response.created", response=waiting),
            self._event("response.queued", response=waiting),
        ]

    def add(self, entry: journal.Entry) -> list[Event]:
        """Return the events of a journal line."""
        if isinstance(plan := getattr(entry, "plan", None), Plan):  # planned or replanned
            self._steps = {step.number: step for step in plan.steps}
        if isinstance(entry, journal.ChapterPlanned):
            self._steps |= {step.number: step for step in entry.steps}
        match entry:
            case journal.Started() | journal.Continued() if not self._in_progress:
                self._in_progress = True
                return [self._event("response.in_progress", response=self._response("in_progress"))]
            case journal.Called(role="generator") if self._first("called", entry.step, entry.attempt):
                return [*self._open(entry.step), self._of_image(entry.step, "generating")]
            case journal.Drawn():
                return self._drawn(entry)
            case journal.Replied():
                for name in self.usage:
                    self.usage[name] += entry.usage.get(name, 0)
            case journal.StepFinished():
                return self._finished(entry.step, entry.attempt)
        return []

    def end(self, job: Job, record: RunRecord | None) -> list[Event]:
        """Return the events of a job's final state. An unfinished step shows its best attempt, if any."""
        self.job = job
        events: list[Event] = []
        shown = {step.plan.number: step.shown for step in record.steps} if record else {}
        for step, index in self._images.items():
            if self.items[index]["status"] != "completed":
                events += self._finished(step, shown.get(step))
        final = response_object(job, self.items, record, self.usage)
        kind = {"completed": "completed", "failed": "failed"}.get(job.status, "incomplete")
        return [*events, self._event(f"response.{kind}", response=final)]

    def reopen(self) -> list[Event]:
        """Return the event of a job that waits again after a person's decision."""
        self._in_progress = False
        return [self._event("response.queued", response=self._response("queued"))]

    def _response(self, status: str) -> dict[str, Any]:
        state = {"status": status, "cancelling": False, "finished": None, "error": None}
        return response_object(self.job.model_copy(update=state), self.items, None, self.usage)

    def _first(self, what: str, step: int, attempt: int) -> bool:
        """Return whether this is new: a call repeated after a restart counts once."""
        known = (what, step, attempt) in self._seen
        self._seen.add((what, step, attempt))
        return not known and step in self._steps

    def _open(self, step: int) -> list[Event]:
        """Open the items of a step after those of all earlier steps, even if those start later."""
        steps = sorted(number for number in self._steps if number <= step)
        return [event for number in steps for event in self._open_one(number)]

    def _open_one(self, step: int) -> list[Event]:
        """Open the text of a step, and its image as in progress."""
        if self._steps[step].prompt is None:
            return self._text(step)
        if step in self._images:
            return []
        events = self._text(step)
        self._images[step] = len(self.items)
        self.items.append(
            {
                "id": self._id("ig", step),
                "type": "image_generation_call",
                "status": "in_progress",
                "result": None,
                "output_format": "png",
            }
        )
        added = self._of_item("response.output_item.added", self._images[step])
        return [*events, added, self._of_image(step, "in_progress")]

    def _text(self, step: int) -> list[Event]:
        """Return the whole message of a step; its text is known from the plan."""
        text = self._steps[step].text
        if step in self._texts or not text.strip():
            return []
        self._texts.add(step)
        index = len(self.items)
        item: dict[str, Any] = {
            "id": self._id("msg", step),
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        self.items.append(item)
        place = {"item_id": item["id"], "output_index": index, "content_index": 0}
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        added = self._of_item("response.output_item.added", index)
        self.items[index] = {**item, "status": "completed", "content": [part]}
        return [
            added,
            self._event("response.content_part.added", **place, part={**part, "text": ""}),
            self._event("response.output_text.delta", **place, delta=text, logprobs=[]),
            self._event("response.output_text.done", **place, text=text, logprobs=[]),
            self._event("response.content_part.done", **place, part=part),
            self._of_item("response.output_item.done", index),
        ]

    def _drawn(self, entry: journal.Drawn) -> list[Event]:
        self._attempt_images[entry.step, entry.attempt] = entry.image
        if entry.attempt > self.job.partial_images or not self._first("drawn", entry.step, entry.attempt):
            return []
        index = self._images[entry.step]
        return [
            self._event(
                "response.image_generation_call.partial_image",
                item_id=self.items[index]["id"],
                output_index=index,
                partial_image_index=entry.attempt - 1,
                partial_image_b64=StoredImage(entry.image),
                output_format="png",
            )
        ]

    def _finished(self, step: int, attempt: int | None) -> list[Event]:
        """Finish a step that shows `attempt`; `None` for a text step or an unfinished one."""
        if step not in self._images:
            return self._text(step)
        index, image = self._images[step], self._attempt_images.get((step, attempt or 0))
        self.items[index] = {
            **self.items[index],
            "status": "completed" if image else "failed",
            "result": StoredImage(image) if image else None,
        }
        drawn = [self._of_image(step, "completed")] if image else []
        return [*drawn, self._of_item("response.output_item.done", index)]

    def _of_image(self, step: int, kind: str) -> Event:
        index = self._images[step]
        place = {"item_id": self.items[index]["id"], "output_index": index}
        return self._event(f"response.image_generation_call.{kind}", **place)

    def _of_item(self, kind: str, index: int) -> Event:
        return self._event(kind, output_index=index, item=self.items[index])

    def _event(self, kind: str, **fields: Any) -> Event:
        event = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return event

    def _id(self, prefix: str, step: int) -> str:
        return f"{prefix}_{self.job.id.removeprefix('resp_')}_{step}"


def folded(job: Job, entries: Iterable[journal.Entry]) -> tuple[ResponseFold, list[Event]]:
    """Return the fold of a journal so far and its events, without those of a final state."""
    fold = ResponseFold(job)
    job_events = JobEvents(job, fold)
    events = job_events.begin()
    for entry in entries:
        events += job_events.add(entry)
    return fold, events
