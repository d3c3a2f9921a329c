"""The reward of a critic's reply, the same for every trainer: what it is made of, and how it is got."""
