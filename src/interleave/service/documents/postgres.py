"""A Postgres database that several machines share, behind the interface of the SQLite one.

Each piece of work is a transaction in a thread. If the connection breaks, as when Postgres restarts, the work
is retried on a new one for a while, so callers notice only a delay. Times are those of the database, so the
clocks of the machines may differ.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from interleave import ConfigurationError, MissingDependency, RunError, StorageError
from interleave.plugin import redaction, runs
from interleave.service.documents.database import SqlConnection, SqlCursor

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
log = logging.getLogger(__name__)
SCHEMES = ("postgres", "postgresql")
NAMESPACE = "interleave"
"""Schema of the tables; the database may hold others."""
THREADS = 4
"""With lease renewal and notifications, a process has up to six connections."""
OUTAGE_SECONDS = 60.0
"""Maximum time each piece of work waits for an unreachable database."""
CONNECT_SECONDS = 5
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
    """A Postgres database; the first process executes `schema`, once."""

    def __init__(self, url: str, schema: str, *, version: int) -> None:
        require_psycopg()
        self.url = url
        if password := urlsplit(url).password:
            redaction.keep_secret(password, "the password of the job table")
        self.label = _without_password(url)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="jobs")
        self._own = threading.local()
        self._open: set[psycopg.Connection[Any]] = set()
        self._closing = self._closed = False
        self._prepare(schema, version)

    async def run(self, work: Callable[[SqlConnection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.transaction, work)

    def transaction(self, work: Callable[[SqlConnection], T], within: float = OUTAGE_SECONDS) -> T:
        """Run `work` as a transaction in this thread and return its result."""
        import psycopg

        ends_at, conflicts = time.monotonic() + within, 0
        for delay in runs.backoff_delays(FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS):
            if self._closed:
                raise StorageError(f"{self.label} is closed")
            try:
                connection = self._connection()
                with connection.transaction():
                    return work(Transaction(connection))
            except (psycopg.errors.UniqueViolation, psycopg.errors.TransactionRollback) as error:
                conflicts += 1  # another process did the same concurrently; its work is visible now
                if conflicts > MAX_CONFLICTS:
                    raise StorageError(f"{self.label}: {error}") from error
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                self._drop_connection()
                if self._closing or time.monotonic() + delay > ends_at:
                    raise StorageError(f"the job table {self.label} cannot be reached ({error})") from error
                log.warning("the job table %s cannot be reached; retrying: %s", self.label, error)
            time.sleep(delay)
        raise AssertionError("the delays have no end")

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
        return connection

    def close(self) -> None:
        """Finish pending work, without waiting for an unreachable database, and disconnect."""
        self._closing = True
        self._threads.shutdown(wait=True)
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

    def _prepare(self, schema: str, version: int) -> None:
        import psycopg

        try:
            connection = self.connect()
        except psycopg.Error as error:
            raise ConfigurationError(f"cannot open the job table {self.label} ({error})") from None
        try:
            with connection.transaction():
                _make_tables(connection, schema, version, self.label)
        except psycopg.Error as error:
            raise ConfigurationError(f"cannot create the tables in {self.label} ({error})") from None
        finally:
            connection.close()


def _make_tables(connection: psycopg.Connection[Any], schema: str, version: int, label: str) -> None:
    connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (NAMESPACE,))
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {NAMESPACE}")
    connection.execute("CREATE TABLE IF NOT EXISTS format (version INTEGER NOT NULL)")
    row = connection.execute("SELECT version FROM format").fetchone()
    if row is None:
        statements: Any = schema
        connection.execute(statements)
        connection.execute("INSERT INTO format VALUES (%s)", (version,))
    elif row["version"] > version:
        raise RunError(
            f"{label} has format version {row['version']}; this interleave reads up to {version}: "
            "upgrade interleave"
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
