"""What a user asks for: words on the command line, and lines of a file of requests."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath

from PIL import Image

from fuzzing import REFUSED, attempt, scratch, spare_text, target
from interleave.batches.assignment import Shard
from interleave.batches.batch import Ended, run_folder
from interleave.batches.requests import Item, items_of, read_requests
from interleave.cli.request_input import build_request, gather_parts
from interleave.errors import InputError
from interleave.step_counts import first_number, named_step_count
from interleave.text import one_line, slug, storable, unusable, visible
from interleave.types import Request

TEXTS = (
    "How a frog grows up, step by step, in four pictures",
    "Tell the story of a cat & a dog.\nIn 3 images, <image> each.",
    "# A title\n\n1. draw\n2. paint — 蛙 🐸",
)
LINES = (
    {"id": "frog", "request": "How a frog grows up"},
    {"request": [{"text": "Go on from"}, {"image": "cat.png"}, {"text": "in two steps"}], "mine": 1},
    {"id": 7, "request": [{"text": "a"}], "tags": ["x"]},
    {"request": "The moon"},
)
WORDS = (
    *(
        b'"id"',
        b'"request"',
        b'{"image": "cat.png"}',
        b'{"text": "a"}',
        b'"id": "\\ud83d"',
        b"cat.png",
        b"link.png",
    ),
    *(b" in four pictures", b"in 99999 steps", b"twenty-one", b" each"),
)
_TRAPS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SAFE_FOLDER = re.compile(r"runs/[0-9a-f]{2}/[0-9a-f]{20}(-[a-z0-9-]+)?\Z")


@target([text.encode() for text in TEXTS], words=WORDS, examples=40)
def text(data: bytes) -> bool:
    """Words as a shell hands them over."""
    said = spare_text(data)
    assert not _TRAPS.search(visible(said)) and not _TRAPS.search(one_line(said))
    assert len(one_line(said, 30)) <= 30 and "\n" not in one_line(said)
    assert re.fullmatch(r"[a-z0-9-]*", slug(said)) and not slug(said).startswith("-")
    storable(said).encode()
    for counted in (named_step_count(said), first_number(said)):
        assert counted is None or 0 <= counted < 1_000_000
    request = attempt(lambda: build_request(gather_parts(said, None, None)), errors=InputError)
    if not isinstance(request, Request):
        return False
    assert request.text == said and not unusable(said)
    json.loads(json.dumps(said))
    said.encode()
    return True


@target([b"\n".join(json.dumps(line).encode() for line in LINES) + b"\n"], words=WORDS, examples=40)
def jsonl(data: bytes) -> bool:
    """A file of requests: every line is an item that can be carried out and noted, or is named."""
    with scratch() as folder:
        Image.new("RGB", (8, 8), "teal").save(folder / "cat.png")
        outside = folder.parent / "outside"
        outside.mkdir()
        Image.new("RGB", (8, 8), "red").save(outside / "secret.png")
        (folder / "link.png").symlink_to(outside / "secret.png")
        path = folder / "requests.jsonl"
        path.write_bytes(data)
        strictly = attempt(lambda: read_requests(path), errors=InputError)
        leniently = attempt(lambda: read_requests(path, skip_bad=True), errors=InputError)
        if not isinstance(leniently, tuple):
            assert strictly is REFUSED
            return False
        items, problems = leniently
        assert (strictly is REFUSED) == bool(problems)
        assert len({item.id for item in items}) == len(items)
        for item in items:
            check_item(item)
        return True


def check_item(item: Item) -> None:
    folder = run_folder(item.id)
    assert _SAFE_FOLDER.match(folder) and ".." not in PurePosixPath(folder).parts
    ended = Ended(id=item.id, digest=item.digest, folder=folder, status="failed", reason="", bad_request=True)
    assert Ended.model_validate_json(ended.model_dump_json().encode()).id == item.id
    request = attempt(item.load, errors=InputError)
    if isinstance(request, Request):
        assert all(image.getpixel((0, 0)) != (255, 0, 0) for image in request.images), "an image from outside"
        assert not unusable(request.text)


@target([json.dumps(LINES[:1] + LINES[2:]).encode()], words=WORDS)
def objects(data: bytes) -> bool:
    """Requests from Python, as decoded JSON has them."""
    try:
        given = json.loads(data)
    except (ValueError, RecursionError):
        return False
    items = attempt(lambda: list(items_of(given if isinstance(given, list) else [given])), errors=InputError)
    if not isinstance(items, list):
        return False
    for item in items:
        check_item(item)
    return True


@target([b"2/8", b"1/1"], words=(b"/", b"10000", b" "))
def shard(data: bytes) -> bool:
    said = spare_text(data[:100])
    made = attempt(lambda: Shard.parse(said))
    if not isinstance(made, Shard):
        return False
    assert 1 <= made.number <= made.of and Shard.parse(f"{made.number}/{made.of}") == made
    assert re.fullmatch(r"(\.\d+-of-\d+)?", made.label, re.ASCII)
    return True
