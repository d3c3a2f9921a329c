"""Training rows from selections: how they are built. How trainers read them is in `data/formats`."""
