"""Profiles of the miniature."""
