"""The commands of this room: listed before they are imported."""

from interleave.plugin import lazy_command

SERVE = lazy_command("interleave.service.cli.serve:app", "Serve a generator, or whole documents, over HTTP.")
WORK = lazy_command(
    "interleave.service.cli.work:work", "Work on the jobs of document services, until Ctrl-C."
)
