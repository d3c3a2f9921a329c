"""Sees what an input makes this process do to files and to the network: nothing outside its own folder.

Python tells an audit hook of every file that is opened, made, moved or removed, whoever does it. A hook stays
for the life of the process; this one looks only while an input is checked.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PLACES = {
    # which arguments of an event are places that change, and where it says what they are relative to
    "os.mkdir": ((0,), 2),
    "os.remove": ((0,), 1),
    "os.rmdir": ((0,), 1),
    "os.rename": ((0, 1), 2),
    "os.link": ((1,), 3),
    "os.symlink": ((1,), 2),
    "os.truncate": ((0,), None),
    "shutil.rmtree": ((0,), None),
}

_allowed: tuple[str, ...] = ()
_strange: list[str] = []
_hooked = False


@contextmanager
def confined() -> Iterator[None]:
    """Raise when this block changes a file outside the folder it works in, or starts a program."""
    global _allowed, _hooked
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True
    own = os.path.join(tempfile.gettempdir(), "fuzz-")  # the runs that seeds are made of
    _strange.clear()
    _allowed = (os.getcwd() + os.sep, own, os.devnull)
    try:
        yield
    finally:
        _allowed = ()
    assert not _strange, f"outside its folder: {_strange[:3]}"


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _allowed:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(flags, int) and flags & WRITING and isinstance(path, str | bytes):
            _look(event, path)
    elif event in PLACES:
        places, relative_to = PLACES[event]
        # What is named relative to an open folder is inside what was looked at when that was opened.
        if relative_to is None or len(arguments) <= relative_to or arguments[relative_to] in (-1, None):
            for place in places:
                _look(event, arguments[place])
    elif event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
        _strange.append(f"{event} {arguments[0]!r:.200}")


def _look(event: str, path: Any) -> None:
    place = os.path.abspath(os.fsdecode(path)) if not isinstance(path, int) else ""
    if place and not place.startswith(_allowed) and "__pycache__" not in place:
        _strange.append(f"{event} {place!r:.200}")
