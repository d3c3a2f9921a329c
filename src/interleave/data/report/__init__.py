"""A collection as one page: what it holds, what became of it, and some of it to look at."""
