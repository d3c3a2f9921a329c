"""The miniature's reader: picture → scene, and how good a picture is."""

from interleave_mini.reader.batched_reader import ReadingRoom, shared_room
from interleave_mini.reader.scene_reader import Reader, Reading, shared_reader

__all__ = ["Reader", "Reading", "ReadingRoom", "shared_reader", "shared_room"]
