"""Toy models of the real classes and small real rows, made once for all tests of a session."""

from __future__ import annotations

import gc
import importlib.util
import warnings
from pathlib import Path
from typing import Any

import pytest

HAS_TRAINING = all(
    importlib.util.find_spec(name) for name in ("torch", "transformers", "trl", "datasets", "pyarrow", "peft")
)
collect_ignore = [] if HAS_TRAINING else [path.name for path in Path(__file__).parent.glob("test_*.py")]


@pytest.fixture(autouse=True)
def brief_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A toy that has learned nothing writes to its limit: a third of the time of a short training.

    The page of the `schooled` toy, which is trained before this is done, has whole answers.
    """
    monkeypatch.setattr("interleave.train.samples_page.SFT_TOKENS", 4)


@pytest.fixture(scope="session", autouse=True)
def frozen() -> None:
    """Trainers collect garbage when they end: the libraries are no garbage and need not be looked through."""
    import trl  # noqa: F401

    gc.freeze()


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy vision-language model that has learned nothing."""
    from interleave.local.tiny.vlms import build_tiny_vlm

    return build_tiny_vlm(tmp_path_factory.mktemp("toy") / "vlm")


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of a few rows for every task, with images of 64 pixels."""
    from making import critic_rl_rows, critic_sft_rows, planner_sft_rows, write_rows

    folder = tmp_path_factory.mktemp("export")
    write_rows(folder / "critic_sft.parquet", critic_sft_rows(4, side=64))
    write_rows(folder / "planner_sft.parquet", planner_sft_rows(4))
    write_rows(folder / "critic_rl.parquet", critic_rl_rows(8, side=64))
    return folder


@pytest.fixture(scope="session")
def schooled(tmp_path_factory: pytest.TempPathFactory, toy: Path, data: Path) -> dict[str, Any]:
    """The toy after supervised fine-tuning on four rows: its folder, and what was said meanwhile."""
    from interleave.train.recipes import TrainingJob, load_recipe
    from interleave.train.sft import train_sft

    out = tmp_path_factory.mktemp("schooled") / "out"
    changes = {
        "model.name": str(toy),
        "training.batch": 4,
        "training.device_batch": 4,
        "training.steps": 60,
        "training.learning_rate": 5e-3,
        "training.schedule": "constant",
        "training.log_every": 10,
    }
    said: list[str] = []
    recipe = load_recipe(None, task="sft", changes=changes)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", FutureWarning)
        use = train_sft(TrainingJob("critic", recipe, data, out), said.append)
    return {"out": out, "use": use, "said": said, "warned": [str(each.message) for each in warned]}
