"""`interleave serve balancer`: nginx, without root, in front of the servers listed in a file.

It reloads a changed file. Clients of this package balance their calls; others may need a single address.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from interleave import BackendError, ConfigurationError, MissingDependency
from interleave.remote.endpoints import read_endpoints

log = logging.getLogger("interleave.service")
POLL_SECONDS = 1.0
STOP_SECONDS = 30.0
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
HEALTH_PATH = "/nginx-health"

SITE = """\
upstream generators {{
{servers}
    least_conn;                                   # images take long: round robin would pile them up
    keepalive 32;
}}
server {{
    listen {listen};
    client_max_body_size 64m;                     # nginx's own limit is 1 MB, less than one image
    location / {{
        proxy_pass {scheme}://generators;
        proxy_http_version 1.1;                   # without these two lines keepalive above does nothing
        proxy_set_header Connection "";
{host}        proxy_connect_timeout 5s;
        proxy_read_timeout 310s;                  # longer than --deadline
        # Image requests are safe to repeat.
        proxy_next_upstream error timeout http_429 http_503 non_idempotent;
    }}
    location = /nginx-health {{
        return 200 "healthy\\n";
    }}
}}
"""
EMPTY_SITE = """\
server {{
    listen {listen};
    location / {{
        add_header Retry-After 5 always;
        return 503 "no server is registered\\n";
    }}
    location = /nginx-health {{
        return 200 "healthy\\n";
    }}
}}
"""


@dataclass(frozen=True)
class BalancerConfig:
    """The options of `interleave serve balancer`."""

    servers: Path
    host: str = "127.0.0.1"
    port: int = 8080
    server_port: int = 8011
    """Port of the hosts that the file lists without one."""
    program: str | None = None

    @property
    def listen(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def site(urls: Sequence[str], listen: str) -> str:
    """Return the server part of the nginx configuration, as the documentation prints it."""
    if not urls:
        return EMPTY_SITE.format(listen=listen)
    schemes = {urlsplit(url).scheme for url in urls}
    if len(schemes) > 1:
        raise ConfigurationError("the servers file has both http and https addresses: use one scheme")
    for url in urls:
        if urlsplit(url).path not in ("", "/"):
            raise ConfigurationError(f"{url}: remove the path. Behind nginx a server is a host and a port")
    servers = "\n".join(f"    server {urlsplit(url).netloc} max_fails=3 fail_timeout=30s;" for url in urls)
    # A server without a token accepts only the names of its own machine.
    host = "        proxy_set_header Host localhost;\n" if all(map(_is_local, urls)) else ""
    return SITE.format(servers=servers, listen=listen, scheme=schemes.pop(), host=host)


def full_config(folder: Path, site_config: str) -> str:
    """Return a full configuration that needs no root: nginx writes only inside `folder`."""
    paths = "".join(f"    {name}_temp_path {folder}/{name};\n" for name in TEMPORARY)
    user = "user root;\n" if os.geteuid() == 0 else ""
    inner = "".join(f"    {line}\n" if line else "\n" for line in site_config.splitlines())
    return (
        f"daemon off;\n{user}pid {folder}/nginx.pid;\nerror_log {folder}/error.log;\nworker_processes auto;\n"
        "events {\n    worker_connections 4096;\n}\n"
        f"http {{\n    access_log off;\n{paths}{inner}}}\n"
    )


class Balancer:
    """An nginx process, and the servers file it reloads."""

    def __init__(self, config: BalancerConfig) -> None:
        self.config = config
        self.program = _find_nginx(config.program)
        self.folder = Path(tempfile.mkdtemp(prefix="interleave-balancer-"))
        self.file = self.folder / "nginx.conf"
        self.urls: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = threading.Event()

    def start(self) -> None:
        self._write(read_endpoints(self.config.servers, self.config.server_port, may_be_empty=True))
        self._check()
        command = [*self._command, "-e", f"{self.folder}/error.log"]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def run(self) -> None:
        """Reload the file when it changes, until `end` is called. Raise if nginx exits."""
        while not self._ending.wait(POLL_SECONDS):
            if self._process is not None and self._process.poll() is not None:
                raise BackendError(f"nginx exited: {self._last_error()}")
            self.reload()

    def reload(self) -> None:
        """Apply the servers file. A file that cannot be read or used changes nothing."""
        try:
            urls = read_endpoints(self.config.servers, self.config.server_port, may_be_empty=True)
            if urls != self.urls:
                self._write(urls)
                self._check()
                if self._process is not None:
                    self._process.send_signal(signal.SIGHUP)  # open requests keep the old workers
                log.info("%d servers", len(urls))
        except ConfigurationError as error:
            log.warning("%s; nginx keeps its configuration", error)

    def end(self) -> None:
        self._ending.set()

    def stop(self) -> None:
        """Stop nginx gracefully: open requests are answered first."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGQUIT)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.terminate()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _command(self) -> list[str]:
        return [self.program, "-p", str(self.folder), "-c", str(self.file)]

    def _write(self, urls: list[str]) -> None:
        self.file.write_text(full_config(self.folder, site(urls, self.config.listen)), "utf-8")
        self.urls = urls

    def _check(self) -> None:
        tested = subprocess.run(
            [*self._command, "-t", "-q", "-e", "stderr"], capture_output=True, text=True, check=False
        )
        if tested.returncode:
            said = (tested.stderr or tested.stdout).strip().splitlines() or ["no reason given"]
            raise ConfigurationError(f"nginx cannot be started: {said[0]}")

    def _last_error(self) -> str:
        with suppress(OSError, IndexError):
            return (self.folder / "error.log").read_text("utf-8").splitlines()[-1]
        return "no reason given"


def balance(config: BalancerConfig, announce: Callable[[str], None]) -> None:
    """Balance until SIGTERM or Ctrl-C. `announce` receives the address once nginx runs."""
    balancer = Balancer(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: balancer.end())
    try:
        balancer.start()
        announce(f"http://{config.listen}")
        balancer.run()
    finally:
        balancer.stop()


def _find_nginx(given: str | None) -> str:
    found = shutil.which(given or os.environ.get("NGINX") or "nginx")
    if found is None:
        found = shutil.which("/usr/sbin/nginx")  # often missing from PATH
    if found is None:
        raise MissingDependency(
            "nginx is not installed: install it (apt install nginx), or name its program with --nginx"
        )
    return found


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
