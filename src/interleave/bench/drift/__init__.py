"""`interleave bench drift`: image drift over many chained edits, with and without drift control."""
