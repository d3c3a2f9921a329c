"""The miniature's reader: picture → scene, and how good a picture is."""

from interleave.mini.reader.reading import Reader, Reading, shared_reader
from interleave.mini.reader.room import ReadingRoom, shared_room

__all__ = ["Reader", "Reading", "ReadingRoom", "shared_reader", "shared_room"]
