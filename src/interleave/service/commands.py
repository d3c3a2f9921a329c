"""The commands of this package, listed without importing them."""

from interleave.plugin import lazy_command

SERVE = lazy_command("interleave.service.cli.serve:app", "Serve generators or documents over HTTP.", "Serve")
