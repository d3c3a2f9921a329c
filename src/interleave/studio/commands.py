"""The commands of this package, listed without importing them."""

from interleave.plugin import lazy_command

STUDIO = lazy_command(
    "interleave.studio.command:studio", "Make, edit and read documents in the browser.", "Make documents"
)
