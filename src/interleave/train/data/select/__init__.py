"""Selection: every scored attempt goes to SFT or RL, or is dropped with a reason."""
