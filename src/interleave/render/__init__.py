"""A run as something to look at: HTML, Markdown, a gallery of many."""
