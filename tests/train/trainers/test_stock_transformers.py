"""What `interleave train` saves, read by the stock transformers that other trainers and servers pin."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from driven import Material, Trainer

RELEASES = ("transformers-4.57", "transformers-5")


@pytest.mark.parametrize("release", RELEASES)
def test_a_saved_model_loads_with_the_stock_classes(
    release: str, trainer: Callable[[str], Trainer], material: Material
) -> None:
    found = trainer(release).drive("stock_transformers.py", material.model)
    assert found["version"].startswith(release.removeprefix("transformers-"))
    assert found["processor"] == "Qwen3VLProcessor"
    assert found["video"] == "Qwen3VLVideoProcessor"
    assert found["model"] == "Qwen3VLForConditionalGeneration"
    assert found["loading"] == {}, "no weight is missing, none is left over"


def test_both_releases_read_the_same_tokens_and_compute_the_same(
    trainer: Callable[[str], Trainer], material: Material
) -> None:
    old, new = (trainer(release).drive("stock_transformers.py", material.model) for release in RELEASES)
    assert old["tokens"] == new["tokens"]
    assert old["logits"] == pytest.approx(new["logits"], abs=2e-3)
