"""Flips bytes in signed files and counts what `interleave verify` finds; measures the cost of signing.

Run with: python perf/tampering.py [FLIPS] [png webp pdf epub cost]      (default: 10000 of each, all)
A flip that changes a decoded pixel or a statement and is not found ends the program with exit code 1.
"""

from __future__ import annotations

import io
import os
import random
import struct
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from interleave import InputError, Plan, PlanStep, export, generate, read_record
from interleave.images import decode_image, encode_png, pixel_digest
from interleave.plugin import ImageStore
from interleave.provenance.copies import write_signed_copies
from interleave.provenance.images import SignedImages
from interleave.provenance.keys import signing_key
from interleave.provenance.reading import credentials_of
from interleave.provenance.signing import Signer

JUMBF = {"jumb", "jumd", "cbor", "json", "bidb", "bfdb", "free", "c2sh"}


def png_regions(data: bytes) -> Iterator[tuple[int, int, str]]:
    at = 8
    yield 0, 8, "signature of the file"
    while at < len(data):
        length, kind = struct.unpack(">I", data[at : at + 4])[0], data[at + 4 : at + 8].decode("latin-1")
        yield at, at + 8, f"{kind}: length and type"
        yield from (
            manifest_regions(data, at + 8, length) if kind == "caBX" else [(at + 8, at + 8 + length, kind)]
        )
        yield at + 8 + length, at + 12 + length, f"{kind}: checksum"
        at += 12 + length


def webp_regions(data: bytes) -> Iterator[tuple[int, int, str]]:
    at = 12
    yield 0, 12, "RIFF header"
    while at < len(data):
        kind, length = data[at : at + 4].decode("latin-1"), struct.unpack("<I", data[at + 4 : at + 8])[0]
        yield at, at + 8, f"{kind}: type and length"
        yield from (
            manifest_regions(data, at + 8, length) if kind == "C2PA" else [(at + 8, at + 8 + length, kind)]
        )
        yield at + 8 + length, at + 8 + length + length % 2, f"{kind}: padding"
        at += 8 + length + length % 2


def manifest_regions(data: bytes, start: int, length: int) -> Iterator[tuple[int, int, str]]:
    """Yield the boxes of a manifest store by the labels of the boxes around them, without the random ids."""
    yield from boxes(data, start, start + length, ())


def boxes(data: bytes, at: int, end: int, names: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
    while at + 8 <= end:
        size, kind = struct.unpack(">I", data[at : at + 4])[0], data[at + 4 : at + 8].decode("latin-1")
        if size < 8 or kind not in JUMBF:
            break
        shown = "manifest " + "/".join(names[-1:]) + f" {kind}"
        yield at, at + 8, f"{shown}: length and type"
        if kind == "jumb":
            inner = struct.unpack(">I", data[at + 8 : at + 12])[0]
            label = data[at + 16 + 17 : at + 8 + inner].split(b"\0")[0].decode("latin-1")
            name = "a manifest" if label.startswith("urn:") else label.partition("__")[0]
            yield from boxes(data, at + 8, at + size, (*names, name))
        else:
            yield at + 8, at + size, shown
        at += size
    if at < end:
        yield at, end, "manifest: rest"


def zip_regions(data: bytes) -> Iterator[tuple[int, int, str]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        for info in infos:
            name_length, extra = struct.unpack("<HH", data[info.header_offset + 26 : info.header_offset + 30])
            begin = info.header_offset + 30 + name_length + extra
            what = "credentials" if "content_credential" in info.filename else "an entry"
            yield info.header_offset, begin, f"{what}: local header"
            if what == "credentials":
                yield from manifest_regions(data, begin, info.compress_size)
            else:
                yield begin, begin + info.compress_size, what
        yield archive.start_dir, len(data), "central directory"


def pdf_regions(data: bytes) -> Iterator[tuple[int, int, str]]:
    start = data.find(b"jumb") - 4
    length = struct.unpack(">I", data[start : start + 4])[0]
    yield 0, start, "before the credentials"
    yield from manifest_regions(data, start, length)
    yield start + length, len(data), "after the credentials"


def pixels(data: bytes) -> str:
    try:
        return pixel_digest(decode_image(data, max_bytes=len(data)))
    except InputError:
        return "damaged"


def no_pixels(data: bytes) -> str:
    return ""


def flipped(
    name: str,
    data: bytes,
    flips: int,
    regions: Callable[[bytes], Iterator[tuple[int, int, str]]],
    is_image: bool,
) -> int:
    """Print what is found of `flips` bytes; return how many that changed pixels or statements are not."""
    shown, whole = (pixels if is_image else no_pixels), credentials_of(data)
    assert whole.state == "intact", whole
    expected, known, dice = shown(data), sorted(regions(data)), random.Random(7)
    found, quiet, tried, missed = Counter[str](), Counter[str](), Counter[str](), 0
    started = time.perf_counter()
    for _ in range(flips):
        place, change = dice.randrange(len(data)), dice.randrange(1, 256)
        altered = data[:place] + bytes([data[place] ^ change]) + data[place + 1 :]
        region = next(
            (what for start, end, what in known if start <= place < end), "former directory, unused"
        )
        credentials = credentials_of(altered)
        tried[region] += 1
        found[credentials.state] += 1
        if credentials.state == "intact":
            quiet[region] += 1
            if credentials.claim != whole.claim or shown(altered) != expected:
                missed += 1
                print(f"  MISSED at byte {place}: {region}")
    seconds = (time.perf_counter() - started) / flips
    print(f"{name}: {len(data):,} bytes, {flips:,} flips, {seconds * 1000:.1f} ms per check")
    print(f"  {found['altered']:,} reported as altered, {found['none']:,} as without credentials,")
    print(f"  {found['intact']:,} without effect, {missed} missed. Without effect:", flush=True)
    for region, number in quiet.most_common():
        print(f"    {number:6,} of {tried[region]:,} in {region}")
    return missed


def made(folder: Path) -> Path:
    steps = tuple(PlanStep(number=n, prompt=f"a hill {n}", caption=f"Hill {n}") for n in range(1, 4))
    generate(
        "Three hills",
        plan=Plan(steps=steps),
        profile="dry-run",
        generator="solid?size=64",
        critic="none",
        out=folder,
    )
    return folder


def cost(folder: Path) -> None:
    """Print seconds and bytes per image, at the size of real models."""
    for side in (256, 1024):
        run = folder / f"run-{side}"
        steps = tuple(PlanStep(number=n, prompt=f"a hill {n}") for n in range(1, 6))
        plan = Plan(steps=steps)
        generate(
            "hills", plan=plan, profile="dry-run", generator=f"solid?size={side}", critic="none", out=run
        )
        record, store = read_record(run), ImageStore(run)
        signed = SignedImages(run, record, Signer(signing_key("self")))
        for step in record.steps:
            assert step.attempt
            bare = encode_png(store.get(step.attempt.image))
            started = time.perf_counter()
            copy = signed.signed(step.attempt.image, bare, "image/png")
            took = time.perf_counter() - started
            started = time.perf_counter()
            assert credentials_of(copy).state == "intact"
            checked = time.perf_counter() - started
            print(
                f"  {side}² step {step.plan.number}: signed in {took:.3f} s with its ancestors, checked in "
                f"{checked:.3f} s, {len(copy) - len(bare):,} bytes more"
            )


def main() -> int:
    flips = int(next((each for each in sys.argv[1:] if each.isdecimal()), "10000"))
    wanted = [each for each in sys.argv[1:] if not each.isdecimal()] or ["png", "webp", "pdf", "epub", "cost"]
    missed = 0
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["INTERLEAVE_CONFIG"] = scratch
        folder = Path(scratch)
        run = made(folder / "run")
        if "png" in wanted:
            *_, image = write_signed_copies(run, folder / "png")
            missed += flipped("PNG", image.read_bytes(), flips, png_regions, True)
        if "webp" in wanted:
            *_, image = write_signed_copies(run, folder / "webp", webp=True)
            missed += flipped("WebP", image.read_bytes(), flips, webp_regions, True)
        for name, regions in (("pdf", pdf_regions), ("epub", zip_regions)):
            if name in wanted:
                path = export(run, name, out=folder, sign="self")
                missed += flipped(name.upper(), path.read_bytes(), flips, regions, False)
        if "cost" in wanted:
            cost(folder)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
