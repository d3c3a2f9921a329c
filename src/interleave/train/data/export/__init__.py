"""Builds training rows from selections; `data/formats` encodes them for each trainer."""
