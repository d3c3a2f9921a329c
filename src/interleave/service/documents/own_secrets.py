"""Secrets that a service makes for itself, in files that only its own user can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from interleave.files import write_atomic

SECRET_BYTES = 32


def stored_secret(path: Path) -> bytes:
    """The secret in a file, which is made where there is none: what it signs outlives a restart."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        secret = secrets.token_bytes(SECRET_BYTES)
        write_atomic(path, secret)
        os.chmod(path, 0o600)
        return secret
