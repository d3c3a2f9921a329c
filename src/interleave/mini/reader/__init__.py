"""The miniature's reader: picture → scene, and how good a picture is."""

from interleave.mini.reader.reading import Reader, Reading, shared_reader

__all__ = ["Reader", "Reading", "shared_reader"]
