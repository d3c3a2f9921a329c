"""Servers: a generator behind HTTP, and documents as jobs."""
