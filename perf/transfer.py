"""Measures whether planner and critic help unseen generators: three generators on the same tasks.

    python perf/transfer.py --items 40 --seed 4711 --out runs/transfer --results perf/results/transfer.json

- `mini`: the miniature's generator, whose images the critic was trained on;
- `4-bit`: the same with the weights of its transformer rounded to 15 values a row;
- `painter`: the world's painter with mistakes of the whole image (mirrored, upside down, one colour, other
  sizes). The critic was trained on mistakes of one, two or three things.

Every row is an ordinary `interleave bench mini`. The same command resumes a stopped measurement.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

import interleave_mini

WEIGHTS = Path(interleave_mini.__file__).parent / "weights" / "generator"
LEVELS = 7
"""Largest value in four bits: whole numbers from −7 to 7, times the scale of a row."""
PAINTER = "world?mistakes=0.3&of=picture"
SUITES, SYSTEMS = ("story", "edit"), ("base", "plan", "full")


def rounded_to_four_bits(folder: Path) -> Path:
    """Write a copy of the miniature's generator with every matrix of its transformer rounded."""
    shutil.copytree(WEIGHTS, folder, dirs_exist_ok=True)
    for file in (folder / "transformer").glob("*.safetensors"):
        tensors = load_file(file)
        for name, tensor in tensors.items():
            if tensor.ndim == 2:
                scale = tensor.float().abs().amax(dim=1, keepdim=True) / LEVELS
                tensors[name] = ((tensor.float() / scale).round() * scale).to(tensor.dtype)
        save_file(tensors, file, {"format": "pt"})
    return folder


def bench(suite: str, system: str, generator: str, out: Path, items: int, seed: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "interleave", "bench", "mini", "--suite", suite, "--system", system]
    command += ["--planner", "mini", "--critic", "mini", "--prompts", "mini"]
    command += ["--generator", generator, "--items", str(items), "--seed", str(seed), "--out", str(out)]
    done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE)
    if done.returncode not in (0, 1):  # 1: refused requests, which count as wrong
        raise SystemExit(done.returncode)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=40)
    parser.add_argument("--seed", type=int, default=4711)
    parser.add_argument("--out", type=Path, default=Path("runs/transfer"))
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()

    four_bits = rounded_to_four_bits(given.out / "4-bit-generator")
    generators = {"mini": "mini", "painter": PAINTER, "4-bit": f"diffusers:{four_bits.resolve()}"}
    rows = []
    print("| generator | suite | alone | planner | planner and critic | drawn a task |")
    print("|---|---|---:|---:|---:|---:|")
    for name, spec in generators.items():
        for suite in SUITES:
            results = {
                system: bench(suite, system, spec, given.out / name / suite / system, given.items, given.seed)
                for system in SYSTEMS
            }
            scores = {system: result["scores"]["strict"] for system, result in results.items()}
            drawn = results["full"]["calls"]["generator"] / given.items
            rows.append({"generator": name, "suite": suite, "strict": scores, "drawn_a_task": drawn})
            cells = " | ".join(
                f"{100 * each['mean']:.1f} ({100 * each['low']:.1f}–{100 * each['high']:.1f})"
                for each in scores.values()
            )
            print(f"| {name} | {suite} | {cells} | {drawn:.1f} |", flush=True)
    if given.results:
        given.results.write_text(
            json.dumps({"items": given.items, "seed": given.seed, "rows": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
