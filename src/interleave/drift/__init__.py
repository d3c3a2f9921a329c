"""What chained edits lose, measured and held against: masks, compositing, colour alignment, anchors."""
