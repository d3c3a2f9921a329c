"""The commands of this room: listed before they are imported."""

from interleave.plugin import lazy_command

BACKENDS = lazy_command(
    "interleave.diagnostics.backends:app", "List the models that a spec can name; check one."
)
DOCTOR = lazy_command(
    "interleave.diagnostics.doctor:doctor", "What is installed, what is missing, how to get it."
)
