"""Builds training data: request corpora, collected runs, scores, selections and rows."""
