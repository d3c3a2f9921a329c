"""The reference's `critic_rl.jsonl`: an attempt with its scores as a row of ours for GRPO.

A line has the planned prompt, the prompt that drew the picture, the paths of the pictures before and after,
and the scores with the label. The prompt of the row is the critic's in use, from the prompt pack: the
reference's trainer fills in its own as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interleave import InputError, Scores
from interleave.plugin import PromptPack, critic_input, critic_messages
from interleave.train.data.export.images import ImageFiles, white_image
from interleave.train.data.export.joined_documents import JoinedDocument, joined_picture, sample_of
from interleave.train.data.export.rows import CRITIC_RL, Baseline, TrainingRow
from interleave.train.data.import_runs.records import is_white_canvas


def read_attempt(
    name: str, folder: Path, item: Mapping[str, Any], pack: PromptPack, skipped: Counter[str]
) -> JoinedDocument:
    """The row of one line."""
    truth, planned = item["evaluation"], item["origin_prompt"]
    if not isinstance(truth["success"], bool):
        raise InputError(f"its success is {truth['success']!r:.40}, not true or false")
    scores = Scores(semantics=truth["semantics"], quality=truth["quality"])
    files = ImageFiles()
    after = joined_picture(files, folder, item["edited_image_path"]).image
    from_nothing = is_white_canvas(item["origin_image_path"])
    given = () if from_nothing else (joined_picture(files, folder, item["origin_image_path"]).image,)
    seen = critic_input(planned, item["rewritten_prompt"] or planned, given, after)
    if from_nothing:
        files.add(seen.before, white_image(seen.before.size))
    messages = critic_messages(seen, pack)
    baseline = Baseline(
        planned_prompt=seen.planned_prompt,
        used_prompt=seen.prompt,
        before=files.ref(seen.before),
        after=files.ref(seen.after),
        sources=tuple(files.ref(image) for image in given),
        success=truth["success"],
        semantics=scores.semantics,
        quality=scores.quality,
    )
    row = TrainingRow(name, CRITIC_RL, messages, files.refs(messages), baseline=baseline)
    return JoinedDocument(sample_of(item["edited_image_path"]), (row,))
