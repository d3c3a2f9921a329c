"""A corpus of requests: from the miniature's grammar, from a taxonomy of the real world, or from a file."""
