"""Request corpora: from a taxonomy of the real world, from files, or from a plugin."""
