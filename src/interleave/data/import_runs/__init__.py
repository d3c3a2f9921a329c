"""What the reference system left behind, as run folders that every later stage reads."""
