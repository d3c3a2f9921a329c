"""Second stage of the generator: text encoder and transformer, trained together by flow matching."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from interleave_mini.world.drawing import EMPTY, TorchPainter, scene_codes
from miniature.train.autoencoder import LatentSpace
from miniature.train.examples import Example, sample_example
from miniature.train.generator_model import SHIFT, GeneratorShape, text_layers
from miniature.train.optimizers import MuonAndAdamW
from miniature.train.training_loop import Log, TimedSchedule, WeightAverage, learning_rate

CHANGE_WEIGHT = 3.0
SOURCE_NOISE = 0.12
"""Noise on the source of an edit, which in use is an image drawn by the model."""
MAX_SKIPPED = 50
WEIGHT_DECAY = 0.01
SAVE_EVERY = 120.0
"""Seconds between two saved states."""
SOURCE_TIME = 10
"""Position of the first source on the time axis of the position ids; the second is at twice that."""
MAX_SOURCES = 2
LOSS_NAMES = ("text", "edit", "history")
"""Log names of the losses of batches with no, one and two sources."""


@dataclass(frozen=True)
class FlowTraining:
    text_batch: int = 384
    edit_batch: int = 288
    history_batch: int = 192
    rate: float = 7e-4
    workers: int = 0
    log_every: int = 100


@dataclass(frozen=True)
class Batch:
    """Examples with the same number of sources, oldest first."""

    tokens: Any
    sources: tuple[Any, ...]
    after: Any


class Examples(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """Endless stream of batches from worker processes, each with its own seed."""

    def __init__(self, tokenizer: Any, shape: GeneratorShape, settings: FlowTraining, seed: int) -> None:
        self.tokenizer, self.shape, self.settings, self.seed = tokenizer, shape, settings, seed

    def __iter__(self) -> Iterator[Batch]:
        worker = torch.utils.data.get_worker_info()
        rng = Random(f"{self.seed}/{worker.id if worker else 0}")
        sizes = (self.settings.text_batch, self.settings.edit_batch, self.settings.history_batch)
        waiting: tuple[list[Example], ...] = tuple([] for _ in sizes)
        while True:
            example = sample_example(rng)
            count = len(example.sources)
            waiting[count].append(example)
            if len(waiting[count]) == sizes[count]:
                yield self.batch(waiting[count])
                waiting[count].clear()

    def batch(self, examples: list[Example]) -> Batch:
        tokens = encode_prompts(self.tokenizer, [example.prompt for example in examples], self.shape)
        sources = zip(*(example.sources for example in examples), strict=True)
        after = scene_codes([example.after for example in examples])
        return Batch(tokens, tuple(scene_codes(scenes) for scenes in sources), after)


def encode_prompts(tokenizer: Any, prompts: list[str], shape: GeneratorShape) -> np.ndarray[Any, Any]:
    """Return token ids, padded to the fixed length as in the pipeline."""
    encoded = tokenizer(prompts, padding="max_length", truncation=True, max_length=shape.sequence)
    return np.asarray(encoded["input_ids"], dtype=np.int64)


class Flow:
    """The model in training: a transformer and a text encoder over a fixed latent space."""

    def __init__(
        self, shape: GeneratorShape, space: LatentSpace, text_encoder: Any, transformer: Any, pad: int
    ) -> None:
        self.shape, self.space, self.pad = shape, space, pad
        self.text_encoder, self.transformer = text_encoder, transformer
        self.device = next(transformer.parameters()).device
        side = shape.side // 16
        grid = torch.cartesian_prod(torch.arange(1), torch.arange(side), torch.arange(side), torch.arange(1))
        placed = [grid + torch.tensor([SOURCE_TIME * count, 0, 0, 0]) for count in range(MAX_SOURCES + 1)]
        words = torch.cartesian_prod(*(torch.arange(n) for n in (1, 1, 1, shape.sequence)))
        self.word_ids = words.to(self.device)
        self.image_ids = [torch.cat(placed[: count + 1]).to(self.device) for count in range(MAX_SOURCES + 1)]

    def text_states(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the hidden states of the text encoder that condition the transformer."""
        states = self.text_encoder(
            input_ids=tokens,
            attention_mask=(tokens != self.pad).long(),
            output_hidden_states=True,
            use_cache=False,
        ).hidden_states
        return torch.cat([states[layer] for layer in text_layers(self.shape)], dim=-1)

    def velocity(
        self, noisy: torch.Tensor, time: torch.Tensor, words: torch.Tensor, sources: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        count, length = noisy.shape[:2]
        images = torch.cat([noisy, *sources], dim=1) if sources else noisy
        guessed = self.transformer(
            hidden_states=images,
            timestep=time,
            guidance=None,
            encoder_hidden_states=words,
            txt_ids=self.word_ids.expand(count, -1, -1),
            img_ids=self.image_ids[len(sources)].expand(count, -1, -1),
            return_dict=False,
        )[0]
        return guessed[:, :length]

    def loss(self, batch: Batch, painter: TorchPainter) -> torch.Tensor:
        with torch.no_grad():
            target = self.space.tokens(painter.paint(batch.after))
            given = batch.sources or (_emptied(batch.after),)
            starts = [self.space.tokens(painter.paint(codes)) for codes in given]
            changed = ((target - starts[-1]).abs().mean(dim=2, keepdim=True) > 0.15).float()
            weight = 1 + CHANGE_WEIGHT * changed
            weight = weight / weight.mean()
            noise = torch.randn_like(target)
            even = torch.rand(len(target), device=self.device)
            time = SHIFT * even / (1 + (SHIFT - 1) * even)
            noisy = target + time.view(-1, 1, 1) * (noise - target)
            sources = [self._with_noise(start) for start in starts] if batch.sources else ()
        guessed = self.velocity(noisy, time, self.text_states(batch.tokens), sources)
        return (weight * (guessed.float() - (noise - target)) ** 2).mean()

    def _with_noise(self, image: torch.Tensor) -> torch.Tensor:
        amount = SOURCE_NOISE * torch.rand(len(image), 1, 1, device=self.device)
        return image + amount * torch.randn_like(image)

    def draw(
        self, tokens: torch.Tensor, sources: Sequence[torch.Tensor], seed: int, steps: int | None = None
    ) -> torch.Tensor:
        """Sample a batch of images as bytes, with the sampling loop of the pipeline."""
        steps = steps or self.shape.steps
        even = torch.linspace(1, 1 / steps, steps)
        times = [*(SHIFT * even / (1 + (SHIFT - 1) * even)).tolist(), 0.0]
        random = torch.Generator(self.device).manual_seed(seed)
        with torch.no_grad():
            words = self.text_states(tokens)
            starts = [self.space.tokens(pixels.to(self.device)) for pixels in sources]
            size = (len(tokens), (self.shape.side // 16) ** 2, 4 * self.shape.latent_channels)
            image = torch.randn(size, generator=random, device=self.device)
            for now, then in pairwise(times):
                time = torch.full((len(tokens),), now, device=self.device)
                image = image + (then - now) * self.velocity(image, time, words, starts).float()
            return self.space.pixels(image)


def _emptied(codes: torch.Tensor) -> torch.Tensor:
    empty = codes.clone()
    empty[:, 1:] = EMPTY
    return empty


def train_flow(
    flow: Flow,
    examples: Examples,
    painter: TorchPainter,
    schedule: TimedSchedule,
    log: Log,
    settings: FlowTraining,
    state: Path,
    quick_eval: Callable[[], dict[str, float]] = dict,
) -> WeightAverage:
    """Train until the schedule ends; `state` holds everything needed to resume.

    At every save, `quick_eval` runs on the averaged weights and its result is logged.
    """
    on_gpu = flow.device.type == "cuda"
    modules = (flow.text_encoder, flow.transformer)
    for module in modules:
        module.train()
    parameters = [parameter for module in modules for parameter in module.parameters()]
    optimizer = MuonAndAdamW(torch.nn.ModuleList(modules), (), settings.rate, WEIGHT_DECAY)
    average = WeightAverage(*modules)
    if state.exists():
        _load_state(state, modules, optimizer, average)
    if on_gpu:
        flow.transformer.compile_repeated_blocks(fullgraph=True, dynamic=False)
    loader = iter(torch.utils.data.DataLoader(examples, batch_size=None, num_workers=settings.workers))
    losses, saved = _Losses(log), schedule.now
    for step in schedule.steps():
        batch = _to_device(next(loader), flow.device)
        with torch.autocast(flow.device.type, torch.bfloat16, enabled=on_gpu):
            loss = flow.loss(batch, painter)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        if torch.isfinite(norm):
            optimizer.step(learning_rate(settings.rate, schedule.progress))
            average.update()
            losses.add(batch, loss, norm)
        else:  # one bad batch would ruin all weights
            losses.skip(step, loss, norm)
        optimizer.zero_grad()
        if step % settings.log_every == 0:
            losses.write(step, schedule.spent)
        if schedule.now - saved > SAVE_EVERY:
            _save_state(state, modules, optimizer, average, schedule)
            with average.in_place():
                log.write(stage="glance", step=step, seconds=schedule.spent, **quick_eval())
            saved = schedule.now
    _save_state(state, modules, optimizer, average, schedule)
    return average


class _Losses:
    """Losses since the last line of the log, by the number of sources."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.skipped = 0
        self._start()

    def _start(self) -> None:
        self.seen: dict[str, list[torch.Tensor]] = {name: [] for name in LOSS_NAMES}
        self.norms: list[torch.Tensor] = []

    def add(self, batch: Batch, loss: torch.Tensor, norm: torch.Tensor) -> None:
        self.seen[LOSS_NAMES[len(batch.sources)]].append(loss.detach())
        self.norms.append(norm)

    def skip(self, step: int, loss: torch.Tensor, norm: torch.Tensor) -> None:
        self.skipped += 1
        self.log.write(stage="flow", step=step, skipped=self.skipped, loss=loss.item(), norm=norm.item())
        if self.skipped > MAX_SKIPPED:
            raise RuntimeError(f"{self.skipped} batches without a finite gradient: the training has diverged")

    def write(self, step: int, seconds: float) -> None:
        means = {name: sum(some).item() / len(some) for name, some in self.seen.items() if some}
        highest = max((norm.item() for norm in self.norms), default=0.0)
        self.log.write(stage="flow", step=step, seconds=seconds, **means, highest_norm=highest)
        self._start()


def _to_device(batch: Batch, device: Any) -> Batch:
    tokens, after, *sources = (
        torch.as_tensor(each).long().to(device, non_blocking=True)
        for each in (batch.tokens, batch.after, *batch.sources)
    )
    return Batch(tokens, tuple(sources), after)


def _save_state(
    state: Path, modules: tuple[Any, ...], optimizer: Any, average: WeightAverage, schedule: TimedSchedule
) -> None:
    kept = {
        "modules": [module.state_dict() for module in modules],
        "optimizer": optimizer.state_dict(),
        "average": average.mean,
        "updates": average.updates,
        "seconds": schedule.spent,
    }
    part = state.with_suffix(".part")
    torch.save(kept, part)
    part.replace(state)


def _load_state(state: Path, modules: tuple[Any, ...], optimizer: Any, average: WeightAverage) -> None:
    kept = torch.load(state, weights_only=True, map_location=average.mean[0].device)
    for module, weights in zip(modules, kept["modules"], strict=True):
        module.load_state_dict(weights)
    optimizer.load_state_dict(kept["optimizer"])
    for mean, before in zip(average.mean, kept["average"], strict=True):
        mean.copy_(before)
    average.updates = kept["updates"]


def seconds_spent(state: Path) -> float:
    """Return the training seconds in a saved state."""
    if not state.exists():
        return 0.0
    return float(torch.load(state, weights_only=True, map_location="cpu")["seconds"])
