"""The generator server: an image generator behind HTTP, for our loop, other trainers and OpenAI's clients."""
