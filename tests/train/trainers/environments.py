"""Environments for other people's trainers, each in a folder of its own: `python environments.py [NAME…]`.

They pin libraries that exclude each other and ours, so none of them is in `.venv`. They are made under
`.trainers/` (or where TRAINERS says), with the torch of `constraints.txt`. One that cannot be made is named
with the last words of pip, and its tests are skipped. One that is there and whose requirements are the same
is left alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("TRAINERS", ROOT / ".trainers"))
TORCH = ("torch", "torchvision")
OURS = ("jinja2", "numpy", "pillow", "pydantic", "rich", "typer")
"""What `interleave` itself needs; it is installed too, as the reward functions of trainers are in it."""
READY, WHY = "ready", "why-not"


@dataclass(frozen=True)
class Environment:
    """What is installed, and what is imported to see that it is there."""

    requirements: tuple[str, ...]
    module: str
    checkout: str = ""
    """The environment variable that names a checkout, for a trainer that is not on PyPI."""


ENVIRONMENTS = {
    "transformers-4.57": Environment(("transformers==4.57.6", *TORCH, "pillow", "jinja2"), "transformers"),
    "transformers-5": Environment(("transformers>=5.8,<6", *TORCH, "pillow", "jinja2"), "transformers"),
    # Its GRPO imports msgspec, which it does not install.
    "ms-swift": Environment(("ms-swift==4.6.0", "msgspec", "qwen-vl-utils", *TORCH, *OURS), "swift"),
    "llamafactory": Environment(("llamafactory==0.9.5", *TORCH, *OURS), "llamafactory"),
    "verl": Environment(("verl[verl-core]==0.9.1", *TORCH, *OURS), "verl"),
    # Of what EasyR1 requires, flash-attn, liger-kernel and vllm are for GPUs.
    "easyr1": Environment(
        (
            "transformers>=4.54,<5",
            *("accelerate", "codetiming", "datasets", "omegaconf<2.4", "pandas", "peft", "pyarrow>=15"),
            *("pylatexenc", "qwen-vl-utils", "ray[default]", "tensordict", "torchdata", "mathruler"),
            "msgspec",  # comes with vllm
            *TORCH,
            *OURS,
        ),
        "tensordict",
        checkout="EASYR1",
    ),
    "reporters": Environment(
        (
            "wandb",
            "trackio",
            *("transformers>=5.8", "trl>=1.9", "datasets>=4.0", "peft>=0.17", "pyarrow>=20", "torch"),
            *("accelerate>=1.2", "tensorboard>=2.18", "huggingface-hub>=1.0", "safetensors>=0.4.5"),
            *OURS,
        ),
        "wandb",
    ),
}


def python_of(name: str) -> Path:
    return FOLDER / name / "bin" / "python"


def why_not(name: str) -> str | None:
    """Why the tests of an environment cannot run here, or None where they can."""
    made = FOLDER / name
    if (made / READY).is_file():
        checkout = ENVIRONMENTS[name].checkout
        if checkout and not Path(os.environ.get(checkout, "/nowhere")).is_dir():
            return f"it is not on PyPI: name a checkout with {checkout}"
        return None
    if (made / WHY).is_file():
        return (made / WHY).read_text("utf-8").strip()
    return "`make test-trainers` makes its environment"


def make(name: str) -> str | None:
    """Make an environment; why it could not be made, or None."""
    environment, folder = ENVIRONMENTS[name], FOLDER / name
    wanted = "\n".join(environment.requirements)
    ready = folder / READY
    if ready.is_file() and ready.read_text("utf-8") == wanted:
        return None
    ready.unlink(missing_ok=True)
    pip = [str(python_of(name)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    commands = [
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [*pip, "setuptools", "wheel"],
        [*pip, _torch(), *environment.requirements],
    ]
    if set(OURS) <= set(environment.requirements):
        commands.append([*pip, "--no-deps", "--editable", str(ROOT)])
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = _last_error(done.stderr)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / WHY).write_text(reason, "utf-8")
            return reason
    (folder / WHY).unlink(missing_ok=True)
    ready.write_text(wanted, "utf-8")
    return None


def _torch() -> str:
    """Our torch and nothing else of ours: of the other libraries each trainer wants its own versions."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return next(line for line in lines if line.startswith("torch=="))


def _last_error(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["it ended without a word"])[-1][:400]


def main(names: list[str]) -> int:
    for name in names or list(ENVIRONMENTS):
        print(f"{name}: {', '.join(ENVIRONMENTS[name].requirements)}", flush=True)
        if reason := make(name):
            print(f"{name} cannot be installed here: {reason}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
