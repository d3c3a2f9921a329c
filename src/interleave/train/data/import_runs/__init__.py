"""Imports runs of the reference system as run folders that every later stage reads."""
