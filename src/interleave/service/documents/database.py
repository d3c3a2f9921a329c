"""A SQLite database with one connection in one thread; concurrent work shares a commit.

The connection locks the database (`locking_mode=EXCLUSIVE`). So a second service on the same file fails at
startup, and the write-ahead log has a single user: SQLite before 3.51.3 can lose commits when several
connections share one.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from interleave import ConfigurationError, RunError, StorageError
from interleave.plugin import make_folder
from interleave.service.documents.schema import SQLITE, Dialect

T = TypeVar("T")


class SqlCursor(Protocol):
    """Result of a statement; rows are accessed by column name."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


class SqlConnection(Protocol):
    """A transaction. Statements must work in SQLite and Postgres, with ? as placeholder."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> SqlCursor: ...


class SqlDatabase(Protocol):
    """Database of a job table."""

    dialect: Dialect
    shared: bool
    """Whether other processes use it too."""

    async def run(self, work: Callable[[SqlConnection], T], *, patient: bool = False) -> T:
        """Run `work` as a transaction and return its result; its changes are then on disk.

        The work may be retried, so it must have no effects outside its connection. `patient` work waits
        longer for a database that cannot be reached, because no client waits for it.
        """
        ...

    def close(self) -> None: ...


Work = Callable[[SqlConnection], Any]
log = logging.getLogger(__name__)
MAX_BATCH = 500
"""Maximum pieces of work per commit."""


class Database:
    """A SQLite database that this process owns until `close`."""

    dialect = SQLITE
    shared = False

    def __init__(self, path: Path, steps: Sequence[str], *, version: int) -> None:
        """`steps` make the tables. A file of a higher format `version` is refused."""
        self.path = path
        self._queue: SimpleQueue[tuple[Work, Future[Any]] | None] = SimpleQueue()
        self._connection = _connect(path, steps, version)
        self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)
        self._closed = False
        self._thread.start()

    async def run(self, work: Callable[[SqlConnection], T], *, patient: bool = False) -> T:
        if self._closed:
            raise StorageError(f"{self.path} is closed")
        done: Future[T] = Future()
        self._queue.put((work, done))
        return await asyncio.wrap_future(done)

    def close(self) -> None:
        """Finish pending work and release the file."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._thread.join()

    def _work(self) -> None:
        while True:
            batch = [self._queue.get()]
            with suppress(Empty):
                while len(batch) < MAX_BATCH:
                    batch.append(self._queue.get_nowait())
            self._commit([each for each in batch if each is not None])
            if None in batch:
                self._connection.close()
                return

    def _commit(self, batch: list[tuple[Work, Future[Any]]]) -> None:
        wanted = [(work, done) for work, done in batch if done.set_running_or_notify_cancel()]
        outcomes: list[tuple[Any, Exception | None]] = []
        try:
            self._connection.execute("BEGIN")
            outcomes += [self._try(work) for work, _ in wanted]
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            failure = StorageError(f"cannot write {self.path} ({error}): free some space or repair the disk")
            outcomes = [(None, failure) for _ in wanted]
            log.error("%s", failure)
        for (_, done), (result, problem) in zip(wanted, outcomes, strict=True):
            if problem is None:
                done.set_result(result)
            else:
                done.set_exception(problem)

    def _try(self, work: Work) -> tuple[Any, Exception | None]:
        """Run one piece of work; if it fails, only its changes are rolled back."""
        self._connection.execute("SAVEPOINT work")
        try:
            result = work(self._connection)
        except sqlite3.OperationalError:  # a disk failure affects the whole batch
            raise
        except Exception as error:
            self._connection.execute("ROLLBACK TO work")
            self._connection.execute("RELEASE work")
            return None, error
        self._connection.execute("RELEASE work")
        return result, None


def _connect(path: Path, steps: Sequence[str], version: int) -> sqlite3.Connection:
    try:
        make_folder(path.parent)
        with ExitStack() as undo:
            connection = sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)
            undo.callback(connection.close)
            connection.row_factory = sqlite3.Row
            connection.create_function("now", 0, _clock())
            for setting in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
                connection.execute(f"PRAGMA {setting}")
            _make_tables(connection, path, steps, version)
            connection.executescript("BEGIN EXCLUSIVE; COMMIT")
            undo.pop_all()
        return connection
    except (OSError, sqlite3.Error) as error:
        if getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
            why = f"another process uses {path}: only one document service may use a job table"
        else:
            why = f"cannot open the job table {path} ({error})"
        raise ConfigurationError(why) from error


def _make_tables(connection: sqlite3.Connection, path: Path, steps: Sequence[str], version: int) -> None:
    """Apply the steps of the schema that this file lacks."""
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found > version:
        raise RunError(newer_format(str(path), found, version))
    if 0 < found < version:
        raise RunError(f"{path} has the old format version {found}")
    connection.execute("CREATE TABLE IF NOT EXISTS steps (number INTEGER PRIMARY KEY)")
    applied = connection.execute("SELECT max(number) FROM steps").fetchone()[0] or found
    for number, step in enumerate(steps[applied:], applied + 1):
        stored = f"INSERT INTO steps VALUES ({number}); PRAGMA user_version={version}"
        connection.executescript(f"BEGIN; {step}; {stored}; COMMIT;")


def newer_format(where: str, found: int, known: int) -> str:
    return f"{where} has format version {found}; this interleave reads up to {known}: upgrade interleave"


def _clock() -> Callable[[], float]:
    """Return a clock with the time of day at its start, which later changes of that time do not move."""
    start = time.time() - time.monotonic()
    return lambda: start + time.monotonic()
