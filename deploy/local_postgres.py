"""A temporary Postgres server on this machine, for tests and for `make cluster`."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

USER = "interleave"


def find_postgres() -> Path | None:
    """Return the folder of Postgres' programs, from POSTGRES_BIN, PATH or Debian's default location."""
    given = os.environ.get("POSTGRES_BIN")
    found = shutil.which("initdb")
    places = [Path(given)] if given else []
    places += [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "postgres").exists()), None)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class PostgresServer:
    """A server that listens on this machine only and trusts all its users."""

    def __init__(self, programs: Path, folder: Path, port: int) -> None:
        self.programs = programs
        self.folder = folder
        self.data, self.port = folder / "data", port

    @classmethod
    def new(cls, programs: Path) -> PostgresServer:
        """Start a server in a temporary folder, as the user `nobody` if this process runs as root."""
        server = cls(programs, Path(tempfile.mkdtemp(prefix="interleave-postgres-")), free_port())
        if os.geteuid() == 0:  # it refuses to run as root
            nobody = pwd.getpwnam("nobody")
            os.chown(server.folder, nobody.pw_uid, nobody.pw_gid)
        server._run("initdb", "-D", str(server.data), "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8")
        server.start()
        return server

    def url(self, database: str = "postgres") -> str:
        return f"postgres://{USER}@127.0.0.1:{self.port}/{database}"

    def new_database(self, name: str) -> str:
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder}"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", str(self.data), "-l", log, "-w", "-o", options, "start")

    def stop(self, how: str = "immediate") -> None:
        self._run("pg_ctl", "-D", str(self.data), "-m", how, "-w", "stop")

    def read_only(self, on: bool) -> None:
        """Make every transaction read-only, as on a server that a failover has demoted."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if on else 'off'}")
            connection.execute("SELECT pg_reload_conf()")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        other = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        command = [str(self.programs / program), *arguments]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            check=False,
            **other,  # type: ignore[call-overload]
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.decode()[-2000:]}"
