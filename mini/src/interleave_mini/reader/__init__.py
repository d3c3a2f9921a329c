"""The miniature's reader: image → scene (`scene_reader`), many callers at once (`batched_reader`), marks
for how well an image shows a scene (`scores`)."""

from interleave_mini.reader.batched_reader import BatchedReader, shared_batched_reader
from interleave_mini.reader.scene_reader import Reader, Reading, shared_reader

__all__ = ["BatchedReader", "Reader", "Reading", "shared_batched_reader", "shared_reader"]
