"""What all backends behind a network share: the door, typed outcomes, keys, prices, pictures as text."""
