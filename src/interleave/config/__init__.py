"""What a user chooses: spec strings, profiles, the configuration of a run."""
