"""Training of the miniature's own models, from nothing but the world and its language."""
