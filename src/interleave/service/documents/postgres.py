"""A Postgres database that several machines share, behind the interface of the SQLite one.

Each piece of work is a transaction in a thread. If the database fails, as when Postgres restarts or becomes
read-only in a failover, the work is retried on a new connection: for a minute if no client waits for it, else
for less than two seconds. Times are those of the database, so the clocks of the machines may differ.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from interleave import ConfigurationError, MissingDependency, RunError, StorageError
from interleave.plugin import redaction, runs
from interleave.service.documents.database import SqlConnection, SqlCursor, newer_format
from interleave.service.documents.schema import FORMAT, POSTGRES, POSTGRES_STEPS

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
log = logging.getLogger(__name__)
SCHEMES = ("postgres", "postgresql")
NAMESPACE = "interleave"
"""Schema of the tables; the database may hold others."""
REQUEST_THREADS, PATIENT_THREADS = 3, 2
"""With lease renewal and notifications, a process has up to seven connections."""
OUTAGE_SECONDS = 60.0
"""Maximum time that work waits for a database that fails, if no client waits for the work."""
REQUEST_SECONDS = 1.5
"""The same for the work of a request."""
CONNECT_SECONDS = 2
"""The shortest time that libpq keeps to."""
NOTICE_SECONDS = 0.5
STALLED_SECONDS = 15
"""Time after which Postgres ends a transaction whose process hangs, and frees its locks."""
MAX_CONFLICTS = 20
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.05, 1.0


def is_postgres(text: str) -> bool:
    return text.partition("://")[0] in SCHEMES


class Transaction:
    """One transaction, with SQLite's placeholders."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> SqlCursor:
        statement: Any = sql.replace("?", "%s")
        done: SqlCursor = self._connection.execute(statement, tuple(parameters))
        return done


class PostgresDatabase:
    """A Postgres database; the first process creates its tables."""

    dialect = POSTGRES
    shared = True

    def __init__(self, url: str) -> None:
        require_psycopg()
        self.url = url
        if password := urlsplit(url).password:
            redaction.keep_secret(password, "the password of the job table")
        self.label = _without_password(url)
        self._requests = ThreadPoolExecutor(REQUEST_THREADS, thread_name_prefix="jobs")
        self._patient = ThreadPoolExecutor(PATIENT_THREADS, thread_name_prefix="jobs")
        self._own = threading.local()
        self._open: set[psycopg.Connection[Any]] = set()
        self._closing = self._closed = False
        self._prepare()

    async def run(self, work: Callable[[SqlConnection], T], *, patient: bool = False) -> T:
        loop = asyncio.get_running_loop()
        if patient:
            return await loop.run_in_executor(self._patient, self.transaction, work, OUTAGE_SECONDS)
        ends_at = time.monotonic() + REQUEST_SECONDS
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await loop.run_in_executor(
                    self._requests, lambda: self.transaction(work, ends_at - time.monotonic())
                )
        except TimeoutError:  # all threads wait for the database; the transaction of this work is rolled back
            raise StorageError(f"the job table {self.label} does not answer") from None

    def transaction(self, work: Callable[[SqlConnection], T], within: float = OUTAGE_SECONDS) -> T:
        """Run `work` as a transaction in this thread and return its result.

        After `within` seconds nothing is stored any more: a caller that was told of a failure can rely on it.
        """
        import psycopg

        ends_at, conflicts = time.monotonic() + within, 0
        for delay in runs.backoff_delays(FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS):
            if self._closed:
                raise StorageError(f"{self.label} is closed")
            try:
                connection = self._connection()
                with connection.transaction():
                    result = work(Transaction(connection))
                    if time.monotonic() > ends_at:
                        raise StorageError(f"the job table {self.label} answered too late")
                    return result
            except (psycopg.errors.UniqueViolation, psycopg.errors.TransactionRollback) as error:
                conflicts += 1  # another process did the same concurrently; its work is visible now
                if conflicts > MAX_CONFLICTS:
                    raise StorageError(f"{self.label}: {error}") from error
            except psycopg.Error as error:
                self._drop_connection()  # after a failover the next one may reach the new primary
                if self._closing or _is_permanent(error) or time.monotonic() + delay > ends_at:
                    raise StorageError(f"the job table {self.label} cannot be used ({error})") from error
                log.warning("the job table %s fails; retrying: %s", self.label, error)
            time.sleep(delay)
        raise AssertionError("the delays have no end")

    def notices(self, channel: str, stopped: threading.Event) -> Iterator[str | None]:
        """Yield the notices of a channel until `stopped` is set; in a thread, since it waits for them.

        An empty notice comes after each connect, since others may have been lost before it, and `None` while
        there are none.
        """
        import psycopg

        delays = runs.backoff_delays(FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS)
        while not stopped.is_set():
            try:
                with self.connect() as connection:
                    connection.execute(f"LISTEN {channel}")
                    delays = runs.backoff_delays(FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS)
                    yield ""
                    while not stopped.is_set():
                        yield None
                        for notice in connection.notifies(timeout=NOTICE_SECONDS):
                            yield notice.payload
            except psycopg.Error as error:
                log.warning("notices of the job table %s are interrupted: %s", self.label, error)
                stopped.wait(next(delays))

    def connect(self) -> psycopg.Connection[Any]:
        """Open a new connection, which the caller closes."""
        import psycopg
        from psycopg.rows import dict_row

        connection: psycopg.Connection[Any] = psycopg.connect(
            self.url,
            autocommit=True,
            row_factory=dict_row,
            connect_timeout=CONNECT_SECONDS,
            application_name="interleave",
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
        )
        connection.execute(f"SET search_path TO {NAMESPACE}")
        connection.execute("SET jit = off")  # compiling the claim takes longer than the claim
        connection.execute(f"SET idle_in_transaction_session_timeout = '{STALLED_SECONDS}s'")
        return connection

    def close(self) -> None:
        """Finish pending work, without waiting for an unreachable database, and disconnect."""
        self._closing = True
        self._requests.shutdown(wait=True)
        self._patient.shutdown(wait=True)
        self._closed = True
        for connection in list(self._open):
            with suppress(Exception):
                connection.close()

    def _connection(self) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] | None = getattr(self._own, "connection", None)
        if connection is None or connection.closed:
            connection = self._own.connection = self.connect()
            self._open.add(connection)
        return connection

    def _drop_connection(self) -> None:
        connection = getattr(self._own, "connection", None)
        if connection is not None:
            self._own.connection = None
            self._open.discard(connection)
            with suppress(Exception):
                connection.close()

    def _prepare(self) -> None:
        import psycopg

        try:
            connection = self.connect()
        except psycopg.Error as error:
            raise ConfigurationError(f"cannot open the job table {self.label} ({error})") from None
        try:
            with connection.transaction():
                _make_tables(connection, self.label)
        except psycopg.Error as error:
            raise ConfigurationError(f"cannot create the tables in {self.label} ({error})") from None
        finally:
            connection.close()


def _make_tables(connection: psycopg.Connection[Any], label: str) -> None:
    """Apply the steps of the schema that this database lacks. If it lacks none, it may be read-only."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (NAMESPACE,))
    found = _largest(connection, "format", "version")
    if found > FORMAT:
        raise RunError(newer_format(label, found, FORMAT))
    applied = _largest(connection, "steps", "number") or found
    if applied >= len(POSTGRES_STEPS):
        return
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {NAMESPACE}")
    connection.execute("CREATE TABLE IF NOT EXISTS format (version INTEGER NOT NULL)")
    connection.execute("CREATE TABLE IF NOT EXISTS steps (number INTEGER PRIMARY KEY)")
    if not found:
        connection.execute("INSERT INTO format VALUES (%s)", (FORMAT,))
    for number, step in enumerate(POSTGRES_STEPS[applied:], applied + 1):
        statements: Any = step
        connection.execute(statements)
        connection.execute("INSERT INTO steps VALUES (%s)", (number,))


def _largest(connection: psycopg.Connection[Any], table: str, column: str) -> int:
    """Return the largest number in a column; 0 if there is none, or no such table."""
    exists = connection.execute("SELECT to_regclass(%s) IS NOT NULL AS found", (table,)).fetchone()
    if not exists or not exists["found"]:
        return 0
    statement: Any = f"SELECT coalesce(max({column}), 0) AS largest FROM {table}"
    row = connection.execute(statement).fetchone()
    return int(row["largest"]) if row else 0


def _is_permanent(error: psycopg.Error) -> bool:
    """Return whether the same statement would fail again: a defect of ours or of the data."""
    import psycopg

    return isinstance(
        error,
        psycopg.ProgrammingError | psycopg.IntegrityError | psycopg.DataError | psycopg.NotSupportedError,
    )


def require_psycopg() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise MissingDependency(
            "a job table in Postgres needs the package 'psycopg', which is not installed. "
            'Install it with: pip install "interleavethinker[postgres]"'
        ) from None


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    user = f"{parts.username}@" if parts.username else ""
    where = f"{user}{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    return f"{parts.scheme}://{where}{parts.path}"
