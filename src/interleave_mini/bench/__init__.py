"""Benchmarks: tasks with a truth, systems that answer them, scores with intervals, a page to look at."""
