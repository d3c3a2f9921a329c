"""Joins other interleaved datasets to our rows.

`comm` is the dataset CoMM as JSON: documents with a `title` and `step_info`, a list of steps, each a list of
`{"type": "text", "content": …}` and `{"type": "image", "image_path": …}`. They become continuation and
annotation rows like our own trajectories. `sharegpt` is conversations with one `<image>` per image; no other
format interprets that word in a text.

`planner_sft`, `critic_sft` and `critic_rl` are the reference's training files of those names: conversations
with its own prompts, and attempts with their scores, which get the prompts of the prompt pack.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from interleave import (
    ConfigurationError,
    ImagePart,
    InputError,
    InterleaveError,
    Message,
    PlanStep,
    Scores,
    Text,
)
from interleave.plugin import (
    Part,
    PromptPack,
    agents,
    critic_input,
    critic_messages,
    did_you_mean,
    files,
    read_text,
    text,
)
from interleave.train.data.export.images import ImageFiles, white_image
from interleave.train.data.export.planner_rows import ShownStep, annotation_rows, continuation_rows
from interleave.train.data.export.rows import (
    CRITIC_RL,
    CRITIC_SFT,
    PLANNER_SFT,
    Baseline,
    Kind,
    TrainingRow,
)
from interleave.train.data.import_runs.records import is_white_canvas

_IMAGE_MARK = re.compile(r"<image>", re.IGNORECASE)
_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
MAX_LIST_BYTES = 1_000_000_000
"""Size limit of a file that is one JSON list, which is read into memory."""
MAX_LINES_BYTES = 100_000_000_000
MAX_DOCUMENT_BYTES = 20_000_000
IMAGE_FOLDERS = ("", "images")


@dataclass(frozen=True)
class JoinedFile:
    """A file to join, and its format."""

    form: str
    path: Path

    @classmethod
    def parse(cls, text: str) -> JoinedFile:
        """Parse `comm:PATH`, `sharegpt:PATH` and the like."""
        form, colon, path = text.partition(":")
        if not colon or not path:
            raise ConfigurationError(f"--join {text!r}: write FORMAT:PATH, e.g. comm:train.json")
        if form not in READERS:
            raise ConfigurationError(f"no join format {form!r}. {did_you_mean(form, READERS)}")
        return cls(form, Path(path))


@dataclass(frozen=True)
class JoinedDocument:
    """One document: its rows, and the text that determines its split."""

    text: str
    rows: tuple[TrainingRow, ...]


Numbered = tuple[int, Any]
"""Line or list position of a document, and its JSON value."""


def read_documents(
    joined: JoinedFile,
    items: Iterable[Numbered],
    pack: PromptPack,
    skipped: Counter[str],
    problems: list[str],
) -> Iterator[JoinedDocument]:
    """Yield the documents of a file; unusable ones are reported with their number."""
    for number, item in items:
        name = f"{joined.path.stem}/{number}"
        try:
            _refuse_unstorable(item)
            yield READERS[joined.form](name, joined.path.parent, item, pack, skipped)
        except (InterleaveError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            problems.append(f"{joined.path.name}:{number}: {' '.join(reason.split())[:300]}")


def _refuse_unstorable(item: Any) -> None:
    """Raise for text that cannot be stored, such as half of a surrogate pair."""
    if text.storable_in(item) != item:
        raise InputError("a text contains half of a surrogate pair, which is not valid Unicode")


def refuse_pickle(path: Path) -> None:
    """Raise for pickles: CoMM is published as torch pickles."""
    if path.suffix in (".pth", ".pt", ".pkl"):
        raise InputError(
            f"{path} is a pickle, which can run code when it is opened: convert it to JSON first, "
            "with a program you trust"
        )


def read_items(path: Path) -> Iterator[Numbered]:
    """Yield the documents of a JSON list or of JSON lines."""
    refuse_pickle(path)
    try:
        if path.suffix == ".jsonl":
            yield from _read_lines(path)
            return
        data = json.loads(read_text(path, most_bytes=MAX_LIST_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read as JSON ({' '.join(files.why(error).split())})") from None
    if not isinstance(data, list):
        raise InputError(f"{path} must contain a list of documents, not {type(data).__name__}")
    yield from enumerate(data, start=1)


def _read_lines(path: Path) -> Iterator[Numbered]:
    lines = files.read_lines(path, most_bytes=MAX_LINES_BYTES, most_in_a_line=MAX_DOCUMENT_BYTES)
    for number, _, line in lines:
        if len(line) > MAX_DOCUMENT_BYTES:
            raise InputError(f"{path}:{number} has more than {MAX_DOCUMENT_BYTES:,} bytes")
        try:
            yield number, json.loads(line.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}:{number} cannot be read as JSON ({files.why(error)})") from None


def _comm(
    name: str, folder: Path, item: Mapping[str, Any], pack: PromptPack, skipped: Counter[str]
) -> JoinedDocument:
    """Convert a CoMM document: the text of a step is both its instruction and its image's prompt."""
    title = str(item["title"] or "").strip()
    steps = []
    files = ImageFiles()
    for number, contents in enumerate(item["step_info"], start=1):
        text = " ".join(each["content"].strip() for each in contents if each["type"] == "text")
        paths = [each["image_path"] for each in contents if each["type"] == "image"]
        if not text:
            raise InputError(f"step {number} has no text")
        if paths:
            plan = PlanStep(number=number, instruction=text, prompt=text)
        else:
            plan = PlanStep(number=number, caption=text)
        shown = joined_image(files, folder, paths[0]) if paths else None
        steps.append(ShownStep(plan, shown, accepted=True))
    opening = [Text(f"Show step by step, with pictures: {title}")]
    rows = (
        *continuation_rows(name, opening, steps, pack, skipped, files),
        *annotation_rows(name, steps, pack, skipped, files),
    )
    return JoinedDocument(title, rows)


def _planner_sft(
    name: str, folder: Path, item: Mapping[str, Any], pack: PromptPack, skipped: Counter[str]
) -> JoinedDocument:
    """Convert a row of the reference's planner: its answer must be a plan."""
    document = _sharegpt(name, folder, item, pack, skipped)
    agents.parse_plan(document.rows[0].completion or "")
    return document


def _critic_sft(
    name: str, folder: Path, item: Mapping[str, Any], pack: PromptPack, skipped: Counter[str]
) -> JoinedDocument:
    """Convert a row of the reference's critic: two images, and a verdict as the answer."""
    document = _sharegpt(name, folder, item, pack, skipped, kind=CRITIC_SFT)
    [row] = document.rows
    if len(row.images) != 2:
        raise InputError(f"a critic row needs two images, before and after, not {len(row.images)}")
    agents.parse_verdict(row.completion or "")
    # All attempts of a document are in one folder; its prompts differ from attempt to attempt.
    return JoinedDocument(sample_of(item["images"][1]), document.rows)


def _critic_rl(
    name: str, folder: Path, item: Mapping[str, Any], pack: PromptPack, skipped: Counter[str]
) -> JoinedDocument:
    """Convert an attempt of the reference with its scores to a row for GRPO.

    The row's prompt is the critic's from the prompt pack, as the reference's trainer also fills in its own.
    """
    truth, planned = item["evaluation"], item["origin_prompt"]
    if not isinstance(truth["success"], bool):
        raise InputError(f"its success is {truth['success']!r:.40}, not true or false")
    scores = Scores(semantics=truth["semantics"], quality=truth["quality"])
    files = ImageFiles()
    after = joined_image(files, folder, item["edited_image_path"]).image
    from_nothing = is_white_canvas(item["origin_image_path"])
    given = () if from_nothing else (joined_image(files, folder, item["origin_image_path"]).image,)
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


def _sharegpt(
    name: str,
    folder: Path,
    item: Mapping[str, Any],
    pack: PromptPack,
    skipped: Counter[str],
    *,
    kind: Kind = PLANNER_SFT,
) -> JoinedDocument:
    """Convert a conversation: the last answer is the completion, everything before it the prompt."""
    turns = [_turn(turn) for turn in item.get("messages") or item["conversations"]]
    if not turns or turns[-1][0] != "assistant":
        raise InputError("the last turn is not an answer")
    images = item.get("images") or ([item["image"]] if item.get("image") else [])
    marks = sum(len(_IMAGE_MARK.findall(text)) for _, text in turns)
    if marks != len(images):
        raise InputError(f"{marks} × <image> in the text, but {len(images)} images")
    if _IMAGE_MARK.search(turns[-1][1]):
        raise InputError("the answer contains an image, which a planner cannot write")
    files = ImageFiles()
    loaded = iter([joined_image(files, folder, path) for path in images])
    prompt = tuple(Message(role, tuple(_parts(text, loaded))) for role, text in turns[:-1])
    row = TrainingRow(name, kind, prompt, files.refs(prompt), completion=turns[-1][1])
    return JoinedDocument(" ".join(text for role, text in turns if role == "user"), (row,))


def joined_image(files: ImageFiles, folder: Path, name: str) -> ImagePart:
    """Load an image from the folder of the file or below it; raises for one elsewhere.

    Rows of the reference name images by paths of the machine that made them. Such a path is shortened from
    the left until it matches a file below the folder. Its last folder stays, because file names repeat.
    """
    parts = PurePosixPath(name).parts
    shorter = [str(PurePosixPath(*parts[start:])) for start in range(1, len(parts) - 1) if ".." not in parts]
    outside = False
    for each in (name, *shorter):
        for subfolder in IMAGE_FOLDERS:
            try:
                path = (folder / subfolder / each).resolve()
                is_inside, is_there = path.is_relative_to(folder.resolve()), path.is_file()
            except (OSError, RuntimeError, ValueError) as error:  # a name too long, or a symlink loop
                raise InputError(f"the image {name[:80]!r} cannot be read ({error})") from None
            if is_inside and is_there:
                return ImagePart(files.read(path))
            outside = outside or not is_inside
    if outside:
        raise InputError(f"the image {name[:80]!r} is not below the folder of the file")
    raise InputError(f"the image {name[:80]!r} does not exist")


def sample_of(name: str) -> str:
    """Return the folder of an image, which contains everything the reference made for one request."""
    return PurePosixPath(name).parent.as_posix()


def _turn(turn: Mapping[str, Any]) -> tuple[Literal["system", "user", "assistant"], str]:
    role = _ROLES.get(turn.get("role") or turn["from"])
    text = turn.get("content") if "content" in turn else turn["value"]
    if role is None or not isinstance(text, str):
        raise InputError(f"a turn must have a role and a text: {str(turn)[:80]}")
    return role, text  # type: ignore[return-value]


def _parts(text: str, images: Iterator[ImagePart]) -> Iterator[Part]:
    for position, piece in enumerate(_IMAGE_MARK.split(text)):
        if position:
            yield next(images)
        if piece:
            yield Text(piece)


READERS: Mapping[str, Callable[[str, Path, Any, PromptPack, Counter[str]], JoinedDocument]] = {
    "comm": _comm,
    "sharegpt": _sharegpt,
    "planner_sft": _planner_sft,
    "critic_sft": _critic_sft,
    "critic_rl": _critic_rl,
}
