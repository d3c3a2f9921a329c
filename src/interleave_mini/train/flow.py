"""Second stage: text encoder and transformer together, by flow matching, from text and on edits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from interleave_mini.train.examples import Example, sample_example
from interleave_mini.train.latents import LatentSpace
from interleave_mini.train.model_parts import SHIFT, GeneratorShape, text_layers
from interleave_mini.train.timed_schedule import Clock, Log, learning_rate
from interleave_mini.train.weight_average import Average
from interleave_mini.world.drawing import EMPTY, TorchPainter, scene_codes

if TYPE_CHECKING:
    import torch

CHANGE_WEIGHT = 3.0
SOURCE_NOISE = 0.12
"""Noise on the picture an edit starts from: in use it was drawn by the model itself."""
MOST_SKIPPED = 50
KEEP_EVERY = 120.0
"""Seconds between two states on disk."""
SOURCE_TIME = 10
"""Where the pipeline puts the first source on the time axis of positions; the second is as far again."""
MOST_SOURCES = 2
LOSS_NAMES = ("text", "edit", "history")
"""What the log calls the loss of batches with no source, with one and with two."""


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
    """Examples with equally many sources, which stand oldest first."""

    tokens: Any
    sources: tuple[Any, ...]
    after: Any


class Examples:
    """Batches without end, made by worker processes; every worker has its own seed."""

    def __init__(self, tokenizer: Any, shape: GeneratorShape, how: FlowTraining, seed: int) -> None:
        self.tokenizer, self.shape, self.how, self.seed = tokenizer, shape, how, seed

    def __iter__(self) -> Iterator[Batch]:
        import torch

        worker = torch.utils.data.get_worker_info()
        rng = Random(f"{self.seed}/{worker.id if worker else 0}")
        sizes = (self.how.text_batch, self.how.edit_batch, self.how.history_batch)
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
    """Token numbers, padded to the fixed length, as the pipeline makes them."""
    encoded = tokenizer(prompts, padding="max_length", truncation=True, max_length=shape.sequence)
    return np.asarray(encoded["input_ids"], dtype=np.int64)


class Flow:
    """The model in training: a transformer and a text encoder over a fixed latent space."""

    def __init__(
        self, shape: GeneratorShape, space: LatentSpace, text_encoder: Any, transformer: Any, pad: int
    ) -> None:
        import torch

        self.torch = torch
        self.shape, self.space, self.pad = shape, space, pad
        self.text_encoder, self.transformer = text_encoder, transformer
        self.device = next(transformer.parameters()).device
        side = shape.side // 16
        grid = torch.cartesian_prod(torch.arange(1), torch.arange(side), torch.arange(side), torch.arange(1))
        placed = [grid + torch.tensor([SOURCE_TIME * count, 0, 0, 0]) for count in range(MOST_SOURCES + 1)]
        words = torch.cartesian_prod(*(torch.arange(n) for n in (1, 1, 1, shape.sequence)))
        self.word_ids = words.to(self.device)
        self.picture_ids = [
            torch.cat(placed[: count + 1]).to(self.device) for count in range(MOST_SOURCES + 1)
        ]

    def words(self, tokens: torch.Tensor) -> torch.Tensor:
        """What the transformer is told."""
        states = self.text_encoder(
            input_ids=tokens,
            attention_mask=(tokens != self.pad).long(),
            output_hidden_states=True,
            use_cache=False,
        ).hidden_states
        return self.torch.cat([states[layer] for layer in text_layers(self.shape)], dim=-1)

    def velocity(
        self, noisy: torch.Tensor, time: torch.Tensor, words: torch.Tensor, sources: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        count, length = noisy.shape[:2]
        pictures = self.torch.cat([noisy, *sources], dim=1) if sources else noisy
        guessed = self.transformer(
            hidden_states=pictures,
            timestep=time,
            guidance=None,
            encoder_hidden_states=words,
            txt_ids=self.word_ids.expand(count, -1, -1),
            img_ids=self.picture_ids[len(sources)].expand(count, -1, -1),
            return_dict=False,
        )[0]
        return guessed[:, :length]

    def loss(self, batch: Batch, painter: TorchPainter) -> torch.Tensor:
        torch = self.torch
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
            sources = [self._as_if_drawn(start) for start in starts] if batch.sources else ()
        guessed = self.velocity(noisy, time, self.words(batch.tokens), sources)
        return (weight * (guessed.float() - (noise - target)) ** 2).mean()

    def _as_if_drawn(self, picture: torch.Tensor) -> torch.Tensor:
        amount = SOURCE_NOISE * self.torch.rand(len(picture), 1, 1, device=self.device)
        return picture + amount * self.torch.randn_like(picture)

    def draw(
        self, tokens: torch.Tensor, sources: Sequence[torch.Tensor], seed: int, steps: int | None = None
    ) -> torch.Tensor:
        """Pictures as bytes, in as many steps as in use: what the pipeline does, for a whole batch."""
        torch = self.torch
        steps = steps or self.shape.steps
        even = torch.linspace(1, 1 / steps, steps)
        times = [*(SHIFT * even / (1 + (SHIFT - 1) * even)).tolist(), 0.0]
        random = torch.Generator(self.device).manual_seed(seed)
        with torch.no_grad():
            words = self.words(tokens)
            starts = [self.space.tokens(pixels.to(self.device)) for pixels in sources]
            size = (len(tokens), (self.shape.side // 16) ** 2, 4 * self.shape.latent_channels)
            picture = torch.randn(size, generator=random, device=self.device)
            for now, then in pairwise(times):
                time = torch.full((len(tokens),), now, device=self.device)
                picture = picture + (then - now) * self.velocity(picture, time, words, starts).float()
            return self.space.pixels(picture)


def _emptied(codes: torch.Tensor) -> torch.Tensor:
    empty = codes.clone()
    empty[:, 1:] = EMPTY
    return empty


def train_flow(
    flow: Flow,
    examples: Examples,
    painter: TorchPainter,
    clock: Clock,
    log: Log,
    how: FlowTraining,
    state: Path,
    glance: Callable[[], dict[str, float]] = dict,
) -> Average:
    """Train until the clock says stop, and keep everything needed to go on in `state`.

    Now and then the averaged weights are put in place for a `glance`, whose findings are logged.
    """
    import torch

    on_gpu = flow.device.type == "cuda"
    modules = (flow.text_encoder, flow.transformer)
    for module in modules:
        module.train()
    parameters = [parameter for module in modules for parameter in module.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=how.rate, betas=(0.9, 0.95), weight_decay=0.01, fused=on_gpu)
    average = Average(*modules)
    if state.exists():
        _restore(state, modules, optimizer, average)
    if on_gpu:
        flow.transformer.compile_repeated_blocks(fullgraph=True, dynamic=False)
    loader = iter(torch.utils.data.DataLoader(_stream(examples), batch_size=None, num_workers=how.workers))
    losses, kept = _Losses(log), clock.now
    for step in clock.steps():
        batch = _on(next(loader), flow.device)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(how.rate, clock.share)
        with torch.autocast(flow.device.type, torch.bfloat16, enabled=on_gpu):
            loss = flow.loss(batch, painter)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        if torch.isfinite(norm):
            optimizer.step()
            average.update()
            losses.add(batch, loss, norm)
        else:  # one bad batch would spoil every weight for good
            losses.skip(step, loss, norm)
        optimizer.zero_grad(set_to_none=True)
        if step % how.log_every == 0:
            losses.write(step, clock.spent)
        if clock.now - kept > KEEP_EVERY:
            _keep(state, modules, optimizer, average, clock)
            with average.in_place():
                log.write(stage="glance", step=step, seconds=clock.spent, **glance())
            kept = clock.now
    _keep(state, modules, optimizer, average, clock)
    return average


class _Losses:
    """What was measured since the last line of the log, by the number of sources."""

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
        if self.skipped > MOST_SKIPPED:
            raise RuntimeError(f"{self.skipped} batches without a finite gradient: the training has diverged")

    def write(self, step: int, seconds: float) -> None:
        means = {name: sum(some).item() / len(some) for name, some in self.seen.items() if some}
        highest = max((norm.item() for norm in self.norms), default=0.0)
        self.log.write(stage="flow", step=step, seconds=seconds, **means, highest_norm=highest)
        self._start()


def _stream(examples: Examples) -> Any:
    import torch

    class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Batch]:
            return iter(examples)

    return Stream()


def _on(batch: Batch, device: Any) -> Batch:
    import torch

    tokens, after, *sources = (
        torch.as_tensor(each).long().to(device, non_blocking=True)
        for each in (batch.tokens, batch.after, *batch.sources)
    )
    return Batch(tokens, tuple(sources), after)


def _keep(state: Path, modules: tuple[Any, ...], optimizer: Any, average: Average, clock: Clock) -> None:
    import torch

    kept = {
        "modules": [module.state_dict() for module in modules],
        "optimizer": optimizer.state_dict(),
        "average": average.mean,
        "updates": average.updates,
        "seconds": clock.spent,
    }
    part = state.with_suffix(".part")
    torch.save(kept, part)
    part.replace(state)


def _restore(state: Path, modules: tuple[Any, ...], optimizer: Any, average: Average) -> None:
    import torch

    kept = torch.load(state, weights_only=True, map_location=average.mean[0].device)
    for module, weights in zip(modules, kept["modules"], strict=True):
        module.load_state_dict(weights)
    optimizer.load_state_dict(kept["optimizer"])
    for mean, before in zip(average.mean, kept["average"], strict=True):
        mean.copy_(before)
    average.updates = kept["updates"]


def seconds_spent(state: Path) -> float:
    """The time already spent on a training that was kept here."""
    import torch

    if not state.exists():
        return 0.0
    return float(torch.load(state, weights_only=True, map_location="cpu")["seconds"])
