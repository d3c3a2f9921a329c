"""Books of runs: layouts, exact words, languages and file formats."""
