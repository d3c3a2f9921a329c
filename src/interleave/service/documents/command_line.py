"""A job as the command line that makes the same document."""

from __future__ import annotations

import shlex

from interleave.choice import DEFAULT_CHOICE
from interleave.runs.record import RunRecord
from interleave.runs.store import FOLDER
from interleave.service.documents.jobs import Job


def command_line(job: Job, record: RunRecord | None, profile: str | None) -> str:
    """The command; `profile` where its models are those of a profile, else every model is named.

    Pictures of the request are files of the exported archive, in which the command is to be run.
    """
    config, parts = job.config, record.request if record else job.parts
    words = ["interleave", "generate", "\n".join(part.text for part in parts if part.text)]
    for part in parts:
        if part.image:
            words += ["--image", f"{FOLDER}/{part.image}"]
    if profile is not None:
        words += ["--profile", profile]
    else:
        for role in ("planner", "critic", "generator"):
            words += [f"--{role}", getattr(config, role).identity]
        words += ["--prompts", config.prompts.name]
    words += ["--max-attempts", str(config.max_attempts), "--sources", config.sources.value]
    if config.chapter_steps is not None:
        words += ["--chapter-steps", str(config.chapter_steps)]
    if config.choose != DEFAULT_CHOICE:
        words += ["--choose", config.choose]
    return shlex.join([*words, "--seed", str(config.seed)])
