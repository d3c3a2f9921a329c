"""The commands of this room: listed before they are imported."""

from interleave.plugin import lazy_command

STUDIO = lazy_command("interleave.studio.command:studio", "Make, steer and read documents in the browser.")
