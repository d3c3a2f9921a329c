"""Robots: from a goal to shown and checked sub-tasks, and from episodes to annotated data."""
