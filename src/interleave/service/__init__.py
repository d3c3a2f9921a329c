"""Servers: an image generator over HTTP, and documents as jobs."""
