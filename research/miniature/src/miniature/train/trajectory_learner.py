"""One update of a critic from verdicts with advantages, kept close to the initial critic."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from interleave import Message
from interleave.train.models import avoid_cudnn_attention

CLIP = 1.0


@dataclass(frozen=True)
class Lesson:
    """A verdict to reinforce or suppress; with advantage 0, only to keep."""

    messages: tuple[Message, ...]
    answer: str
    advantage: float


class Learner:
    """Updates in place the model that judges the trajectories."""

    def __init__(
        self, decoder: Any, *, device_batch: int = 256, hold: float = 0.0, temperature: float = 1.0
    ) -> None:
        """Create a learner. `hold` weighs the divergence from the current model, per token; `temperature` is
        that of the sampling, whose probabilities are learned."""
        avoid_cudnn_attention()
        self.decoder, self.model = decoder, decoder.model
        self.device_batch, self.hold, self.temperature = device_batch, hold, temperature
        self.start = copy.deepcopy(self.model).requires_grad_(False).eval()
        self.parameters = [each for each in self.model.parameters() if each.is_floating_point()]
        for parameter in self.parameters:
            parameter.requires_grad_(True)
        self.optimizer = torch.optim.AdamW(self.parameters, lr=0.0, betas=(0.9, 0.98), weight_decay=0)

    def state(self) -> dict[str, Any]:
        """Return the state needed to resume."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def learn(self, some: Sequence[Lesson], rate: float) -> dict[str, float]:
        """Make one update. The verdicts come from the current model, so no ratio needs clipping."""
        if not any(each.advantage for each in some):
            return {"lessons": 0}
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        ordered = sorted(some, key=lambda each: len(each.answer))
        sums = torch.zeros(2, device=self.model.device)
        for start in range(0, len(ordered), self.device_batch):
            sums += self._backward(ordered[start : start + self.device_batch])
        tokens, drift = sums.tolist()
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad /= tokens
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, CLIP)
        if torch.isfinite(norm):
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.model.eval()
        lessons = sum(each.advantage != 0 for each in some)
        return {"lessons": lessons, "norm": float(norm), "drift": drift / tokens}

    def _backward(self, some: Sequence[Lesson]) -> Tensor:
        """Add the gradients of some lessons; return their tokens and divergence from the initial model."""
        inputs, answers = self._inputs(some)
        log_probs, spoken = _log_probs(self.model, inputs, answers, self.temperature)
        with torch.no_grad():
            before, _ = _log_probs(self.start, inputs, answers, self.temperature)
        advantages = torch.tensor([each.advantage for each in some], device=log_probs.device)
        apart = before - log_probs
        divergence = ((apart.exp() - apart - 1) * spoken).sum()
        (self.hold * divergence - (log_probs * spoken * advantages[:, None]).sum()).backward()
        return torch.stack([spoken.sum(), divergence.detach()])

    def log_probs(self, some: Sequence[Lesson]) -> tuple[Tensor, Tensor]:
        """Return the log probability of every answer token, and a mask of the existing tokens."""
        return _log_probs(self.model, *self._inputs(some), self.temperature)

    def _inputs(self, some: Sequence[Lesson]) -> tuple[dict[str, Tensor], Any]:
        """Return the model inputs, question and answer, and the answers alone."""
        tokenizer = self.decoder.tokenizer
        inputs = self.decoder.inputs_of([each.messages for each in some])
        answers = tokenizer(
            [f"{each.answer}{tokenizer.eos_token}" for each in some],
            add_special_tokens=False,
            padding=True,
            padding_side="right",
            return_tensors="pt",
        ).to(self.model.device)
        extended = {"input_ids": answers["input_ids"], "attention_mask": answers["attention_mask"]}
        for name in ("mm_token_type_ids", "token_type_ids"):
            if name in inputs:
                extended[name] = torch.zeros_like(answers["input_ids"])
        whole = {name: torch.cat([inputs[name], more], dim=1) for name, more in extended.items()}
        return {**inputs, **whole}, answers


def _log_probs(
    model: Any, inputs: dict[str, Tensor], answers: Any, temperature: float
) -> tuple[Tensor, Tensor]:
    count = answers["input_ids"].shape[1]
    logits = model(**inputs, use_cache=False, logits_to_keep=count + 1).logits[:, :-1]
    log_probs = (logits.float() / temperature).log_softmax(dim=-1)
    found = log_probs.gather(2, answers["input_ids"][..., None]).squeeze(2)
    return found, answers["attention_mask"].float()
