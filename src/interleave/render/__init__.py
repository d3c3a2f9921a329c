"""Documents from runs: HTML, Markdown, and a gallery of many."""
