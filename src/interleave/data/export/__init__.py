"""Rows that train a planner and a critic, in the forms that trainers read. One file per format."""
