"""Adapters of the reward core to each trainer's interface."""
