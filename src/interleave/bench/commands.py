"""The commands of this room: listed before they are imported."""

from interleave.plugin import lazy_command

BENCH = lazy_command(
    "interleave.bench.cli.bench:app", "Measure planners, critics and generators.", "Measure and train"
)
