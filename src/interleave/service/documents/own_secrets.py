"""Secrets that a service creates, in files readable only by its user."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from interleave.plugin import files

SECRET_BYTES = 32


def stored_secret(path: Path) -> bytes:
    """Read the secret in a file, or create it. Signatures stay valid after a restart."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return _made_secret(path)


def _made_secret(path: Path) -> bytes:
    """Create a secret; return that of another service if it creates one in this folder concurrently."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    files.write_new(str(temporary), secrets.token_bytes(SECRET_BYTES), private=True)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError:  # no links on this file system
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()
    files.sync_folder(path.parent)
    return path.read_bytes()
