"""Planner, critic and scorer: how a vision-language model is prompted, and how its reply is parsed."""
