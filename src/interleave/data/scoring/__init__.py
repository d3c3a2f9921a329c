"""Every attempt of a collection gets marks from a scorer, or the reason why it has none."""
