"""The positions of tokens that training computes beside the device: those of the model itself."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

torch = pytest.importorskip("torch")

from interleave.local.processors import load_processor  # noqa: E402
from interleave_mini import WEIGHTS  # noqa: E402
from miniature.train.vision_examples import sample_exercise  # noqa: E402
from miniature.train.vision_pretrain import Batches  # noqa: E402

PLANNER: Path = WEIGHTS / "planner"


@pytest.mark.parametrize("name", ["plan-story", "look", "compare", "plan-continue", "plan-annotate"])
def test_positions_equal_those_of_the_model(name: str) -> None:
    from transformers import Qwen3VLForConditionalGeneration

    model = Qwen3VLForConditionalGeneration.from_pretrained(PLANNER)
    rng = Random(name)
    batches = Batches(load_processor(PLANNER, "qwen3_vl"), 4, 0, (name,))
    batch = batches.batch([sample_exercise(rng, (name,)) for _ in range(4)])
    ids = torch.tensor(batch.ids)
    patches = 2 * batches.tokens_across
    grid = torch.tensor([[1, patches, patches]]).expand(len(batch.codes), 3) if len(batch.codes) else None
    found, _ = model.model.get_rope_index(ids, torch.tensor(batch.is_image), grid, None, torch.ones_like(ids))
    assert torch.equal(found, torch.tensor(batch.positions))
