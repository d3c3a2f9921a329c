"""Requests of a batch, from a JSONL file or from Python: all are checked before the first call.

A line of a file is an object with `request`, a text or a list of `{"text": …}` and `{"image": "path"}`, and
optionally an `id`. Other keys are ignored. Images are in the folder of the file or below it. They are decoded
when their request is answered, so that a file of 40,000 lines is checked in seconds.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleave.errors import InputError, InterleaveError
from interleave.files import open_regular, read_lines, why
from interleave.images import MAX_BYTES, pixel_digest, read_image, white_canvas
from interleave.runs.journal_files import Lease
from interleave.text import count as counted
from interleave.text import storable
from interleave.types import ImagePart, Request, Text

MAX_LINE_BYTES = 1_000_000
MAX_FILE_BYTES = 2_000_000_000
SHOWN_PROBLEMS = 5
_HOW_TO_SKIP = "(fix the problems, or skip bad requests with skip_bad=True)"

RawPart = str | Path
"""Text, or the path of an image."""
_UNREAD = white_canvas((1, 1))
"""A placeholder for an image that has not been read yet."""


@dataclass(frozen=True)
class Item:
    """One request of a batch: its id, a digest of its content, and a function that loads it."""

    id: str
    digest: str
    load: Callable[[], Request]
    generator: str = ""
    """Its generator, if several share the requests."""
    hold_plan: bool = False
    """Whether it stops after its plan, until a person releases it."""
    lease: Lease | None = None
    """Right to work on this request, if several machines share the requests."""
    problem: str = ""
    """Why it cannot be answered, if already known; it is then reported and never started."""


def items_of(requests: Iterable[Any], *, skip_bad: bool = False) -> Iterator[Item]:
    """Yield items for requests as `generate` takes them, or for pairs of an id and a request.

    A bad request raises when it is reached; with `skip_bad`, its item carries the problem instead.
    """
    seen: dict[str, str] = {}
    for number, given in enumerate(requests):
        place = f"requests[{number}]"
        try:
            item = _item_of(given)
            if seen.get(item.id, item.digest) != item.digest:
                raise InputError(f"two different requests have the id {item.id!r}")
        except InterleaveError as error:
            problem = f"{place}: {error}"
            if not skip_bad:
                raise InputError(f"{problem} {_HOW_TO_SKIP}") from None
            yield Item(place, "", lambda: Request(()), problem=problem)
            continue
        if item.id not in seen:
            seen[item.id] = item.digest
            yield item


def checked_requests(requests: Iterable[Any], *, skip_bad: bool = False) -> Iterable[Any]:
    """Return the requests after checking all of them, unless bad ones are skipped.

    Requests from an iterator are checked one by one as they arrive, as there may be no end to them.
    """
    if skip_bad or not isinstance(requests, Collection):
        return requests
    kept = [_kept(given) for given in requests]
    problems = [item.problem for item in items_of(kept, skip_bad=True) if item.problem]
    if problems:
        raise _nothing_started("bad request", problems, _HOW_TO_SKIP)
    return kept


def _kept(given: Any) -> Any:
    """Return a request that can be read twice, even if its parts come from an iterator."""
    if isinstance(given, tuple) and len(given) == 2:
        return given[0], _kept(given[1])
    return list(given) if isinstance(given, Iterator) else given


def _item_of(given: Any) -> Item:
    identity, asked = _named(given)
    request = Request.of(asked)
    return _item(identity, _digest_of_request(request), lambda: request)


def _nothing_started(what: str, problems: Sequence[str], advice: str) -> InputError:
    more = f" … and {len(problems) - SHOWN_PROBLEMS} more" if len(problems) > SHOWN_PROBLEMS else ""
    shown = "; ".join(problems[:SHOWN_PROBLEMS])
    return InputError(f"{counted(len(problems), what)}, nothing was started: {shown}{more} {advice}")


def _named(given: Any) -> tuple[Any, Any]:
    """Return the id, if any, and the request, from a pair or from an object as in a JSONL file."""
    if isinstance(given, Mapping):
        if "request" not in given:
            raise InputError(
                f"an object among the requests has no 'request' (it has {', '.join(map(str, given))})"
            )
        return given.get("id"), _as_in_a_file(given["request"])
    if isinstance(given, tuple) and len(given) == 2:
        return given[0], given[1]
    return None, given


def _as_in_a_file(request: Any) -> Any:
    """Convert a list of `{"text": …}` and `{"image": …}` to text and paths; keep anything else."""
    if isinstance(request, list) and all(isinstance(part, Mapping) for part in request):
        return raw_parts(request, Path)
    return request


def read_requests(path: Path, *, skip_bad: bool = False) -> tuple[list[Item], list[str]]:
    """Return the items of a file and, with `skip_bad`, the problems of skipped lines; else raise."""
    items: dict[str, Item] = {}
    first_line: dict[str, int] = {}
    problems: list[str] = []
    for number, offset, line in lines_of(path):
        try:
            item = _read_line(path, offset, line)
            clash = items.setdefault(item.id, item)
            if clash.digest != item.digest:
                raise InputError(
                    f"the id {item.id!r} belongs to another request in line {first_line[item.id]}"
                )
            first_line.setdefault(item.id, number)
        except InterleaveError as error:
            problems.append(f"{path}:{number}: {error}")
    if problems and not skip_bad:
        raise _nothing_started("bad line", problems, _HOW_TO_SKIP)
    if not items:
        raise InputError(f"{path} has no requests")
    return list(items.values()), problems


def lines_of(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, offset and bytes of every non-blank line; lines that are too long are truncated."""
    try:
        yield from read_lines(path, most_bytes=MAX_FILE_BYTES, most_in_a_line=MAX_LINE_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({why(error)})") from None


def rows_of(path: Path) -> Iterator[tuple[int, dict[str, Any] | InputError]]:
    """Yield number and object of every non-blank line, or the error if a line cannot be read."""
    for number, _, line in lines_of(path):
        try:
            yield number, parse_line(line)
        except InputError as error:
            yield number, error


def _read_line(path: Path, offset: int, line: bytes) -> Item:
    row = parse_line(line)
    parts = checked_parts(row.get("request"), path.parent)
    digest = _digest("".join(f"\x00{type(part).__name__}\x00{part}" for part in parts))

    def load() -> Request:
        again = checked_parts(parse_line(_line_at(path, offset)).get("request"), path.parent)
        if again != parts:
            raise InputError(f"{path} has changed since it was checked")
        return Request.of([part if isinstance(part, str) else read_image(part) for part in again])

    return _item(row.get("id"), digest, load)


def _line_at(path: Path, offset: int) -> bytes:
    try:
        with open_regular(path, most_bytes=MAX_FILE_BYTES) as file:
            file.seek(offset)
            return file.readline(MAX_LINE_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read again ({why(error)})") from None


def parse_line(line: bytes) -> dict[str, Any]:
    """Parse the object of a JSONL line; raise `InputError` with the reason if there is none."""
    if len(line) > MAX_LINE_BYTES:
        raise InputError(f"the line has more than {MAX_LINE_BYTES:,} bytes")
    try:
        row = json.loads(
            line.decode("utf-8-sig"),
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=without_repeats,
        )
    except UnicodeDecodeError:
        raise InputError("not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})") from None
    if not isinstance(row, dict):
        raise InputError("not a JSON object")
    return row


def checked_parts(request: Any, root: Path) -> list[RawPart]:
    """Return the parts of a JSON request, with the files of its images; raise `InputError` for a bad one."""
    parts = raw_parts(request, lambda name: image_file(root, name))
    refuse_unusable(parts)
    return parts


def refuse_unusable(parts: Iterable[RawPart]) -> None:
    """Raise `InputError` for every problem of a request that shows before its images are decoded."""
    unread = ImagePart(_UNREAD)
    Request(tuple(Text(part) if isinstance(part, str) else unread for part in parts))


def raw_parts(request: Any, find_image: Callable[[str], Path]) -> list[RawPart]:
    """Return the parts of a JSON request: a text, or a list of `{"text": …}` and `{"image": …}`."""
    if request is None:
        raise InputError('"request" is missing')
    if not isinstance(request, str | list):
        raise InputError(f'"request" must be a text or a list of parts, not {type(request).__name__}')
    if not request:
        raise InputError('"request" is empty')
    parts: list[RawPart] = []
    for part in [{"text": request}] if isinstance(request, str) else request:
        match part:
            case {"text": str(text), **rest} if not rest:
                parts.append(text)
            case {"image": str(name), **rest} if not rest:
                parts.append(find_image(name))
            case _:
                raise InputError('a part of "request" must be {"text": …} or {"image": …}')
    return parts


def image_file(root: Path, name: str) -> Path:
    """Return the file of an image below a folder; raise `InputError` if it is missing or outside."""
    if "://" in name:
        raise InputError(f"{name[:80]!r} is a URL: images are not downloaded, use a local file")
    path = root / name
    try:
        if not path.resolve().is_relative_to(root.resolve()):
            raise InputError(
                f"the image {name[:80]!r} is outside {root}: put it into this folder or below it"
            )
        if not path.is_file():
            raise InputError(f"the image {name[:80]!r} is missing, or is not a file")
        if not 0 < path.stat().st_size <= MAX_BYTES:
            raise InputError(f"the image {name[:80]!r} is empty, or larger than {MAX_BYTES:,} bytes")
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the image {name[:80]!r} cannot be read ({error})") from None
    return path


def _item(identity: Any, digest: str, load: Callable[[], Request]) -> Item:
    return Item(digest if identity is None else checked_id(identity), digest, load)


def checked_id(given: Any) -> str:
    """Return the id; refuse one that a file cannot store unchanged: escaped, two ids could become equal."""
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise InputError(f'"id" must be a text or a whole number, not {given!r:.60}')
    identity = str(given)
    if storable(identity) != identity:
        raise InputError(f'"id" {identity!r:.60} has half of a surrogate pair, which is not valid Unicode')
    return identity


def _digest_of_request(request: Request) -> str:
    return _digest(
        "".join(
            f"\x00text\x00{part.text}"
            if isinstance(part, Text)
            else f"\x00image\x00{pixel_digest(part.image)}"
            for part in request.parts
        )
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _finite(digits: str) -> float:
    """Parse a finite float; one that is too large would become `Infinity`, which JSON cannot write."""
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; refuse a repeated key, as either value could be meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"the key {twice[:60]!r} occurs twice")
    return found
