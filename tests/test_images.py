"""Images from outside: hostile, broken and merely odd ones (section F and I08 of the fault catalogue)."""

from __future__ import annotations

import io
import os
import random
import re
import resource
import socket
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from PIL import Image, ImageFile, ImageOps, PngImagePlugin

from interleave.errors import InputError
from interleave.images import (
    MAX_BYTES,
    MAX_PARTS,
    MAX_PIXELS,
    MAX_SCANS,
    MAX_SIDE,
    as_rgb,
    decode_image,
    encode_png,
    fit_area,
    pixel_digest,
    read_image,
    white_canvas,
)
from interleave.text import storable
from interleave.types import MAX_REQUEST_IMAGES, Request
from work import at_most_calls, that_does_not_wait

GREY, COLOUR, PALETTE, GREY_ALPHA, COLOUR_ALPHA = 0, 2, 3, 4, 6
WHITE, BLACK = (255, 255, 255), (0, 0, 0)
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


# --- Images made by hand, because no honest encoder writes them ---


def chunk(kind: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def header(width: int, height: int, depth: int = 8, colour: int = GREY, interlaced: bool = False) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))


def png(*chunks: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + chunk(b"IEND")


def pixels(*rows: bytes) -> bytes:
    return chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)))


def one_row(levels: str, depth: int, colour: int, *extra: bytes) -> bytes:
    """A PNG of one row; `levels` is its bytes in hex."""
    row = bytes.fromhex(levels)
    channels = {GREY: 1, COLOUR: 3, PALETTE: 1, GREY_ALPHA: 2, COLOUR_ALPHA: 4}[colour]
    return png(header(len(row) * 8 // depth // channels, 1, depth, colour), *extra, pixels(row))


def chunk_edges(data: bytes) -> list[int]:
    edges = [8]
    while edges[-1] < len(data):
        edges.append(edges[-1] + 12 + int.from_bytes(data[edges[-1] : edges[-1] + 4]))
    return edges


def noise(width: int = 96, height: int = 64, mode: str = "RGB") -> Image.Image:
    data = random.Random(1).randbytes(width * height * len(mode))
    return Image.frombytes(mode, (width, height), data)


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def row_of(data: bytes) -> list[tuple[int, ...]]:
    image = decode_image(data)
    assert (image.mode, image.info) == ("RGB", {})
    return [image.getpixel((x, 0)) for x in range(image.width)]


def refusal(data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        decode_image(data, name="cat.png")
    assert str(caught.value).startswith("cat.png: ")
    return str(caught.value)


@contextmanager
def at_most(*, calls: int = 2000, megabytes: int | None = None) -> Iterator[None]:
    """A limit on function calls, and one on new memory, that no C code can hide from."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    if megabytes is not None and Path("/proc/self/statm").exists():
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + megabytes * 2**20, limits[1]))
    try:
        with at_most_calls(calls):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


# --- What is cut off ---

WHOLE = {
    "png": saved(noise(), "PNG"),
    "jpeg": saved(noise(), "JPEG"),
    "progressive jpeg": saved(noise(), "JPEG", progressive=True),
    "webp": saved(noise(), "WEBP"),
    "lossless webp": saved(noise(), "WEBP", lossless=True),
}


@pytest.mark.parametrize("data", WHOLE.values(), ids=WHOLE.keys())
def test_F01_an_image_cut_anywhere_is_refused(data: bytes) -> None:
    for part in range(64):
        refusal(data[: len(data) * part // 64])
    for missing in range(1, 13):
        refusal(data[:-missing])
    assert decode_image(data).size == (96, 64)


def test_F01_a_png_cut_at_a_chunk_edge_is_refused() -> None:
    body = pixels(*[bytes(range(64))] * 64)[8:-4]
    pieces = [chunk(b"IDAT", body[at : at + 16]) for at in range(0, len(body), 16)]
    data = png(header(64, 64), chunk(b"tEXt", b"a\0b"), *pieces)
    for edge in chunk_edges(data)[:-1]:
        refusal(data[:edge])
    assert decode_image(data).getpixel((63, 63)) == (63, 63, 63)


@pytest.mark.parametrize("rows", [0, 1, 9])
def test_F01_a_png_whose_pixels_stop_early_is_never_half_an_image(rows: int) -> None:
    assert "pixels are missing" in refusal(png(header(4, 10), pixels(*[b"\xff" * 4] * rows)))


def test_F01_truncated_images_are_never_allowed_for_the_whole_process() -> None:
    decode_image(WHOLE["jpeg"])
    refusal(WHOLE["jpeg"][:500])
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False
    assert Image.MAX_IMAGE_PIXELS == 1024**3 // 4 // 3
    assert PngImagePlugin.MAX_TEXT_CHUNK == 1024**2


# --- What is too large ---


def deflated_zeros(megabytes: int) -> bytes:
    """So many million zeros, deflated. One million is packed and repeated: all of them would take seconds."""
    deflate = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    piece = deflate.compress(bytes(1_000_000)) + deflate.flush(zlib.Z_FULL_FLUSH)
    adler = (megabytes * 1_000_000 % 65_521) << 16 | 1
    return b"\x78\xda" + piece * megabytes + b"\x03\0" + struct.pack(">I", adler)


def test_zeros_deflated_in_pieces_are_zeros_deflated() -> None:
    assert zlib.decompress(deflated_zeros(3)) == bytes(3_000_000)


def zeros(width: int, height: int, depth: int, colour: int) -> bytes:
    """A complete PNG of black pixels: small in the file, huge when decoded."""
    row = 1 + width * depth * (3 if colour == COLOUR else 1) // 8
    return png(
        header(width, height, depth, colour), chunk(b"IDAT", deflated_zeros(row * height // 10**6 + 1))
    )


@pytest.mark.parametrize(
    "size, depth, colour", [(10_000, 8, COLOUR), (30_000, 1, GREY)], ids=["100M", "900M"]
)
def test_F02_a_bomb_is_refused_from_its_header(size: int, depth: int, colour: int) -> None:
    data = zeros(size, size, depth, colour)
    assert len(data) < 300_000
    with at_most(megabytes=20):
        assert "too large (at most 8192 a side and 16 megapixels)" in refusal(data)


def test_F02_a_bomb_in_webp_or_jpeg_is_refused_from_its_header() -> None:
    webp, jpeg = (
        bytearray(saved(noise(16, 16), "WEBP", lossless=True)),
        bytearray(saved(noise(16, 16), "JPEG")),
    )
    struct.pack_into("<I", webp, 21, 10_000 - 1 | 10_000 - 1 << 14)
    struct.pack_into(">HH", jpeg, jpeg.find(b"\xff\xc0") + 5, 65_535, 65_535)
    for data in (webp, jpeg):
        with at_most():
            assert "too large" in refusal(bytes(data))


def test_F02_pixels_inflating_past_the_image_are_not_inflated() -> None:
    data = png(header(8, 8), chunk(b"IDAT", deflated_zeros(100)))
    with at_most(megabytes=20):
        assert decode_image(data).size == (8, 8)


@pytest.mark.parametrize(
    "size", [(1, 16_000_000), (16_000_000, 1), (65_535, 1), (MAX_SIDE + 1, 1), (8000, 2001), (0, 0), (0, 8)]
)
def test_F03_an_odd_size_is_refused(size: tuple[int, int]) -> None:
    refusal(png(header(*size, depth=1), chunk(b"IDAT", zlib.compress(b""))))


def test_F03_the_largest_allowed_sizes_pass() -> None:
    assert decode_image(saved(Image.new("1", (MAX_SIDE, 1)), "PNG")).size == (MAX_SIDE, 1)
    assert decode_image(saved(Image.new("1", (8000, MAX_PIXELS // 8000)), "PNG")).size == (8000, 2000)


# --- Metadata as a weapon ---

METADATA: dict[str, Callable[[], bytes]] = {
    "tEXt": lambda: chunk(b"tEXt", b"Comment\0" + b"x" * 19_000_000),
    "zTXt": lambda: chunk(b"zTXt", b"Comment\0\0" + deflated_zeros(100)),
    "iTXt": lambda: chunk(b"iTXt", b"Comment\0\1\0\0\0" + deflated_zeros(100)),
    "iCCP": lambda: chunk(b"iCCP", b"profile\0\0" + deflated_zeros(100)),
    "many zTXt": lambda: b"".join(chunk(b"zTXt", b"%d\0\0" % i + deflated_zeros(1)) for i in range(99)),
    "eXIf": lambda: chunk(b"eXIf", b"II*\0\x08\0\0\0" + b"\xff" * 19_000_000),
    "unknown": lambda: chunk(b"prVt", bytes(19_000_000)),
}


@pytest.mark.parametrize("extra", METADATA.values(), ids=METADATA.keys())
def test_F04_huge_metadata_is_dropped_unread(extra: Callable[[], bytes]) -> None:
    huge, row = extra(), pixels(b"\x07\x08")
    for data in (png(header(2, 1), huge, row), png(header(2, 1), row, huge)):
        with at_most(megabytes=120):
            assert row_of(data) == [(7, 7, 7), (8, 8, 8)]


@pytest.mark.parametrize("kind", [b"prVt", b"IDAT", b"tRNS"])
def test_F04_a_million_chunks_are_refused_unread(kind: bytes) -> None:
    data = png(header(2, 1), chunk(kind) * 1_600_000)
    with at_most(calls=10 * MAX_PARTS, megabytes=120):
        assert "more than 100,000 parts" in refusal(data)


# --- Broken and unusual PNGs ---


@pytest.mark.parametrize("kind", [b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"])
def test_F05_a_wrong_checksum_is_refused(kind: bytes) -> None:
    data = bytearray(one_row("00", 8, PALETTE, chunk(b"PLTE", b"abc"), chunk(b"tRNS", b"\x80")))
    at = data.find(kind)
    data[at + 4 + int.from_bytes(data[at - 4 : at])] ^= 1
    assert f"the checksum of {kind.decode()} is wrong" in refusal(bytes(data))


BROKEN = {
    "no IDAT": png(header(2, 1)),
    "no IHDR": png(pixels(b"ab")),
    "IHDR twice": png(header(2, 1), header(9, 9), pixels(b"ab")),
    "IHDR after IDAT": png(pixels(b"ab"), header(2, 1)),
    "no IEND": png(header(2, 1), pixels(b"ab"))[:-12],
    "short IHDR": png(chunk(b"IHDR", b"\0\0\0\1\0\0\0\1"), pixels(b"a")),
    "impossible depth": png(header(2, 1, depth=5), pixels(b"ab")),
    "impossible colour": png(header(2, 1, colour=5), pixels(b"ab")),
    "no palette": one_row("00", 8, PALETTE),
    "palette after the pixels": png(header(1, 1, 8, PALETTE), pixels(b"\0"), chunk(b"PLTE", b"abc")),
    "palette of 300 colours": one_row("00", 8, PALETTE, chunk(b"PLTE", bytes(900))),
    "pixels not deflated": png(header(2, 1), chunk(b"IDAT", b"abcdefgh")),
    "unknown filter": png(header(2, 1), chunk(b"IDAT", zlib.compress(b"\x09ab"))),
    "length of 4 GB": b"\x89PNG\r\n\x1a\n\xff\xff\xff\xffIHDR",
    "signature only": b"\x89PNG\r\n\x1a\n",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_F05_a_broken_png_is_refused_as_damaged(data: bytes) -> None:
    assert "damaged" in refusal(data)


def test_F05_16_bit_greys_are_scaled_not_clipped() -> None:
    assert row_of(one_row("ffff 8000 0101 0100 0000", 16, GREY)) == [
        WHITE,
        (128, 128, 128),
        (1, 1, 1),
        (1, 1, 1),
        BLACK,
    ]


def test_F05_a_palette_index_out_of_range_does_not_crash() -> None:
    assert row_of(one_row("00 c8", 8, PALETTE, chunk(b"PLTE", b"\1\2\3")))[0] == (1, 2, 3)


def interlaced(image: Image.Image, passes: int = 7) -> bytes:
    rows = []
    for left, top, right, down in ADAM7[:passes]:
        for y in range(top, image.height, down):
            row = bytes(image.getpixel((x, y)) for x in range(left, image.width, right))
            rows += [row] if row else []
    return png(header(*image.size, interlaced=True), pixels(*rows))


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (1, 5), (3, 2), (5, 7), (8, 8), (37, 19)])
def test_F05_an_interlaced_png_is_read_whole(size: tuple[int, int]) -> None:
    grey = noise(*size, mode="L")
    assert decode_image(interlaced(grey)).tobytes() == grey.convert("RGB").tobytes()


def test_F05_an_interlaced_png_with_a_pass_missing_is_refused() -> None:
    for passes in range(7):
        assert "pixels are missing" in refusal(interlaced(noise(8, 8, "L"), passes))


def test_F05_of_ten_thousand_frames_only_the_first_is_read() -> None:
    def control(number: int) -> bytes:
        return chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, 2, 1, 0, 0, 1, 10, 0, 0))

    later = pixels(b"\xff\xff")[8:-4]
    frames = (control(2 * n - 1) + chunk(b"fdAT", struct.pack(">I", 2 * n) + later) for n in range(1, 10_000))
    data = png(
        header(2, 1), chunk(b"acTL", struct.pack(">II", 10_000, 0)), control(0), pixels(b"ab"), *frames
    )
    with at_most(calls=10 * 20_000):  # there are two chunks a frame
        assert row_of(data) == [(97, 97, 97), (98, 98, 98)]


def test_F05_of_an_animated_webp_only_the_first_frame_is_read() -> None:
    frames = [Image.new("RGB", (16, 16), "black")] * 50
    data = saved(
        Image.new("RGB", (16, 16), "red"), "WEBP", save_all=True, append_images=frames, lossless=True
    )
    assert decode_image(data).getcolors() == [(256, (255, 0, 0))]


# --- Broken and unusual JPEGs ---


def quarters() -> Image.Image:
    """Four colours, so that every way of turning the image shows."""
    image = Image.new("RGB", (32, 16), "red")
    image.paste("lime", (16, 0, 32, 8))
    image.paste("blue", (0, 8, 16, 16))
    image.paste("white", (16, 8, 32, 16))
    return image


def orientation(number: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = number
    return exif


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("number", range(1, 10))
def test_F06_an_image_is_turned_upright_by_its_exif(kind: str, number: int) -> None:
    data = saved(quarters(), kind, exif=orientation(number))
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    assert decode_image(data).size == ((32, 16) if number not in (5, 6, 7, 8) else (16, 32))
    assert decode_image(data).tobytes() == upright.tobytes()


@pytest.mark.parametrize(
    "exif",
    [b"", b"II", b"no tiff at all", b"MM\0*\xff\xff\xff\xff", b"II*\0\x08\0\0\0\xff\xff"],
    ids=["empty", "half a header", "no TIFF", "offset past the end", "tags past the end"],
)
def test_F06_unreadable_exif_does_not_cost_the_image(exif: bytes) -> None:
    data = saved(quarters(), "JPEG", exif=b"Exif\0\0" + exif)
    assert decode_image(data).tobytes() == decode_image(saved(quarters(), "JPEG")).tobytes()


def test_F06_a_cmyk_jpeg_becomes_rgb() -> None:
    red, green, blue = row_of(saved(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=100))[0]
    assert red > 250 and green < 5 and blue < 5


def test_F06_a_grey_jpeg_becomes_rgb() -> None:
    assert row_of(saved(Image.new("L", (8, 8), 200), "JPEG"))[0] == (200, 200, 200)


@pytest.mark.parametrize("width, height", [(0, 64), (96, 0), (96, 4096), (4096, 64), (8, 8)])
def test_F06_a_jpeg_that_lies_about_its_size_is_refused_or_of_that_size(width: int, height: int) -> None:
    data = bytearray(WHOLE["jpeg"])
    struct.pack_into(">HH", data, data.find(b"\xff\xc0") + 5, height, width)
    with at_most():
        check_any(bytes(data), {(width, height)})


def test_F06_ten_thousand_restart_markers_are_fine() -> None:
    data = saved(noise(800, 800, "L"), "JPEG", restart_marker_blocks=1)
    assert len(re.findall(rb"\xff[\xd0-\xd7]", data)) > 9_990
    with at_most():
        assert decode_image(data).size == (800, 800)


def test_F06_a_thousand_scans_are_refused_at_once() -> None:
    data = saved(Image.new("L", (4000, 4000)), "JPEG", progressive=True)
    last_scan = data[data.rfind(b"\xff\xda") : -2]
    with at_most():
        assert f"more than {MAX_SCANS} scans" in refusal(data[:-2] + last_scan * 1000 + data[-2:])


def exif_segment(body: bytes) -> bytes:
    return b"\xff\xe1" + struct.pack(">H", 8 + len(body)) + b"Exif\0\0" + body


SLOW_HEADERS: dict[str, Callable[[], bytes]] = {
    "padding": lambda: b"\xff" * 19_000_000,
    "junk": lambda: bytes(19_000_000),
    "EXIF in a million pieces": lambda: exif_segment(bytes(10)) * 900_000,
    "EXIF of 19 MB": lambda: exif_segment(b"II*\0\x08\0\0\0" + b"\xff" * 65_000) * 290,
    "empty segments": lambda: b"\xff\xe5\0\2" * 4_900_000,
    "quantisation tables": lambda: (b"\xff\xdb\0\x43\0" + bytes(range(1, 65))) * 20_000,
    "comments": lambda: (b"\xff\xfe\xff\xff" + bytes(65_533)) * 290,
}


@pytest.mark.parametrize("extra", SLOW_HEADERS.values(), ids=SLOW_HEADERS.keys())
def test_F06_a_jpeg_header_cannot_make_much_work(extra: Callable[[], bytes]) -> None:
    jpeg = WHOLE["jpeg"]
    data = jpeg[:2] + extra() + jpeg[2:]
    with at_most(calls=10 * MAX_PARTS, megabytes=150):
        check_any(data, {(96, 64)})


def test_F06_what_a_phone_appends_to_a_jpeg_is_not_read() -> None:
    film = random.Random(2).randbytes(100_000) + b"\xff\xda" * 1000
    assert decode_image(WHOLE["jpeg"] + film).tobytes() == decode_image(WHOLE["jpeg"]).tobytes()


def test_F06_of_a_stereo_jpeg_the_first_image_is_read() -> None:
    data = saved(
        Image.new("RGB", (8, 8), "white"), "MPO", save_all=True, append_images=[Image.new("RGB", (8, 8))]
    )
    assert row_of(data)[0] == WHITE


# --- Other formats, and files that are two things at once ---

PAGE = b"<!DOCTYPE html><script>alert(1)</script>"
ZIP = b"PK\x03\x04" + bytes(26) + b"PK\x05\x06" + bytes(18)
OTHERS = {
    **{
        kind: saved(noise(), kind)
        for kind in ("GIF", "BMP", "TIFF", "ICO", "PDF", "EPS", "PPM", "TGA", "DDS", "SGI")
    },
    "SVG": b'<svg xmlns="http://www.w3.org/2000/svg"/>',
    "SVG with a declaration": b'<?xml version="1.0"?><svg/>',
    "PSD": b"8BPS\0\1" + bytes(64),
    "AVIF": b"\0\0\0\x20ftypavif" + bytes(64),
    "HEIC": b"\0\0\0\x20ftypheic" + bytes(64),
    "JPEG 2000": b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(64),
    "FITS": b"SIMPLE  =                    T" + bytes(64),
    "GD": b"\xff\xfe" + bytes(64),
    "MNG": b"\x8aMNG\r\n\x1a\n" + bytes(64),
    "WAV": b"RIFF\x40\0\0\0WAVEfmt " + bytes(64),
    "text": b"an image of a cat",
    "NULs": bytes(64),
}


@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS.keys())
def test_F07_another_format_is_refused_by_its_contents(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(data)
    with pytest.raises(
        InputError, match=r"cat\.png: not a PNG, JPEG or WebP image .*whatever its name says"
    ):
        read_image(tmp_path / "cat.png")


@pytest.mark.parametrize("kind, said", [("GIF", "a GIF"), ("HEIC", "HEIC"), ("PDF", "a PDF"), ("SVG", "SVG")])
def test_F07_the_usual_mistakes_are_named(kind: str, said: str) -> None:
    assert said in refusal(OTHERS[kind])


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_F07_the_name_of_a_file_means_nothing(kind: str, tmp_path: Path) -> None:
    (tmp_path / "cat.gif").write_bytes(saved(noise(), kind))
    assert read_image(tmp_path / "cat.gif").size == (96, 64)


@pytest.mark.parametrize(
    "data",
    [PAGE, b"\n  <html>" + PAGE, ZIP, b"GIF89a/*" + PAGE, b"alert(1)//\x89PNG\r\n"],
    ids=["page", "page after blanks", "archive", "GIF and script", "script and PNG"],
)
def test_F08_a_page_script_or_archive_is_refused(data: bytes) -> None:
    assert "not a PNG, JPEG or WebP image" in refusal(data)


@pytest.mark.parametrize("stowaway", [PAGE, ZIP], ids=["page", "archive"])
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_F08_what_hides_behind_an_image_does_not_survive(kind: str, stowaway: bytes) -> None:
    clean = encode_png(decode_image(saved(noise(), kind) + stowaway))
    assert clean == encode_png(decode_image(saved(noise(), kind)))
    assert stowaway not in clean


def test_F08_what_hides_in_metadata_does_not_survive() -> None:
    hidden = [
        png(header(2, 1), chunk(b"tEXt", b"Comment\0" + PAGE), pixels(b"ab"), chunk(b"eXIf", PAGE)),
        saved(noise(), "JPEG", comment=PAGE, exif=b"Exif\0\0" + PAGE, icc_profile=PAGE),
        saved(noise(), "WEBP", exif=b"Exif\0\0" + PAGE, xmp=PAGE, icc_profile=PAGE),
    ]
    for data in hidden:
        assert PAGE in data
        assert PAGE not in encode_png(decode_image(data))


# --- Transparency ---

TWO_COLOURS = chunk(b"PLTE", bytes.fromhex("010203 040506"))
TRANSPARENT = {
    "RGBA": (one_row("0a141eff 0a141e80 0a141e00", 8, COLOUR_ALPHA), [(10, 20, 30), (132, 137, 142), WHITE]),
    "RGBA of 16 bits": (
        one_row("0a0014001e00ffff 0a0014001e000000", 16, COLOUR_ALPHA),
        [(10, 20, 30), WHITE],
    ),
    "LA": (one_row("0aff 0080 0a00", 8, GREY_ALPHA), [(10, 10, 10), (127, 127, 127), WHITE]),
    "LA of 16 bits": (one_row("0a00ffff 0a000000", 16, GREY_ALPHA), [(10, 10, 10), WHITE]),
    "1-bit": (one_row("40", 1, GREY), [BLACK, WHITE, *[BLACK] * 6]),
    "1-bit, black transparent": (one_row("40", 1, GREY, chunk(b"tRNS", b"\0\0")), [WHITE] * 8),
    "2-bit, level 1 transparent": (
        one_row("1b", 2, GREY, chunk(b"tRNS", b"\0\1")),
        [BLACK, WHITE, (170, 170, 170), WHITE],
    ),
    "4-bit, level 2 transparent": (one_row("12", 4, GREY, chunk(b"tRNS", b"\0\2")), [(17, 17, 17), WHITE]),
    "L, level 9 transparent": (one_row("0809", 8, GREY, chunk(b"tRNS", b"\0\x09")), [(8, 8, 8), WHITE]),
    "16-bit grey, one level transparent": (
        one_row("0101 8000", 16, GREY, chunk(b"tRNS", b"\x80\x00")),
        [(1, 1, 1), WHITE],
    ),
    "RGB, one colour transparent": (
        one_row("010203 010204", 8, COLOUR, chunk(b"tRNS", bytes.fromhex("000100020003"))),
        [WHITE, (1, 2, 4)],
    ),
    "16-bit RGB, one colour transparent": (
        one_row("123412341234 340034003400", 16, COLOUR, chunk(b"tRNS", bytes.fromhex("123412341234"))),
        [WHITE, (52, 52, 52)],
    ),
    "palette": (one_row("0001", 8, PALETTE, TWO_COLOURS), [(1, 2, 3), (4, 5, 6)]),
    "palette, one colour transparent": (
        one_row("0001", 8, PALETTE, TWO_COLOURS, chunk(b"tRNS", b"\xff\0")),
        [(1, 2, 3), WHITE],
    ),
    "palette, one colour half transparent": (
        one_row("0001", 8, PALETTE, TWO_COLOURS, chunk(b"tRNS", b"\x80")),
        [(128, 128, 129), (4, 5, 6)],
    ),
    "palette of 2 bits": (
        one_row("10", 2, PALETTE, TWO_COLOURS, chunk(b"tRNS", b"\xff\0")),
        [(1, 2, 3), WHITE, (1, 2, 3), (1, 2, 3)],
    ),
}


@pytest.mark.parametrize("data, expected", TRANSPARENT.values(), ids=TRANSPARENT.keys())
def test_F09_transparency_is_laid_on_white(data: bytes, expected: list[tuple[int, ...]]) -> None:
    assert row_of(data) == expected


def test_F09_a_transparent_webp_is_laid_on_white() -> None:
    image = Image.new("RGBA", (2, 1), (10, 20, 30, 255))
    image.putpixel((1, 0), (10, 20, 30, 0))
    assert row_of(saved(image, "WEBP", lossless=True, exact=True)) == [(10, 20, 30), WHITE]


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBa", "CMYK", "YCbCr", "HSV", "I", "I;16", "F"]
)
def test_F09_every_mode_a_backend_may_return_becomes_rgb(mode: str) -> None:
    image = Image.new(mode, (3, 2))
    image.info["comment"] = "kept by the caller"
    assert (as_rgb(image).mode, as_rgb(image).size, as_rgb(image).info) == ("RGB", (3, 2), {})
    assert image.info == {"comment": "kept by the caller"}


def test_as_rgb_returns_an_image_of_its_own() -> None:
    image = white_canvas((2, 2))
    as_rgb(image).putpixel((0, 0), BLACK)
    assert image.getpixel((0, 0)) == WHITE


# --- Fuzzing ---


def check_any(data: bytes, sizes: set[tuple[int, int]] | None = None) -> bool:
    """The promise for whatever bytes: a sound RGB image, or `InputError`."""
    try:
        image = decode_image(data)
    except InputError:
        return False
    assert (image.mode, image.info) == ("RGB", {})
    assert max(image.size) <= MAX_SIDE and image.width * image.height <= MAX_PIXELS
    assert len(image.tobytes()) == 3 * image.width * image.height
    assert sizes is None or image.size in sizes
    return True


def mutated(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice([1, 1, 2, 4, 16])):
        at = dice.randrange(len(changed))
        match dice.randrange(5):
            case 0:
                changed[at] ^= 1 << dice.randrange(8)
            case 1:
                changed[at] = dice.choice([0, 1, 0x7F, 0x80, 0xD9, 0xDA, 0xFF])
            case 2:
                del changed[at : at + dice.randrange(1, 9)]
            case 3:
                changed[at:at] = dice.randbytes(dice.randrange(1, 9))
            case 4:
                changed[at:at] = changed[at : at + dice.randrange(1, 99)]
    return bytes(changed)


def with_right_checksums(data: bytes) -> bytes:
    """Without this the checksums stop every mutation before it reaches a decoder."""
    mended, at = data[:8], 8
    while at + 12 <= len(data):
        length = min(int.from_bytes(data[at : at + 4]), len(data) - at - 12)
        mended += chunk(data[at + 4 : at + 8], data[at + 8 : at + 8 + length])
        at += 12 + length
    return mended


def fuzz_seeds() -> dict[str, bytes]:
    image, exif = noise(24, 16), orientation(6)
    return {
        "png": saved(image, "PNG", exif=exif),
        "png with alpha": saved(noise(24, 16, "RGBA"), "PNG"),
        "png with a palette": saved(image.quantize(16), "PNG", transparency=b"\0\x80\xff"),
        "interlaced png": interlaced(noise(24, 16, "L")),
        "16-bit png": one_row("0123 4567 89ab cdef", 16, GREY, chunk(b"tRNS", b"\1\x23")),
        "animated png": saved(image, "PNG", save_all=True, append_images=[white_canvas((24, 16))] * 3),
        "jpeg": saved(image, "JPEG", exif=exif),
        "progressive jpeg": saved(image, "JPEG", progressive=True),
        "cmyk jpeg": saved(image.convert("CMYK"), "JPEG", restart_marker_blocks=1),
        "webp": saved(image, "WEBP", exif=exif),
        "lossless webp": saved(noise(24, 16, "RGBA"), "WEBP", lossless=True),
        "animated webp": saved(image, "WEBP", save_all=True, append_images=[white_canvas((24, 16))] * 3),
    }


@pytest.mark.parametrize("seed", fuzz_seeds().values(), ids=fuzz_seeds().keys())
def test_F11_mutated_images_are_refused_or_sound(seed: bytes) -> None:
    dice = random.Random(len(seed))
    survivors = 0
    for _ in range(200):
        data = mutated(seed, dice)
        for version in {data, with_right_checksums(data) if seed.startswith(b"\x89PNG") else data}:
            with at_most():
                survivors += check_any(version)
    assert survivors, "no mutation got as far as the pixels: the fuzzing proves nothing"


def test_F11_random_bytes_behind_each_signature_are_refused() -> None:
    dice = random.Random(11)
    for start in (
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff",
        b"RIFF\x40\0\0\0WEBPVP8X",
        b"RIFF\x40\0\0\0WEBPVP8 ",
    ):
        for _ in range(100):
            assert not check_any(start + dice.randbytes(200))


def test_F11_decoding_leaves_the_warnings_of_the_process_alone() -> None:
    before = list(warnings.filters)
    decode_image(WHOLE["png"])
    refusal(WHOLE["png"][:-20])
    assert warnings.filters == before


# --- Requests ---


def test_F13_a_request_with_too_many_images_is_refused() -> None:
    image = white_canvas((1, 1))
    assert len(Request.of(["a cat", *[image] * MAX_REQUEST_IMAGES]).images) == MAX_REQUEST_IMAGES
    with pytest.raises(InputError, match=r"has 500 images, more than the 32 allowed: send fewer"):
        Request.of(["a cat", *[image] * 500])


def test_F14_a_file_is_read_once_and_may_change_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(WHOLE["png"])
    image = read_image(path)
    path.write_bytes(PAGE)
    assert image.tobytes() == noise().tobytes()


def test_F16_small_things_hidden_for_a_careless_resize_do_not_appear() -> None:
    trap = white_canvas((256, 256))
    for x in range(4, 256, 8):
        for y in range(4, 256, 8):
            trap.putpixel((x, y), BLACK)
    darkest = min(band[0] for band in fit_area(trap, 32 * 32).getextrema())
    assert darkest > 230


# --- Files ---


def file_refusal(path: Path | str) -> str:
    with that_does_not_wait(), pytest.raises(InputError) as caught:
        read_image(path)
    assert str(caught.value).startswith(f"{storable(str(path))}: ")
    return str(caught.value)


def test_I08_a_folder_is_refused(tmp_path: Path) -> None:
    assert "is a folder, not an image" in file_refusal(tmp_path)


def test_I08_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cat.png")
    assert "is not a regular file" in file_refusal(tmp_path / "cat.png")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/urandom"])
def test_I08_a_device_is_refused(device: str) -> None:
    assert "is not a regular file" in file_refusal(device)


def test_I08_a_link_to_a_device_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cat.png").symlink_to("/dev/zero")
    assert "is not a regular file" in file_refusal(tmp_path / "cat.png")


def test_I08_a_socket_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("cat.png")  # relative: the path of a socket may have only 108 characters
        assert "cannot be opened" in file_refusal("cat.png")


@pytest.mark.skipif(os.geteuid() == 0, reason="does not apply: root may read everything")
def test_I08_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(WHOLE["png"])
    (tmp_path / "cat.png").chmod(0)
    assert "cannot be opened (Permission denied)" in file_refusal(tmp_path / "cat.png")


@pytest.mark.skipif(
    not Path("/proc/self/mem").exists(), reason="does not apply: needs a file whose reading fails"
)
def test_I08_a_file_that_cannot_be_read_is_refused() -> None:
    assert "cannot be read (Input/output error)" in file_refusal("/proc/self/mem")


def test_I08_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert "no such file" in file_refusal(tmp_path / "cat.png")


def test_I08_a_link_to_nothing_or_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lost.png").symlink_to("nowhere")
    (tmp_path / "loop.png").symlink_to("loop.png")
    assert "no such file" in file_refusal(tmp_path / "lost.png")
    assert "cannot be opened" in file_refusal(tmp_path / "loop.png")


def test_I08_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cat.png").touch()
    assert "the file is empty" in file_refusal(tmp_path / "cat.png")


def test_I08_a_large_file_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "cat.png").touch()
    os.truncate(tmp_path / "cat.png", 10**12)
    with at_most(megabytes=10):
        assert "1,000,000,000,000 bytes is more than the 20,000,000 allowed" in file_refusal(
            tmp_path / "cat.png"
        )


def test_I08_the_limit_on_bytes_is_exact(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(WHOLE["png"])
    os.truncate(tmp_path / "cat.png", MAX_BYTES)
    assert read_image(tmp_path / "cat.png").size == (96, 64)
    os.truncate(tmp_path / "cat.png", MAX_BYTES + 1)
    assert "20,000,001 bytes is more than" in file_refusal(tmp_path / "cat.png")


@pytest.mark.parametrize(
    "path", ["cat\0.png", "x" * 5000, "\ud800.png"], ids=["NUL", "too long", "half a character"]
)
def test_I08_an_impossible_path_is_refused(path: str) -> None:
    assert "cannot be opened" in file_refusal(path)


def test_F15_a_file_that_is_no_image_is_refused_without_showing_it() -> None:
    assert "not a PNG, JPEG or WebP image" in file_refusal("/etc/passwd")
    assert "root" not in file_refusal("/etc/passwd")
    assert "no such file" in file_refusal("file:/etc/passwd")


@pytest.mark.parametrize("name", ["кот 🐈\u200d⬛.png", "-rf.png", "שלום.png", "a\nb.png", "cat"])
def test_I08_any_name_the_disk_takes_is_fine(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(WHOLE["png"])
    assert read_image(tmp_path / name).tobytes() == noise().tobytes()


def test_I08_a_link_to_an_image_is_fine(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(WHOLE["png"])
    (tmp_path / "link.png").symlink_to("cat.png")
    assert read_image(str(tmp_path / "link.png")).size == (96, 64)


@pytest.mark.parametrize(
    "content", [b"", PAGE, WHOLE["png"], WHOLE["png"][:99]], ids=["empty", "page", "picture", "cut picture"]
)
def test_I08_no_file_stays_open(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(content)
    before = os.listdir("/proc/self/fd")
    for path in (tmp_path / "cat.png", tmp_path, "/dev/zero"):
        with suppress(InputError):
            read_image(path)
    assert os.listdir("/proc/self/fd") == before


# --- Images out ---

WRITINGS = {
    "emoji": "a family 👨‍👩‍👧‍👦",
    "right to left": "قطة على سجادة \u202eabc",
    "lines": "one\ntwo\r\nthree\t",
    "long": "x" * 100_000,
    "empty": "",
    "looks like a chunk": "IEND\xaeB`\x82",
}


@pytest.mark.parametrize("text", WRITINGS.values(), ids=WRITINGS.keys())
def test_metadata_comes_back_as_it_was_written(text: str) -> None:
    data = encode_png(noise(), {"Title": "a cat", "Prompt": text})
    with Image.open(io.BytesIO(data)) as opened:
        assert opened.text == {"Title": "a cat", "Prompt": text}
    assert decode_image(data).tobytes() == noise().tobytes()


def test_equal_images_with_equal_metadata_give_equal_bytes() -> None:
    assert encode_png(noise(), {"a": "1", "b": "2"}) == encode_png(noise(), {"b": "2", "a": "1"})
    assert encode_png(noise()) == encode_png(noise(), {}) != encode_png(noise(), {"a": "1"})


def test_what_a_backend_left_in_an_image_is_not_written() -> None:
    image = noise()
    image.info = {"icc_profile": b"secret", "transparency": (1, 2, 3), "Comment": "secret", "dpi": (72, 72)}
    assert encode_png(image) == encode_png(noise())


def test_a_file_of_our_own_may_be_larger_than_an_upload() -> None:
    data = encode_png(noise())
    assert decode_image(data + bytes(MAX_BYTES), max_bytes=len(data) + MAX_BYTES).size == (96, 64)
    assert "bytes is more than the 20,000,000 allowed" in refusal(data + bytes(MAX_BYTES))


def test_a_digest_names_what_an_image_shows() -> None:
    assert pixel_digest(Image.new("RGB", (2, 3))) != pixel_digest(Image.new("RGB", (3, 2)))
    assert pixel_digest(Image.new("L", (3, 1))) != pixel_digest(Image.new("RGB", (1, 1)))
    assert pixel_digest(noise()) == pixel_digest(decode_image(encode_png(noise(), {"a": "b"})))


def test_a_remembered_digest_is_not_computed_again_and_goes_with_its_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from interleave import images as images

    image = images.remember_digest(noise())
    digest = pixel_digest(image.copy())
    assert not {"_interleave_digest"} & vars(image).keys()
    with monkeypatch.context() as patched:
        patched.setattr(Image.Image, "tobytes", lambda self: pytest.fail("computed again"))
        assert pixel_digest(image) == digest
    key = id(image)
    assert key in images._DIGESTS
    del image
    assert key not in images._DIGESTS


def test_a_white_canvas_is_white() -> None:
    canvas = white_canvas((3, 2))
    assert (canvas.mode, canvas.size, canvas.getcolors()) == ("RGB", (3, 2), [(6, WHITE)])


@pytest.mark.parametrize("size", [(1, 1), (1, 8192), (8192, 1), (8192, 3), (100, 100), (99, 101), (640, 480)])
@pytest.mark.parametrize("max_area", [1, 2, 3, 7, 100, 9_999, 10_000, 1_000_000])
def test_a_fitted_image_is_never_too_large_and_never_empty(size: tuple[int, int], max_area: int) -> None:
    width, height = fit_area(Image.new("L", size), max_area).size
    assert 1 <= width <= size[0] and 1 <= height <= size[1]
    assert width * height <= max_area


def test_a_fitted_image_keeps_its_shape() -> None:
    assert fit_area(Image.new("L", (2000, 1000)), 500_000).size == (1000, 500)
    small = Image.new("L", (10, 10))
    assert fit_area(small, 100) is small


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (7, 1), (33, 20)])
def test_what_is_written_other_tools_read_pixel_by_pixel(size: tuple[int, int]) -> None:
    image = Image.frombytes("RGB", size, random.Random(3).randbytes(3 * size[0] * size[1]))
    said = {"prompt": "a bear, 4 €", "seed": "7"}
    data = encode_png(image, said)
    with Image.open(io.BytesIO(data)) as opened:
        opened.load()
        assert isinstance(opened, PngImagePlugin.PngImageFile)
        assert opened.tobytes() == image.tobytes()
        assert opened.text == said
    assert decode_image(data).tobytes() == image.tobytes()
