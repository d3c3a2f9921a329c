"""Servers: an image generator behind HTTP, for our own loop, the reference's trainer and OpenAI's clients."""
