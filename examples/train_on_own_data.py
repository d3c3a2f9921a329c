"""Train on your own data: requests → runs → scores → rows → a trained critic.

    pip install "interleavethinker[train]"
    python examples/train_on_own_data.py

Every stage is a command that can be stopped at any time and run again. Here the miniature's oracle is the
teacher and a toy model with random weights the student, so the whole chain takes a minute on a CPU, but the
result is useless. To train a useful critic, name your teacher, generators, a pretrained model and a recipe.
"""

import json
import subprocess
import sys
from pathlib import Path

# Your own requests, one JSON object per line. The id is optional. Add images as
# {"request": [{"text": "…"}, {"image": "cat.png"}]}, with paths relative to the file of requests.
REQUESTS = [
    "How a frog grows up, step by step, in four pictures",
    "Show the phases of the moon.",
    "Tell the story of a cat and a dog that become friends in the meadow.",
    "Teach me to draw a blue rocket from simple shapes.",
    "From morning to night: show how the day goes by.",
    "I want to see a blue frog grow up in the woods.",
]


def interleave(command: str) -> str:
    """Run an `interleave` command and return its output: a path, or a spec."""
    print(f"$ interleave {command}")
    done = subprocess.run(
        [sys.executable, "-m", "interleave", *command.split()], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def make_rows(teacher: str, generators: str, scorer: str) -> list[Path]:
    """Build rows in `rows/` from the requests."""
    lines = [json.dumps({"id": f"mine-{n}", "request": text}) for n, text in enumerate(REQUESTS, 1)]
    Path("requests.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    interleave(f"data collect requests.jsonl --out collection {teacher} {generators}")
    interleave(f"data score collection --scorer {scorer}")
    interleave("data select collection --out selection")
    interleave("data export selection --out rows --format trl --validation 0")
    return sorted(Path("rows").rglob("*.parquet"))


def train(model: str) -> str:
    """Run a few steps of supervised fine-tuning; returns the spec that loads the result."""
    return interleave(
        f"train sft critic --data rows --model {model} --config debug-sft --steps 4 --out trained/critic"
    )


def main() -> None:
    rows = make_rows(
        teacher="--planner oracle --critic oracle",
        # A critic learns from wrong images, so one of the two generators makes mistakes on purpose.
        generators="--generator world --generator world?mistakes=0.5",
        scorer="oracle",
    )
    print("rows:", *rows)
    interleave("mini fresh toy --out toy")
    print("the critic loads as", train("./toy"))


if __name__ == "__main__":
    main()
