"""Measures the effect of float8 on verdicts: the miniature's critic with and without it, on its exam.

    python perf/fp8_critics.py --attempts 2000 --device cuda --results perf/results/fp8-critics.json

The label of every attempt is known; a verdict is right if it agrees. Differences are paired by attempt.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from fp8_quality import compared

from interleave import Outcome, load_generator
from interleave.plugin import backends, load_pack
from interleave_mini import WEIGHTS
from interleave_mini.bench.critic_exam import Exam
from interleave_mini.bench.critic_exam_run import Examiner


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--attempts", type=int, default=2000)
    parser.add_argument("--failures", type=int, default=150, help="wrong attempts to collect [150]")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--results", type=Path, metavar="FILE")
    options = parser.parse_args()
    how = f"device={options.device}&batch={options.batch}&compile=false"
    generator = f"diffusers:{WEIGHTS / 'generator'}?{how}"
    critic = f"transformers:{WEIGHTS / 'critic'}?{how}"
    with tempfile.TemporaryDirectory() as folder:
        exam = Exam(Path(folder), lambda: load_generator(generator), concurrency=4 * options.batch)
        attempts = exam.prepare(generator, options.attempts, options.failures, print)
        examiner = Examiner(exam, attempts, print)
        examiner.other_steps = []
        row: dict[str, object] = {"attempts": len(attempts), "failures": len(examiner.failures)}
        right: dict[str, list[bool]] = {}
        for name, spec in (("plain", critic), ("fp8", f"{critic}&quantization=fp8")):
            started = time.perf_counter()
            judged = examiner.judge(
                name, spec, lambda spec=spec: backends.load_agent(spec, "critic"), load_pack("mini")
            )
            outcomes = {each.id: judged[each.id].verdict.outcome for each in attempts}
            wanted = {each.id: Outcome.ACCEPTED if each.right else Outcome.REJECTED for each in attempts}
            right[name] = [outcomes[each] is wanted[each] for each in wanted]
            caught = sum(outcomes[each.id] is Outcome.REJECTED for each in examiner.failures)
            alarms = sum(each.right and outcomes[each.id] is Outcome.REJECTED for each in attempts)
            seconds = time.perf_counter() - started
            row[name] = {
                "right": sum(right[name]),
                "caught": caught,
                "false_alarms": alarms,
                "seconds": seconds,
            }
        row |= compared(right["plain"], right["fp8"])
    print(json.dumps(row))
    if options.results:
        options.results.write_text(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
