"""A run on disk: made, continued, folded into a record, shown."""
