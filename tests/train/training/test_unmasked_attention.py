"""Rows padded at their ends are learned without a mask as they are with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from making import answer, critic_sft_rows

from interleave.local.qwen3_vl.unmasked_attention import unmasked_attention
from interleave.train.collator import SftCollator
from interleave.train.models import load_trainable_model
from interleave.train.recipes import ModelPart
from interleave.train.rows import decode_rows


@pytest.fixture(scope="module")
def padded(toy: Path) -> tuple[Any, Any]:
    """A model, and a batch with much padding."""
    rows = critic_sft_rows(3, side=64)
    rows[0]["completion"] = answer("yes " * 60)
    columns = decode_rows({name: [row[name] for row in rows] for name in rows[0]}, folder=Path())
    learner = load_trainable_model(ModelPart(name=str(toy)))
    taken = [{name: values[index] for name, values in columns.items()} for index in range(3)]
    return learner.model, SftCollator(learner.processor, pad_to=64)(taken)


def learned(model: Any, batch: Any) -> tuple[torch.Tensor, list[torch.Tensor]]:
    model.zero_grad()
    loss = model(**batch).loss
    loss.backward()
    return loss.detach(), [each.grad.clone() for each in model.parameters() if each.grad is not None]


def test_where_a_mask_is_needed_attention_is_not_left_to_cudnn(toy: Path) -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)
    load_trainable_model(ModelPart(name=str(toy)))
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def test_loss_and_gradients_are_those_with_a_mask(padded: tuple[Any, Any]) -> None:
    model, batch = padded
    assert (batch["attention_mask"] == 0).sum() > 100
    loss, gradients = learned(model, batch)
    with unmasked_attention(model):
        same_loss, same_gradients = learned(model, batch)
    torch.testing.assert_close(same_loss, loss, rtol=1e-6, atol=0)
    torch.testing.assert_close(same_gradients, gradients, rtol=1e-4, atol=1e-6)


def test_no_mask_reaches_attention_and_only_within(
    padded: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = padded
    attend, masks = torch.nn.functional.scaled_dot_product_attention, list[Any]()

    def noted(*arguments: Any, **options: Any) -> Any:
        masks.append((options["attn_mask"] is None, options["is_causal"]))
        return attend(*arguments, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", noted)
    with unmasked_attention(model):
        model(**batch)
    assert (True, True) in masks
    assert (False, False) not in masks
    masks.clear()
    model(**batch)
    assert (False, False) in masks, "outside, the mask is there again"
