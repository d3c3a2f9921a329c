"""The miniature's models and its painter, as backends."""
