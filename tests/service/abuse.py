"""What no server should take from a client: bad JSON, forms, file names and paths."""

from __future__ import annotations

import struct
import zlib

from serving import png


def deep(levels: int) -> bytes:
    return b'{"prompt":' + b"[" * levels + b"]" * levels + b"}"


BAD_JSON: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", 400),
    "a word": (b"hello", 400),
    "half an object": (b'{"prompt": "a', 400),
    "a list": (b'["prompt"]', 400),
    "a number": (b"5", 400),
    "null": (b"null", 400),
    "not UTF-8": (b'{"prompt": "\xff\xfe"}', 400),
    "UTF-16": ('{"prompt": "a"}'.encode("utf-16"), 400),
    "twice the same key": (b'{"prompt": "a", "prompt": "b"}', 400),
    "NaN": (b'{"prompt": "a", "seed": NaN}', 400),
    "infinity": (b'{"prompt": "a", "seed": 1e999}', 422),
    "10^5 deep": (deep(100_000), 400),
    "10^4 deep": (deep(10_000), 400),
    "10^6 keys": (b"{" + b",".join(b'"k%d":1' % n for n in range(1_000_000)) + b"}", 413),
    "10^6 numbers": (b'{"prompt": "a", "seed": [' + b",".join([b"1"] * 1_000_000) + b"]}", 413),
    "a number of 10^6 digits": (b'{"prompt": "a", "seed": ' + b"9" * 1_000_000 + b"}", 400),
    "an object as prompt": (b'{"prompt": {"a": 1}}', 422),
    "n of 10^9": (b'{"prompt": "a", "n": 1000000000}', 422),
}


def multipart(*parts: bytes, boundary: bytes = b"xYz") -> bytes:
    return (
        b"".join(b"--" + boundary + b"\r\n" + part + b"\r\n" for part in parts) + b"--" + boundary + b"--\r\n"
    )


def field(name: bytes, value: bytes, more: bytes = b"") -> bytes:
    return b'Content-Disposition: form-data; name="' + name + b'"' + more + b"\r\n\r\n" + value


PROMPT = field(b"prompt", b"x")
BAD_FORMS: dict[str, tuple[bytes, str]] = {
    "10,000 parts": (
        multipart(*[field(b"p%d" % n, b"1") for n in range(10_000)]),
        "multipart/form-data; boundary=xYz",
    ),
    "no boundary": (multipart(PROMPT), "multipart/form-data"),
    "another boundary": (multipart(PROMPT), "multipart/form-data; boundary=other"),
    "10 MB field": (multipart(field(b"prompt", b"x" * 10_000_000)), "multipart/form-data; boundary=xYz"),
    "giant header": (
        multipart(b"X-A: " + b"a" * 5_000_000 + b"\r\n\r\nx"),
        "multipart/form-data; boundary=xYz",
    ),
    "many headers": (multipart(b"X-A: a\r\n" * 10_000 + b"\r\nx"), "multipart/form-data; boundary=xYz"),
    "huge preamble": (b"a" * 5_000_000 + multipart(PROMPT), "multipart/form-data; boundary=xYz"),
    "cut off": (multipart(PROMPT)[:-10], "multipart/form-data; boundary=xYz"),
    "fields without end": (
        multipart(*[field(b"p%d" % n, b"x" * 100_000) for n in range(20)]),
        "multipart/form-data; boundary=xYz",
    ),
    "a codec that takes hours": (
        multipart(field(b"prompt", b"a" * 400_000 + b"-" + b"a" * 400_000)),
        "multipart/form-data; boundary=xYz; charset=punycode",
    ),
    "another charset": (multipart(PROMPT), "multipart/form-data; boundary=xYz; charset=utf-16"),
    "a boundary in code": (
        multipart(PROMPT),
        "multipart/form-data; boundary*=utf-8''%78Yz; charset*=x'y'%zz",
    ),
    "a boundary without end": (multipart(PROMPT), "multipart/form-data; boundary=" + "x" * 5000),
    "the same field twice": (multipart(PROMPT, PROMPT), "multipart/form-data; boundary=xYz"),
    "no name": (multipart(b"Content-Disposition: form-data\r\n\r\nx"), "multipart/form-data; boundary=xYz"),
    "no image": (multipart(PROMPT), "multipart/form-data; boundary=xYz"),
    "an odd file field": (
        multipart(PROMPT, field(b"passwd", png(), b'; filename="a.png"')),
        "multipart/form-data; boundary=xYz",
    ),
    "not a form": (b"prompt=x", "application/x-www-form-urlencoded"),
    "JSON": (b'{"prompt": "x"}', "application/json"),
}


FILE_NAMES = [b"../../x", b"C:\\x", b"a\x00b.png", b"x" * 2000, b"%2e%2e/x", "ü.png".encode()]
PATHS = [
    "/%00",
    "/%2e%2e%2f%2e%2e%2fetc/passwd",
    "/..;/status",
    "/../../etc/passwd",
    "//etc/passwd",
    "/edit/../../etc/passwd",
    "/\\etc\\passwd",
    "/v1/models/..%2f..%2fetc%2fpasswd",
    "/static/x",
    "/docs/x",
    "/openapi.yaml",
]


def huge_png() -> bytes:
    """300 megapixels in a few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 20_000, 15_000, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(100_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
