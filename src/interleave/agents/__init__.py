"""Planner, critic and scorer: what is asked of a vision-language model, and how its answer is read."""
