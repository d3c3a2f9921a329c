"""Models behind two small protocols, named by spec strings and loaded on demand."""
