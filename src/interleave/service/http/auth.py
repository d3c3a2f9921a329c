"""Authorization: a bearer token if the server has one, and no requests from web pages of other sites."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from interleave import ConfigurationError
from interleave.service.http.refusals import Refusal

OPEN_PATHS = frozenset({"/health"})
"""Paths open to load balancers without a token; they show only whether the server is alive."""
TOKEN_VARIABLE = "INTERLEAVE_SERVER_TOKEN"


class Access:
    """Header check of every request, before its body is read."""

    def __init__(self, token: str | None) -> None:
        self._digest = _digest(token) if token else None

    def check(self, path: str, headers: Mapping[str, str]) -> bool:
        """Return whether the request is authenticated; raise a `Refusal` if it is not authorized."""
        refuse_foreign_pages(headers)
        if self._digest is None:
            refuse_foreign_names(headers)
            return True
        given = secret_of(headers.get("authorization", ""))
        authenticated = given is not None and hmac.compare_digest(_digest(given), self._digest)
        if not authenticated and path not in OPEN_PATHS:
            raise Refusal("a token is required: send Authorization: Bearer TOKEN", status=401)
        return authenticated


def secret_of(authorization: str) -> str | None:
    """Return the token of `Bearer TOKEN`, or of `Basic` with the token as password (http://x:TOKEN@host)."""
    scheme, _, value = authorization.partition(" ")
    given = value.strip()
    if scheme.lower() == "bearer":
        return given
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(given, validate=True).decode("utf-8").partition(":")[2]
    except ValueError:
        return None


def check_public(host: str, token: str | None) -> None:
    """Refuse to serve the network without a token."""
    if not token and not is_loopback(host):
        raise ConfigurationError(
            f"--host {host} can be reached from other machines, but no token is set: "
            f"set {TOKEN_VARIABLE}, or serve this machine only with --host 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Return whether an address to listen on can be reached only from this machine."""
    if not host:
        return False
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(info[4][0]).partition("%")[0]).is_loopback for info in found)


def refuse_foreign_names(headers: Mapping[str, str]) -> None:
    """Refuse requests for other host names, for servers without a token.

    With DNS rebinding, a foreign page can point its name at 127.0.0.1 and count as the same site.
    """
    if not _is_loopback_name(_host_name(headers.get("host", ""))):
        raise Refusal("this server has no token and accepts only the host name localhost", status=403)


def refuse_foreign_pages(headers: Mapping[str, str]) -> None:
    """Refuse requests that a browser sends for a page of another site."""
    origin = headers.get("origin")
    if origin is not None and _site_of(origin) != headers.get("host", "").lower():
        raise Refusal("requests from web pages of other sites are refused", status=403)


def _site_of(origin: str) -> str | None:
    """Return the host and port of an Origin header; `None` if it is not a URL."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # a malformed IPv6 address, for example
        return None


def _host_name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_loopback_name(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _digest(token: str) -> bytes:
    """Return a hash of fixed length, so that comparison takes constant time."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
