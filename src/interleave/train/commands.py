"""Commands of this package, declared without importing them."""

from interleave.plugin import lazy_command

DATA = lazy_command(
    "interleave.train.cli.data:app", "Make training data: requests, runs, scores, rows.", "Measure and train"
)
TRAIN = lazy_command("interleave.train.cli.train:app", "Train a planner or a critic.", "Measure and train")
