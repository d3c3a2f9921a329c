"""Reports of benchmarks, data and training under the operator's folders.

The files are untrusted: every page is shown without rights, and nothing outside a folder is read, whatever a
path or a link says. Folders are scanned at every listing, so new reports appear without a restart.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path, PurePosixPath

from interleave.plugin import files, one_line, runs, slug
from interleave.service.documents.keys import FILE_NAME as KEYS_NAME
from interleave.service.documents.own_secrets import stored_secret
from interleave.studio.schemas import Report, ReportKind, Reports

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".htm": "text/html; charset=utf-8",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".json": "text/plain; charset=utf-8",
    ".jsonl": "text/plain; charset=utf-8",
}
"""File types that are sent. Others, such as databases and models, are not."""
PAGES = (".html", ".htm")
NUMBERS = ".json"
PREFIX = "/v1/studio/reports/"
NOT_REPORTS = frozenset({"document.html", "book.html", "index.html"})
"""Pages of single runs and galleries, which reports link to."""
MAX_FOLDERS, MAX_DEPTH, MAX_REPORTS = 2000, 4, 500
MAX_ENTRIES = 20_000
"""Maximum scanned entries per folder."""
HEAD_BYTES = 20_000
MAX_TITLE = 200
MAX_PATH = 1000
TICKET_SECONDS = 12 * 3600
SECRET_NAME = "reports.secret"
_TITLE = re.compile(rb"<title>([^<]{0,2000})</title>", re.IGNORECASE)
_DATA_MARK = b'content="interleave data report"'
_TICKET = re.compile(r"([a-z0-9-]{1,60})\.([0-9]{1,12})\.([0-9a-f]{32})\Z")


@dataclass(frozen=True)
class ReportFile:
    """A file that may be sent."""

    path: Path
    media_type: str

    @property
    def is_page(self) -> bool:
        return self.path.suffix.lower() in PAGES


class ReportFolders:
    """The report folders, their listing, and the tickets that give access to their files.

    A page in a sandboxed frame sends no cookie and no key with its images. A listing therefore gives every
    folder a URL with a signed ticket, which is valid for some hours.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        service: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`service` is the service's folder. Keys and jobs in it are never listed."""
        self.folders = _named(folders)
        self._service = service
        self._clock = clock
        self._secret = b""

    def listing(self) -> Reports:
        """Return all reports, newest first. Scans the folders, so run it in a thread."""
        found = [
            self._report(name, root, path, status)
            for name, root in self._roots()
            for path, status in self._pages(root)
        ]
        found.sort(key=lambda report: (-report.changed_at, report.folder, report.path))
        return Reports(
            data=found[:MAX_REPORTS],
            total=len(found),
            folders=[_shown(each) for each in self.folders.values()],
        )

    def ticket(self, name: str) -> str:
        ends = int(self._clock()) + TICKET_SECONDS
        return f"{name}.{ends}.{self._signature(name, ends)}"

    def file(self, ticket: str, path: str) -> ReportFile | None:
        """Return the file of a URL; `None` if the ticket is invalid or the file may not be sent."""
        found = _TICKET.match(ticket)
        if found is None or not hmac.compare_digest(self._signature(found[1], int(found[2])), found[3]):
            return None
        root = dict(self._roots()).get(found[1])
        if root is None or int(found[2]) < self._clock():
            return None
        return self._file(root, path)

    def _file(self, root: Path, path: str) -> ReportFile | None:
        """Return a file below a folder. Links are not followed, because they may lead anywhere."""
        pieces = path.split("/")
        if len(path) > MAX_PATH or any(not _is_shown(piece) for piece in pieces):
            return None
        wanted = root.joinpath(*pieces)
        kind = MEDIA_TYPES.get(wanted.suffix.lower())
        try:
            if kind is None or wanted.name == KEYS_NAME or wanted.resolve(strict=True) != wanted:
                return None
        except (OSError, RuntimeError, ValueError):
            return None
        return None if wanted.is_relative_to(self._own()) else ReportFile(wanted, kind)

    def _roots(self) -> Iterator[tuple[str, Path]]:
        """Return the folders that exist now, with links resolved."""
        for name, folder in self.folders.items():
            try:
                root = folder.resolve(strict=True)
            except (OSError, RuntimeError):
                continue
            if root.is_dir():
                yield name, root

    def _own(self) -> Path:
        return self._service.resolve()

    def _pages(self, root: Path) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield the pages below a folder, nearest first. Folders of runs are skipped."""
        waiting, seen, own = deque([(root, 0)]), 0, self._own()
        while waiting and seen < MAX_FOLDERS:
            folder, depth = waiting.popleft()
            seen += 1
            entries = _entries(folder)
            if any(entry.name == runs.JOURNAL_NAME for entry in entries) or folder == own:
                continue
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if stat.S_ISDIR(status.st_mode) and depth < MAX_DEPTH:
                    waiting.append((Path(entry.path), depth + 1))
                elif stat.S_ISREG(status.st_mode) and _is_report(entry.name):
                    yield Path(entry.path), status

    def _report(self, name: str, root: Path, path: Path, status: os.stat_result) -> Report:
        relative = PurePosixPath(path.relative_to(root))
        head = _head(path)
        title = _TITLE.search(head)
        words = unescape(title[1].decode("utf-8", "replace")) if title else ""
        beside = sorted(each.name for each in _entries(path.parent) if each.name.endswith(NUMBERS))
        return Report(
            folder=name,
            path=str(relative),
            title=one_line(words, MAX_TITLE).strip() or str(relative),
            kind=_kind(path.name, head),
            changed_at=int(status.st_mtime),
            bytes=status.st_size,
            address=f"{PREFIX}{self.ticket(name)}/",
            beside=[
                str(relative.with_name(each)) for each in beside if each != KEYS_NAME and _is_shown(each)
            ][:20],
        )

    def _signature(self, name: str, ends: int) -> str:
        self._secret = self._secret or stored_secret(self._service / SECRET_NAME)
        return hmac.new(self._secret, f"{name}.{ends}".encode(), hashlib.sha256).hexdigest()[:32]


def _shown(folder: Path) -> str:
    """Return a folder as the page names it, without what lies above."""
    return str(folder.relative_to(Path.cwd())) if folder.is_relative_to(Path.cwd()) else folder.name


def _named(folders: Sequence[Path]) -> dict[str, Path]:
    """Return folders by their URL names: their own, numbered if two are equal."""
    named: dict[str, Path] = {}
    for folder in dict.fromkeys(Path(os.path.abspath(each)) for each in folders):
        base = slug(folder.name, 40) or "reports"
        name, number = base, 1
        while name in named:
            number += 1
            name = f"{base}-{number}"
        named[name] = folder
    return named


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return a folder's entries in order, without hidden ones; empty if it cannot be read."""
    found: list[os.DirEntry[str]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if _is_shown(entry.name):
                    found.append(entry)
                if len(found) >= MAX_ENTRIES:
                    break
    except OSError:
        return []
    return sorted(found, key=lambda entry: entry.name)


def _is_shown(name: str) -> bool:
    """Return whether a name may be shown: neither hidden nor a parent reference."""
    return bool(name) and not name.startswith(".") and not any(each in name for each in "/\\\0")


def _is_report(name: str) -> bool:
    return name.lower().endswith(PAGES) and name not in NOT_REPORTS


def _kind(name: str, head: bytes) -> ReportKind:
    if name == "samples.html":
        return "training"
    if _DATA_MARK in head:
        return "data"
    return "benchmark" if re.match(r"(report|compare|refinements)\b", name) else "other"


def _head(path: Path) -> bytes:
    try:
        with files.open_regular(path, most_bytes=1 << 40) as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""
