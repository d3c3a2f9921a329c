"""The reward core as each trainer wants to call it."""
