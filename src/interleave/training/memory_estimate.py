"""How much memory a training needs on one device: counted where it can be, estimated where it cannot.

Weights, gradients and the optimizer's state follow from the number of parameters. Activations are estimated
as in Korthikanti et al. (2022, arXiv 2205.05198) for attention that keeps no matrix of scores: 34 bytes
for each token, hidden unit and layer in half precision, or twice the input of every layer and one layer whole
with gradient checkpointing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from interleave.training.recipes import Recipe

BYTES_A_TOKEN_UNIT = 34
ADAM_STATES = 2
GIB = 2**30


@dataclass(frozen=True)
class Parameters:
    """How many there are, and how many of them learn."""

    all: int
    learning: int
    layers: int
    hidden: int
    kv_width: int
    """Keys and values of one token and layer, in numbers."""


@dataclass(frozen=True)
class Memory:
    """Bytes on one device, by what they are for."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    generation: int
    reference: int

    @property
    def total(self) -> int:
        return sum(vars(self).values())


def estimate(
    recipe: Recipe, parameters: Parameters, *, tokens: int, prompt: int, shards: int = 1, half: bool = True
) -> Memory:
    """What one device holds at its fullest.

    `tokens` are those of one batch in one forward pass, `prompt` those of the longest question; `shards` is
    the number of devices that weights are divided among, `half` whether arithmetic is in half precision.
    """
    stored = 4 if recipe.model.weights == "float32" else 2
    width = BYTES_A_TOKEN_UNIT * (1 if half else 2)
    layer = tokens * parameters.hidden * width
    kept_inputs = tokens * parameters.hidden * 2 * (1 if half else 2) * parameters.layers
    whole = layer * parameters.layers
    activations = kept_inputs + layer if recipe.model.gradient_checkpointing else whole
    grpo = recipe.task == "grpo"
    beside = (
        parameters.all * stored // shards if grpo and recipe.grpo.kl and not recipe.model.lora_rank else 0
    )
    return Memory(
        weights=parameters.all * stored // shards,
        gradients=parameters.learning * stored // shards,
        optimizer=parameters.learning * stored * ADAM_STATES // shards,
        activations=activations,
        generation=_cache(recipe, parameters, prompt, shards, half) if grpo else 0,
        reference=beside,
    )


def _cache(recipe: Recipe, parameters: Parameters, prompt: int, shards: int, half: bool) -> int:
    """Keys and values of all answers that a device writes at once."""
    answers = recipe.grpo.completions // shards
    tokens = prompt + recipe.grpo.max_completion
    return answers * tokens * parameters.layers * parameters.kv_width * (2 if half else 4)


def count_parameters(model: Any, recipe: Recipe) -> Parameters:
    """Of a model that need not have any weights (`torch.device("meta")`)."""
    from interleave.training.models import freeze, lora_config

    text = model.config.get_text_config()
    everything = sum(weights.numel() for weights in model.parameters())
    freeze(model, recipe.model)
    if (lora := lora_config(recipe.model)) is not None:
        from peft import get_peft_model

        model = get_peft_model(model, lora)
        everything = sum(weights.numel() for weights in model.parameters())
    learning = sum(weights.numel() for weights in model.parameters() if weights.requires_grad)
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return Parameters(
        everything, learning, text.num_hidden_layers, text.hidden_size, 2 * text.num_key_value_heads * head
    )


def gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB" if size >= GIB / 10 else f"{size / 2**20:.1f} MiB"
