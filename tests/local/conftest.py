"""Toy models of the real classes, built once for all tests of a session."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from loopback import loopback, the_loopback

__all__ = ["loopback", "the_loopback"]
HAS_LOCAL = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "diffusers", "peft"))
collect_ignore = [] if HAS_LOCAL else [path.name for path in Path(__file__).parent.glob("test_*.py")]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the toy models are built in."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def toy_vlm(models: Path) -> Callable[[str | None], Path]:
    """A toy model that gives this answer; None for one that says random things and never ends."""
    from interleave.local.tiny.vlms import ANSWERS, build_tiny_vlm

    def build(role: str | None = None) -> Path:
        folder = models / f"vlm-{role}"
        return folder if folder.exists() else build_tiny_vlm(folder, answer=ANSWERS[role] if role else None)

    return build


@pytest.fixture(scope="session")
def adapters(models: Path, toy_vlm: Callable[[str | None], Path]) -> tuple[Path, Path]:
    """Two adapters for the toy model that says random things."""
    from interleave.local.tiny.vlms import build_tiny_adapter

    one, two = models / "adapter-1", models / "adapter-2"
    return build_tiny_adapter(one, toy_vlm(None), seed=1), build_tiny_adapter(two, toy_vlm(None), seed=2)


@pytest.fixture(scope="session")
def toy_pipeline(models: Path) -> Callable[[str], Path]:
    """A toy pipeline of this class."""
    from interleave.local.tiny.pipelines import build_tiny_pipeline

    def build(name: str) -> Path:
        folder = models / name
        return folder if folder.exists() else build_tiny_pipeline(folder, name)

    return build


@pytest.fixture
def klein(toy_pipeline: Callable[[str], Path]) -> Path:
    return toy_pipeline("Flux2KleinPipeline")


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[Path], Path]:
    """A copy of a model folder that a test may break."""

    def copy(folder: Path) -> Path:
        return Path(shutil.copytree(folder, tmp_path / "copy"))

    return copy


@pytest.fixture(scope="session")
def mask(models: Path) -> Path:
    path = models / "mask.png"
    half = Image.new("RGB", (64, 64), "black")
    half.paste("white", (0, 0, 32, 64))
    half.save(path)
    return path


@pytest.fixture
def small_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pipelines that scale every source to a megapixel be content with 64 pixels: seconds a call."""
    from diffusers.pipelines.longcat_image import pipeline_longcat_image_edit as longcat
    from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit as edit
    from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit_plus as plus

    monkeypatch.setattr(plus, "VAE_IMAGE_SIZE", 64 * 64)
    monkeypatch.setattr(plus, "CONDITION_IMAGE_SIZE", 64 * 64)
    for module in (edit, longcat):
        original = module.calculate_dimensions
        small = lambda area, ratio, original=original: original(64 * 64, ratio)  # noqa: E731
        monkeypatch.setattr(module, "calculate_dimensions", small)
