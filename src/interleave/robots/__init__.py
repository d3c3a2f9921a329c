"""Robots: plan and check sub-tasks of a goal, and annotate recorded episodes."""
