"""The loopback server, one for all tests of remote backends of a process."""

from loopback import loopback, the_loopback

__all__ = ["loopback", "the_loopback"]
