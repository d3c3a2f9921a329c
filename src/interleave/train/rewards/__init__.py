"""Reward of a critic's reply, the same for every trainer."""
