"""Data construction: requests, collected runs, scores, selection, and rows that train the agents."""
