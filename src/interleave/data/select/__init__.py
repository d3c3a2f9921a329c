"""Which attempts teach a critic, and how: a part for every attempt, and none without a reason."""
