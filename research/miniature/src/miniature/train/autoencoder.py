"""First stage of the generator: the VAE, trained on random scenes, and its latent space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from interleave_mini.bench.splits import is_held_out_pair
from interleave_mini.reader import Reader
from interleave_mini.reader.scores import shows
from interleave_mini.world.drawing import (
    ATLAS_SIZE,
    RELATIONS,
    THINGS,
    TorchPainter,
    scene_of,
)
from interleave_mini.world.scene import CELLS, GRID, Size
from interleave_mini.world.wider import ALL_BACKGROUNDS
from miniature.train.training_loop import Log, TimedSchedule, WeightAverage, learning_rate

LATENT_NOISE = 0.06
"""Noise on latents in decoder training, in units of their spread, as the flow is never exact."""
LOADED_SHARE = 0.5
"""Share of the things that carry another."""
THING_WEIGHT = 4.0
OUTLINE_WEIGHT = 5.0
"""Weight for the fine lines of backgrounds, which are faint and would blur."""
EDGE_WEIGHT = 0.6
_PART = 16


@dataclass(frozen=True)
class VaeTraining:
    batch: int = 64
    rate: float = 1.2e-3
    log_every: int = 200
    measured_on: int = 768
    """Images from which the mean and variance of the latents are estimated."""


class RandomScenes:
    """Codes of random scenes without held-out pairs, sampled on the device."""

    def __init__(self, device: Any, seed: int = 0) -> None:
        self.device = torch.device(device)
        seen = {row: thing for row, thing in enumerate(THINGS, start=1) if not is_held_out_pair(thing)}
        self.rows = torch.tensor([*seen], device=self.device)
        small = [row for row, thing in seen.items() if thing.size is Size.SMALL]
        self.small = torch.tensor(small, device=self.device)
        large = {row: thing.noun for row, thing in seen.items() if thing.size is Size.LARGE}
        self.carriers = [
            torch.tensor(
                [row for row, noun in large.items() if relation.is_possible_with(noun)], device=self.device
            )
            for relation in RELATIONS
        ]
        self.random = torch.Generator(self.device).manual_seed(seed)

    def codes(self, count: int, *, filled: float = 0.5) -> torch.Tensor:
        shape = (count, CELLS)
        things = self.rows[self._below(len(self.rows), shape)]
        things = things * self._chance(shape, filled)
        loads = torch.zeros_like(things)
        for number, carriers in enumerate(self.carriers):
            chosen = self._chance(shape, filled * LOADED_SHARE / len(RELATIONS))
            things = torch.where(chosen, carriers[self._below(len(carriers), shape)], things)
            code = self.small[self._below(len(self.small), shape)] * len(RELATIONS) + number
            loads = torch.where(chosen, code, loads)
        hands = 1 + len(THINGS) + self._below(ATLAS_SIZE - 1 - len(THINGS), (count,))
        has_hand = self._chance((count,), 0.06)
        column = self._below(GRID, (count,))
        picked = torch.arange(count, device=self.device)[has_hand]
        things[picked, column[has_hand]] = hands[has_hand]
        loads[picked, column[has_hand]] = 0
        return torch.cat([self._below(len(ALL_BACKGROUNDS), (count, 1)), things, loads], dim=1)

    def _chance(self, shape: tuple[int, ...], share: float) -> torch.Tensor:
        return torch.rand(shape, generator=self.random, device=self.device) < share

    def _below(self, limit: int, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.randint(0, limit, shape, generator=self.random, device=self.device)


def train_vae(
    vae: Any, painter: TorchPainter, schedule: TimedSchedule, log: Log, settings: VaeTraining
) -> None:
    """Train until the schedule ends; leave the averaged weights with the normalisation set."""
    device = painter.device
    on_gpu = device.type == "cuda"
    vae.to(device).train()
    if on_gpu:
        vae.to(memory_format=torch.channels_last)
    scenes = RandomScenes(device)
    optimizer = torch.optim.AdamW(
        vae.parameters(), lr=settings.rate, betas=(0.9, 0.98), weight_decay=0.0, fused=on_gpu
    )
    average = WeightAverage(vae)
    for step in schedule.steps():
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(settings.rate, schedule.progress)
        codes = scenes.codes(settings.batch)
        pixels = painter.paint(codes)
        weight = _weights(pixels, painter.backgrounds[codes[:, 0]])
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
            loss = _round_trip(vae, to_model_range(pixels), weight)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(vae.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        average.update()
        if step % settings.log_every == 0:
            log.write(stage="vae", step=step, seconds=schedule.spent, loss=loss.item())
    average.swap()
    vae.eval()
    set_normalisation(vae, painter, scenes, settings.measured_on)


def _round_trip(vae: Any, images: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    latents = vae.encode(images).latent_dist.mode()
    spread = latents.detach().float().std(dim=(0, 2, 3), keepdim=True)
    noisy = latents + LATENT_NOISE * spread * torch.randn_like(latents)
    drawn = vae.decode(noisy).sample.float()
    error = (drawn - images).abs()
    edges = _edges(drawn - images, weight)
    return (weight * (error + error**2)).mean() + EDGE_WEIGHT * edges + 1e-4 * latents.float().pow(2).mean()


def _edges(difference: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the L1 error of the image gradients, which keeps outlines sharp and in place."""
    down = weight[:, :, 1:] * (difference[:, :, 1:] - difference[:, :, :-1]).abs()
    across = weight[:, :, :, 1:] * (difference[:, :, :, 1:] - difference[:, :, :, :-1]).abs()
    return down.mean() + across.mean()


def _weights(pixels: torch.Tensor, empty: torch.Tensor) -> torch.Tensor:
    """Return pixel weights with mean one: things and outlines count more than easy flat ground."""
    thing = ((pixels.int() - empty.int()).abs().amax(dim=3) > 6).float()
    weight = 1 + THING_WEIGHT * thing + OUTLINE_WEIGHT * (1 - thing) * _outlines(empty)
    return (weight / weight.mean()).unsqueeze(1)


def _outlines(pixels: torch.Tensor) -> torch.Tensor:
    """Return 1 within a pixel of a jump in brightness, 0 on flat ground and gentle slopes."""
    brightness = pixels.float().mean(dim=3).unsqueeze(1)
    highest = torch.nn.functional.max_pool2d(brightness, 3, stride=1, padding=1)
    lowest = -torch.nn.functional.max_pool2d(-brightness, 3, stride=1, padding=1)
    return (highest - lowest > 4).float().squeeze(1)


def set_normalisation(vae: Any, painter: TorchPainter, scenes: RandomScenes, images: int) -> None:
    """Set mean and variance of every channel, which the pipeline reads from the VAE's batch norm."""
    with torch.no_grad():
        shown = (
            to_model_range(painter.paint(scenes.codes(_PART, filled=0.35))) for _ in range(0, images, _PART)
        )
        patches = torch.cat([patchify(vae.encode(each).latent_dist.mode()) for each in shown]).float()
        vae.bn.running_mean.copy_(patches.mean(dim=(0, 2, 3)))
        vae.bn.running_var.copy_(patches.var(dim=(0, 2, 3)))


def readable_share(vae: Any, painter: TorchPainter, reader: Reader, count: int = 1000) -> float:
    """Return the share of scenes that the reader reads correctly after a round trip through the VAE."""
    scenes, right = RandomScenes(painter.device, seed=1), 0
    for start in range(0, count, 50):
        codes = scenes.codes(min(50, count - start), filled=0.4)
        with torch.no_grad():
            images = to_model_range(painter.paint(codes)).to(vae.dtype)
            drawn = to_pixels(vae.decode(vae.encode(images).latent_dist.mode()).sample)
        readings = reader.read_many(drawn)
        right += sum(
            shows(reading, scene_of(row)) for reading, row in zip(readings, codes.cpu().numpy(), strict=True)
        )
    return right / count


# Pixels ⇄ tokens


def to_model_range(pixels: torch.Tensor) -> torch.Tensor:
    """Convert n×h×w×3 bytes to n×3×h×w between −1 and 1."""
    return pixels.permute(0, 3, 1, 2).float().div_(127.5).sub_(1)


def to_pixels(images: torch.Tensor) -> torch.Tensor:
    """Convert back to bytes, rounded as in the pipeline."""
    scaled = images.float().clamp(-1, 1).add(1).mul(127.5).round()
    return scaled.to(torch.uint8).permute(0, 2, 3, 1)


def patchify(latents: torch.Tensor) -> torch.Tensor:
    """Convert n×c×h×w to n×4c×h/2×w/2: squares of four become channels, in the pipeline's order."""
    count, channels, height, width = latents.shape
    squares = latents.view(count, channels, height // 2, 2, width // 2, 2)
    return squares.permute(0, 1, 3, 5, 2, 4).reshape(count, channels * 4, height // 2, width // 2)


def unpatchify(patches: torch.Tensor) -> torch.Tensor:
    count, channels, height, width = patches.shape
    squares = patches.reshape(count, channels // 4, 2, 2, height, width)
    return squares.permute(0, 1, 4, 2, 5, 3).reshape(count, channels // 4, height * 2, width * 2)


class LatentSpace:
    """A trained VAE with its normalisation: pixels ⇄ n × tokens × channels."""

    def __init__(self, vae: Any, encode: Any = None) -> None:
        self.vae = vae
        self._encode = encode or (lambda images: vae.encode(images).latent_dist.mode())
        self.mean = vae.bn.running_mean.view(1, -1, 1, 1)
        self.std = torch.sqrt(vae.bn.running_var.view(1, -1, 1, 1) + vae.config.batch_norm_eps)

    def tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        """Encode bytes to tokens."""
        patches = patchify(self._encode(to_model_range(pixels)).float())
        return ((patches - self.mean) / self.std).flatten(2).transpose(1, 2)

    def pixels(self, tokens: torch.Tensor) -> torch.Tensor:
        """Decode tokens to bytes."""
        count, length, channels = tokens.shape
        side = int(length**0.5)
        patches = tokens.transpose(1, 2).reshape(count, channels, side, side).float() * self.std + self.mean
        return to_pixels(self.vae.decode(unpatchify(patches).to(self.vae.dtype)).sample)
