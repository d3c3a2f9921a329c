"""Tiny models of the same classes, built from their configurations in a second: for tests, for
`interleave models check --tiny`, and for trying out an installation without downloading anything."""
