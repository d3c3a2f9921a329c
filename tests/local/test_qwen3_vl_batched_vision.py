"""The batched vision tower gives what the library gives, which handles images one by one."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from interleave.local.qwen3_vl.batched_vision import batch_vision  # noqa: E402

EQUAL = ((4, 4),) * 5
UNEQUAL = ((4, 4), (2, 6), (4, 4), (8, 2), (6, 6))
IMAGES_OF_ROWS = (2, 0, 1, 2)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """A toy model as the library has it, and the same with batched vision."""
    from transformers import AutoModelForImageTextToText

    from interleave.local.tiny.vlms import build_tiny_vlm

    folder: Path = build_tiny_vlm(tmp_path_factory.mktemp("many") / "vlm")
    own = AutoModelForImageTextToText.from_pretrained(folder)
    ours = copy.deepcopy(own)
    assert batch_vision(ours)
    return own, ours


def batch_of(model: Any, grids: Sequence[tuple[int, int]], side: str) -> dict[str, Any]:
    """Rows of words and images of these sizes (in patches), of different lengths, padded on one side."""
    torch.manual_seed(0)
    config, left = model.config, list(grids)
    rows = []
    for number, images in enumerate(IMAGES_OF_ROWS):
        ids = list(range(10, 13 + number))
        for _ in range(images):
            height, width = left.pop(0)
            ids += [config.vision_start_token_id, *[config.image_token_id] * (height * width // 4)]
            ids += [config.vision_end_token_id, 20 + number]
        rows.append(ids)
    longest = max(map(len, rows))
    blanks = [[0] * (longest - len(row)) for row in rows]
    masks = [[1] * len(row) for row in rows]

    def padded(lists: Sequence[list[int]]) -> Any:
        pairs = zip(lists, blanks, strict=True)
        return torch.tensor([blank + row if side == "left" else row + blank for row, blank in pairs])

    ids = padded(rows)
    patch = 3 * config.vision_config.temporal_patch_size * config.vision_config.patch_size**2
    return {
        "input_ids": ids,
        "attention_mask": padded(masks),
        "mm_token_type_ids": (ids == config.image_token_id).int(),
        "pixel_values": torch.randn(sum(height * width for height, width in grids), patch),
        "image_grid_thw": torch.tensor([(1, *grid) for grid in grids]),
    }


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("grids", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
def test_outputs_and_gradients_are_the_librarys(pair: Any, grids: Any, side: str) -> None:
    batch = batch_of(pair[0], grids, side)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    found = []
    for model in pair:
        model.zero_grad()
        output = model(**batch, labels=labels, use_cache=False)
        output.loss.backward()
        found.append((output.logits, {name: each.grad for name, each in model.named_parameters()}))
    (logits, gradients), (our_logits, our_gradients) = found
    attended = batch["attention_mask"].bool()
    torch.testing.assert_close(our_logits[attended], logits[attended], atol=1e-5, rtol=1e-4)
    assert gradients["model.visual.blocks.0.attn.qkv.weight"].abs().max() > 0
    for name, gradient in gradients.items():
        torch.testing.assert_close(our_gradients[name], gradient, atol=1e-5, rtol=1e-3, msg=name)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("masked", [True, False])
def test_positions_are_the_librarys(pair: Any, side: str, masked: bool) -> None:
    batch = batch_of(pair[0], UNEQUAL, side)
    del batch["pixel_values"]
    if not masked:
        del batch["attention_mask"]
    positions, delta = pair[0].model.get_rope_index(**batch)
    our_positions, our_delta = pair[1].model.get_rope_index(**batch)
    assert torch.equal(our_positions, positions)
    assert torch.equal(our_delta, delta)
    assert our_positions.dtype is positions.dtype


def test_it_generates_the_same_tokens(pair: Any) -> None:
    batch = batch_of(pair[0], EQUAL, "left")
    generated = []
    for model in pair:
        with torch.inference_mode():
            generated.append(model.generate(**batch, max_new_tokens=6, do_sample=False, pad_token_id=0))
    assert torch.equal(*generated)
    pair[1](**batch).logits.sum().backward()  # tensors cached in inference mode also serve training


def test_images_of_one_size_share_one_attention_call(pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    attend = torch.nn.functional.scaled_dot_product_attention

    def counted(query: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(query.shape)
        return attend(query, *arguments, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    batch = batch_of(pair[0], EQUAL, "left")
    for model in pair:
        model.model.get_image_features(batch["pixel_values"], batch["image_grid_thw"])
    layers = pair[0].config.vision_config.depth
    assert [shape[0] for shape in calls] == [1] * len(EQUAL) * layers + [len(EQUAL)] * layers


def test_other_models_are_not_patched() -> None:
    other = torch.nn.Sequential(torch.nn.Linear(2, 2))
    assert not batch_vision(other)
    assert "forward" not in vars(other[0])
