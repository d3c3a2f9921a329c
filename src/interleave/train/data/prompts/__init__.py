"""Makes request corpora from a taxonomy of real-world topics, from files, or from a plugin."""
