"""`interleave bench drift`: what a generator loses over many chained edits, with and without each remedy."""
