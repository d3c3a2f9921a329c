"""The command line: one file per verb; it strings stages together and does no work of its own."""
