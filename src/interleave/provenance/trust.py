"""Certificates that a user trusts, from PEM files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from interleave import InputError
from interleave.plugin import files

MOST_BYTES = 4_000_000


def read_anchors(paths: Iterable[Path]) -> str:
    """Return the certificates of PEM files as one text; raise `InputError` that names a bad file."""
    return "\n".join(map(_certificates, paths))


def _certificates(path: Path) -> str:
    from cryptography import x509

    try:
        text = files.read_text(path, most_bytes=MOST_BYTES)
        x509.load_pem_x509_certificates(text.encode())
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path}: cannot be read ({files.why(error)})") from None
    except ValueError:
        raise InputError(f"{path}: it has no certificates in PEM") from None
    return text
