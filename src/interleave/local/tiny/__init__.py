"""Tiny models of the real classes, built from their configurations in a second: for tests, for
`interleave backends check --tiny`, and for trying out an installation without downloading anything."""
