"""The command line: one module per command; the work itself is done by the packages below."""
