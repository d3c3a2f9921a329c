"""Data construction: request corpora, collected runs, scores, selections, and rows that train the agents."""
