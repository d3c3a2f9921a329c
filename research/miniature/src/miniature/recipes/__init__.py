"""Recipes that train the miniature's planner and critic."""
