"""The folder of the miniature's models: generator, planner and critic."""

from pathlib import Path

WEIGHTS = Path(__file__).parent
