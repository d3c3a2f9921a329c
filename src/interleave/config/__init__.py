"""Configuration: spec strings, profiles, and what a run is made with."""
