"""Counts how many harmless requests the example rules of `--safety` refuse.

Run with: python perf/false_alarms.py CORPUS.jsonl…       (of `interleave data prompts`)
Every request of our corpora is harmless, so each refusal is a false alarm; they are listed by their reason.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path

from interleave.safety.words import WordRules

RULES = Path(__file__).parents[1] / "examples" / "safety.toml"


def main() -> None:
    rules = WordRules(str(RULES))
    for path in map(Path, sys.argv[1:]):
        lines = path.read_text("utf-8").splitlines()
        requests = [json.dumps(json.loads(line), ensure_ascii=False) for line in lines]
        started = time.perf_counter()
        found = [reason for each in requests if (reason := rules.problem_with(each))]
        each = (time.perf_counter() - started) / len(requests)
        share = len(found) / len(requests)
        print(
            f"{path.name}: {len(found)} of {len(requests):,} refused ({share:.3%}), {each * 1e6:.0f} µs each"
        )
        for reason, number in Counter(found).most_common():
            print(f"  {number:6,} {reason}")


if __name__ == "__main__":
    main()
