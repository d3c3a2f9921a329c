"""`characters.json`: the letters, numbers and spaces of the tokenizers library, for a runtime without it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

CLASSES = {"letters": r"\p{L}", "numbers": r"\p{N}", "spaces": r"\s"}
SURROGATES = range(0xD800, 0xE000)


def write_characters(path: Path) -> Path:
    """Write each class as ranges of characters, in the syntax of a regular expression."""
    found = {name: "".join(map(_written, _ranges(pattern))) for name, pattern in CLASSES.items()}
    path.write_text(json.dumps(found, indent=1) + "\n", "ascii")
    return path


def _ranges(pattern: str) -> list[str]:
    """Return the runs of consecutive characters that match."""
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Split

    everything = "".join(chr(point) for point in range(sys.maxunicode + 1) if point not in SURROGATES)
    splitter = Split(Regex(f"{pattern}+"), behavior="removed", invert=True)
    return [run for run, _ in splitter.pre_tokenize_str(everything)]


def _written(run: str) -> str:
    return run if len(run) < 3 else f"{run[0]}-{run[-1]}"
