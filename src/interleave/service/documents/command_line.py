"""A job as the command line that makes the same document."""

from __future__ import annotations

import shlex

from interleave import RunRecord
from interleave.plugin import config, runs
from interleave.service.documents.jobs import Job


def command_line(job: Job, record: RunRecord | None, profile: str | None) -> str:
    """The command; `profile` where its models are those of a profile, else every model is named.

    Pictures of the request are files of the exported archive, in which the command is to be run.
    """
    chosen, parts = job.config, record.request if record else job.parts
    words = ["interleave", "generate", "\n".join(part.text for part in parts if part.text)]
    for part in parts:
        if part.image:
            words += ["--image", f"{runs.IMAGES_FOLDER}/{part.image}"]
    for asset in record.assets if record else job.assets:
        name = asset.name if asset.kind == "character" else f"{asset.name} ({asset.kind})"
        if asset.image:
            words += ["--asset", f"{name}={runs.IMAGES_FOLDER}/{asset.image}"]
        if asset.description:
            words += ["--asset", f"{name}: {asset.description}"]
    if profile is not None:
        words += ["--profile", profile]
    else:
        for role in ("planner", "critic", "generator"):
            words += [f"--{role}", getattr(chosen, role).identity]
        words += ["--prompts", chosen.prompts.name]
    words += ["--max-attempts", str(chosen.max_attempts), "--sources", chosen.sources.value]
    if chosen.remedies != config.NO_REMEDIES:
        words += ["--remedies", config.written_remedies(chosen.remedies)]
    if chosen.sheets:
        words += ["--sheets"]
    if chosen.identity:
        words += ["--identity", chosen.identity]
    if chosen.chapter_steps is not None:
        words += ["--chapter-steps", str(chosen.chapter_steps)]
    if chosen.choose != config.DEFAULT_CHOICE:
        words += ["--choose", chosen.choose]
    return shlex.join([*words, "--seed", str(chosen.seed)])
