"""Renders a collection as one HTML page: counts, charts and a sample of its runs."""
