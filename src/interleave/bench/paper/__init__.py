"""The tables of the paper: `paper.toml` names every row, its command and what it needs."""
