"""Reads and writes corpora: their lines, images and manifest.

Lines have our format, or that of the reference (`user_input`, `user_input_image`). Every line is checked
before anything is written. An unusable line is reported with its number and the reason, never skipped
silently. Ids are strings: 1 and "1" are the same id, "a" and "A" are not. Images must be in the folder of the
file or below it and are copied, so that a corpus is self-contained.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from interleave import InputError, InterleaveError, RunError, read_image
from interleave.plugin import ImageStore, Value, batches, count, images, runs, text, write_atomic
from interleave.train.data.manifest import Manifest, manifest_path, read_manifest, write_manifest
from interleave.train.data.prompts.near_duplicates import NearDuplicates

IMAGES = "images"
JsonPart = dict[str, str]
"""`{"text": …}` or `{"image": "path relative to the file"}`."""
SHOWN = 20
_OURS = ("id", "request", "domain", "subcategory", "template", "suite", "split")


class RequestRow(Value):
    """One request as `read_requests` reads it, with its position in a taxonomy."""

    id: str
    request: str | tuple[JsonPart, ...]
    domain: str | None = None
    subcategory: str | None = None
    template: str | None = None
    suite: str | None = None
    split: str | None = None
    extra: dict[str, Any] = Field(default_factory=dict)
    """Additional keys of the user."""

    @property
    def text(self) -> str:
        if isinstance(self.request, str):
            return self.request
        return "\n".join(part["text"] for part in self.request if "text" in part)

    def line(self) -> bytes:
        known = self.model_dump(exclude_none=True, exclude={"extra"})
        return json.dumps(known | self.extra, ensure_ascii=False).encode() + b"\n"


def content_id(kind: str, content: str) -> str:
    """Derive an id from the content: equal requests have equal ids."""
    return f"{kind}-{hashlib.sha256(content.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def is_there_already(path: Path, manifest: Manifest) -> bool:
    """Return whether this corpus already exists; raises `RunError` if the file is another corpus."""
    if not path.exists():
        return False
    stored = manifest_path(path)
    made = read_manifest(stored) if stored.exists() else None
    if made is None:
        raise RunError(f"{path} exists but has no manifest: choose another file with --out")
    ours, theirs = manifest.options | manifest.inputs, made.options | made.inputs
    if made.stage == manifest.stage and ours == theirs:
        return True
    different = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    raise RunError(
        f"{path} was made with other settings ({', '.join(different) or 'another stage'} differ): "
        "choose another file with --out, or remove it"
    )


def make_folder(folder: Path) -> None:
    """Create the folder of a corpus; raises `RunError` if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            f"cannot write to {folder} ({error.strerror}): choose another file with --out"
        ) from None


def write_corpus(path: Path, rows: Sequence[RequestRow], manifest: Manifest) -> None:
    """Write the lines atomically, then the manifest: a corpus with a manifest is complete."""
    make_folder(path.parent)
    write_atomic(path, b"".join(row.line() for row in rows))
    write_manifest(manifest_path(path), manifest)


@dataclass
class Corpus:
    """The requests of some files, and the problems found."""

    rows: list[RequestRow] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    """Unusable lines: position and reason."""
    repeated: list[str] = field(default_factory=list)
    """Exact duplicates with the same id: they count once."""
    near: list[str] = field(default_factory=list)
    """Requests left out as near-duplicates."""
    without_id: int = 0


@dataclass(frozen=True)
class _Line:
    where: str
    row: RequestRow
    images: dict[str, Path]
    """Image name in the corpus → source file."""
    content: str
    """Texts and pixel digests of the request: equal for equal requests."""


def read_corpora(
    files: list[Path], *, threshold: float | None, progress: Callable[[int], None] = lambda read: None
) -> tuple[Corpus, dict[str, Path]]:
    """Read the requests of some files and their images; bad lines are collected, not raised."""
    corpus = Corpus()
    lines: dict[str, _Line] = {}
    by_content: dict[str, _Line] = {}
    for line in _checked(files, corpus, progress):
        same_id, same_content = lines.get(line.row.id), by_content.get(line.content)
        if same_id is not None and same_id.content == line.content:
            corpus.repeated.append(f"{line.where}: the same line as {same_id.where}")
        elif same_id is not None:
            corpus.bad.append(
                f"{line.where}: the id {line.row.id[:80]!r} already names another request in {same_id.where}"
            )
        elif same_content is not None:
            corpus.bad.append(f"{line.where}: the same request as {same_content.where}, under another id")
        else:
            lines[line.row.id] = by_content[line.content] = line
    kept = _without_near(list(lines.values()), threshold, corpus)
    corpus.rows = [line.row for line in kept]
    return corpus, {name: path for line in kept for name, path in line.images.items()}


def refuse_bad(corpus: Corpus) -> None:
    """Raise `InputError` with the bad lines, if any."""
    if corpus.bad:
        shown = "; ".join(corpus.bad[:SHOWN])
        more = f" … and {len(corpus.bad) - SHOWN} more" if len(corpus.bad) > SHOWN else ""
        raise InputError(
            f"{count(len(corpus.bad), 'bad line')}, nothing was written: {shown}{more} "
            "(fix them, or skip them with --skip-bad)"
        )


def copy_images(images: dict[str, Path], folder: Path) -> None:
    """Copy the images of a corpus into its folder."""
    store = ImageStore(folder)
    for path in images.values():
        store.put(read_image(path))


def _checked(files: list[Path], corpus: Corpus, progress: Callable[[int], None]) -> Iterator[_Line]:
    for file in files:
        for number, fields in batches.rows_of(file):
            try:
                yield _read(file, number, fields, corpus)
            except InterleaveError as error:
                corpus.bad.append(f"{file.name}:{number}: {error}")
            progress(number)


def _read(file: Path, number: int, fields: dict[str, Any] | InputError, corpus: Corpus) -> _Line:
    if isinstance(fields, InputError):
        raise fields
    given = batches.checked_parts(_request_of(fields), file.parent)
    paths: dict[str, Path] = {}
    parts: list[JsonPart] = []
    contents: list[str] = []
    for part in given:
        if isinstance(part, str):
            parts.append({"text": part})
            contents.append(f"\x00text\x00{part}")
            continue
        image = read_image(part)
        name = runs.image_name(image)
        paths[name] = part
        parts.append({"image": f"{IMAGES}/{name}"})
        contents.append(f"\x00image\x00{images.pixel_digest(image)}")
    content = "".join(contents)
    row = RequestRow(
        id=_id_of(fields, content, corpus),
        request=given[0] if len(given) == 1 and isinstance(given[0], str) else tuple(parts),
        domain=_text(fields, "domain"),
        subcategory=_text(fields, "subcategory"),
        template=_text(fields, "template"),
        suite=_text(fields, "suite"),
        split=_text(fields, "split"),
        extra=_extra(fields),
    )
    return _Line(f"{file.name}:{number}", row, paths, content)


_THEIRS = ("user_input", "user_input_image")
ANSWER_HINT = " both visually and textually"
"""A phrase in the reference's requests about how to answer, which it removes before planning."""


def _extra(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the user's additional keys in storable form."""
    try:
        own = {key: value for key, value in fields.items() if key not in (*_OURS, *_THEIRS)}
        return dict(text.storable_in(own))
    except RecursionError:
        raise InputError("nested too deeply") from None


def _request_of(fields: dict[str, Any]) -> Any:
    """Return the request in our format; `<image>` in the reference's text marks an image."""
    if "request" in fields:
        if "user_input" in fields:
            raise InputError('the line has both a "request" and a "user_input": keep one of them')
        return fields["request"]
    if "user_input" not in fields:
        raise InputError('the line has neither a "request" nor a "user_input"')
    text, images = fields["user_input"], _image_names(fields.get("user_input_image"))
    if not isinstance(text, str):
        raise InputError(f'"user_input" must be a string, not {type(text).__name__}')
    text = text.replace(ANSWER_HINT, "")
    if not text.strip() and not images:
        raise InputError('"user_input" is empty')
    if not images:
        return text
    return place_images(text, images)


def _image_names(given: Any) -> list[str]:
    if given is None or given == "":
        return []
    names = given if isinstance(given, list) else [given]
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise InputError(f'"user_input_image" must be a path or a list of paths, not {given!r:.60}')
    return names


def place_images(text: str, images: list[str]) -> list[JsonPart]:
    """Return text and images in order: each at its `<image>` marker, or all before a text without markers."""
    pieces = text.split("<image>")
    if len(pieces) == 1:
        return [*({"image": name} for name in images), *([{"text": text}] if text.strip() else [])]
    if len(pieces) - 1 != len(images):
        raise InputError(
            f"the text has {count(len(pieces) - 1, '<image> marker')} for {count(len(images), 'image')}"
        )
    parts: list[JsonPart] = []
    for place, piece in enumerate(pieces):
        if piece.strip():
            parts.append({"text": piece.strip()})
        if place < len(images):
            parts.append({"image": images[place]})
    return parts


def _id_of(fields: dict[str, Any], content: str, corpus: Corpus) -> str:
    identity = fields.get("id")
    if identity is None:
        corpus.without_id += 1
        return content_id("request", content)
    if not batches.checked_id(identity).strip():
        raise InputError('"id" is blank: give one, or omit the key')
    return str(identity)


def _text(fields: dict[str, Any], key: str) -> str | None:
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise InputError(f'"{key}" must be a string, not {value!r:.60}')
    return value if value is None else text.storable(value)


def _without_near(lines: list[_Line], threshold: float | None, corpus: Corpus) -> list[_Line]:
    """Leave out and report text-only requests that are near-duplicates of an earlier one."""
    if threshold is None:
        return lines
    near = NearDuplicates(threshold, sample=(line.row.text for line in lines))
    compared: list[_Line] = []
    kept: list[_Line] = []
    for line in lines:
        if not line.images:
            if (like := near.add(line.row.text)) is not None:
                corpus.near.append(f"{line.where}: almost the same as {compared[like].where}")
                continue
            compared.append(line)
        kept.append(line)
    return kept
