"""What is installed, which backends there are, and whether a backend keeps its contract."""
