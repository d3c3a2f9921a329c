"""The generator server: an image generator over HTTP, for our loop, other trainers and OpenAI's clients."""
