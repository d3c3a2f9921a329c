"""The commands of this room: listed before they are imported."""

from interleave.plugin import lazy_command

DATA = lazy_command("interleave.train.cli.data:app", "Make training data: requests, runs, scores, rows.")
TRAIN = lazy_command("interleave.train.cli.train:app", "Train a planner or a critic.")
