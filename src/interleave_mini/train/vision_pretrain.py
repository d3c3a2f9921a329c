"""An agent that can see: a fresh model learns to look at the world's pictures, before it has any job.

Large agents start from models that have seen much; the miniature's would start from noise, and a few ten
thousand rows of a job teach a small eye little. Pictures are painted on the device, never twice the same, and
some of them pass through the generator's autoencoder, whose hand the agents will look at in use. It answers
questions about them, and its eye learns to name what it looks at.

OUT/model      the model, to be trained for a job        OUT/log.jsonl   losses and times, and an examination
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from interleave.backends.local.processors import load_processor
from interleave.backends.local.silence import quiet
from interleave.backends.qwen3_vl.batched_vision import batch_vision
from interleave.backends.qwen3_vl.uint8_pixels import use_uint8_pixels
from interleave.backends.qwen3_vl.unmasked_attention import unmasked_attention
from interleave_mini.oracle import ACCEPTED
from interleave_mini.train.agents import refuse_no_model
from interleave_mini.train.aux_head import Naming
from interleave_mini.train.latents import LatentSpace
from interleave_mini.train.timed_schedule import Clock, Log, learning_rate
from interleave_mini.train.vision_examples import EXERCISES, Exercise, sample_exercise
from interleave_mini.world.drawing import TorchPainter, scene_codes
from interleave_mini.world.scene import Scene

if TYPE_CHECKING:
    import torch

IGNORED = -100
PAD_TO = 32
THROUGH_THE_AUTOENCODER = 0.08
"""A share only: a picture there and back costs as much as two exercises."""
LATENT_NOISE = 0.1
CLIP = 1.0
JUDGING = ("check", "judge")
"""Exercises whose first word accepts or refuses."""


@dataclass(frozen=True)
class SightTraining:
    """How it learns."""

    exercises: tuple[str, ...] = EXERCISES
    batch: int = 256
    rate: float = 1.5e-3
    weight_decay: float = 0.05
    workers: int = 0
    log_every: int = 100
    naming: float = 1.0
    """How much it counts what the eye can name, beside what is said."""
    examined: int = 2048
    """Exercises in the examination at the end."""


@dataclass(frozen=True)
class Sheet:
    """A batch of exercises of one kind, as numbers."""

    name: str
    ids: Any
    labels: Any
    is_picture: Any
    codes: Any
    """Pictures × ten, in the order in which they are asked about."""


class Sheets:
    """Batches without end, made by worker processes; every worker has its own seed."""

    def __init__(self, processor: Any, batch: int, seed: int, exercises: tuple[str, ...] = EXERCISES) -> None:
        self.tokenizer = processor.tokenizer
        self.template = processor.tokenizer.apply_chat_template
        self.place = int(processor.image_token_id)
        self.each = (256 // processor.image_processor.patch_size // processor.image_processor.merge_size) ** 2
        self.batch, self.seed, self.exercises = batch, seed, exercises

    def __iter__(self) -> Iterator[Sheet]:
        import torch

        worker = torch.utils.data.get_worker_info()
        rng = Random(f"sight/{self.seed}/{worker.id if worker else 0}")
        waiting: dict[str, list[Exercise]] = {name: [] for name in self.exercises}
        while True:
            exercise = sample_exercise(rng, self.exercises)
            some = waiting[exercise.name]
            some.append(exercise)
            if len(some) == self.batch:
                yield self.sheet(some)
                some.clear()

    def sheet(self, exercises: list[Exercise]) -> Sheet:
        questions, answers = self._texts(exercises)
        said = self.tokenizer([*questions, *answers], add_special_tokens=False)["input_ids"]
        asked = [self._with_places(ids) for ids in said[: len(exercises)]]
        rows = list(zip(asked, said[len(exercises) :], strict=True))
        width = -(-max(len(ask) + len(say) for ask, say in rows) // PAD_TO) * PAD_TO
        ids = np.full((len(rows), width), self.tokenizer.pad_token_id, dtype=np.int64)
        labels = np.full((len(rows), width), IGNORED, dtype=np.int64)
        for row, (ask, say) in enumerate(rows):
            ids[row, : len(ask) + len(say)] = [*ask, *say]
            labels[row, len(ask) : len(ask) + len(say)] = say
        codes = scene_codes([scene for each in exercises for scene in each.pictures])
        return Sheet(exercises[0].name, ids, labels, (ids == self.place).astype(np.int64), codes)

    def _texts(self, exercises: list[Exercise]) -> tuple[list[str], list[str]]:
        """Questions and answers as the chat template writes them: what a job will look like."""
        conversations = [
            [{"role": "user", "content": [_as_content(part) for part in each.question]}] for each in exercises
        ]
        questions = self.template(conversations, tokenize=False, add_generation_prompt=True)
        return questions, [f"{each.answer}{self.tokenizer.eos_token}" for each in exercises]

    def _with_places(self, ids: list[int]) -> list[int]:
        return [token for each in ids for token in ([each] * self.each if each == self.place else [each])]


def _as_content(part: Scene | str) -> dict[str, str]:
    return {"type": "text", "text": part} if isinstance(part, str) else {"type": "image"}


class Seer:
    """The model in training, with what paints its pictures."""

    def __init__(self, model: Any, painter: TorchPainter, space: LatentSpace | None, side: int) -> None:
        import torch

        self.torch = torch
        self.model, self.painter, self.space = model, painter, space
        self.grid = torch.tensor([[1, side, side]], device=painter.device)

    def answers(self, sheet: Sheet) -> tuple[torch.Tensor, torch.Tensor]:
        """What it would say at every place of an answer, and what is said there."""
        pictures = self._painted(sheet.codes)
        hidden = self.model.model(
            input_ids=sheet.ids,
            attention_mask=self.torch.ones_like(sheet.ids),
            mm_token_type_ids=sheet.is_picture,
            pixel_values=pictures.reshape(len(pictures) * int(self.grid[0, 1:].prod()), -1),
            image_grid_thw=self.grid.expand(len(pictures), 3),
            use_cache=False,
        ).last_hidden_state
        wanted = sheet.labels[:, 1:]
        spoken = wanted != IGNORED
        return self.model.lm_head(hidden[:, :-1][spoken]), wanted[spoken]

    def loss(self, sheet: Sheet) -> torch.Tensor:
        with self._half_precision():
            logits, wanted = self.answers(sheet)
        return self.torch.nn.functional.cross_entropy(logits.float(), wanted)

    def marks(self, sheet: Sheet, accepting: int) -> tuple[torch.Tensor, torch.Tensor]:
        """For each exercise, whether every token of its answer would be right, and whether the first one
        accepts or refuses as it should."""
        with self._half_precision():
            logits, wanted = self.answers(sheet)
        said = logits.argmax(dim=-1)
        rows = (sheet.labels[:, 1:] != IGNORED).nonzero()[:, 0]
        wrong = self.torch.zeros(len(sheet.ids), device=said.device)
        wrong.index_add_(0, rows, (said != wanted).float())
        first = self.torch.searchsorted(rows, self.torch.arange(len(sheet.ids), device=said.device))
        return wrong == 0, (said[first] == accepting) == (wanted[first] == accepting)

    def _half_precision(self) -> Any:
        """For one step, never for many: within it, weights are turned to bf16 once and then remembered."""
        kind = self.painter.device.type
        return self.torch.autocast(kind, self.torch.bfloat16, enabled=kind == "cuda")

    def _painted(self, codes: torch.Tensor) -> torch.Tensor:
        """Pictures as the world paints them, or as the generator's hand would."""
        torch = self.torch
        with torch.no_grad():
            pictures = self.painter.paint(codes)
            some = int(THROUGH_THE_AUTOENCODER * len(pictures)) if self.space else 0
            if self.space and some:
                chosen = torch.randperm(len(pictures), device=pictures.device)[:some]
                tokens = self.space.tokens(pictures[chosen])
                amount = LATENT_NOISE * torch.rand(some, 1, 1, device=tokens.device)
                pictures[chosen] = self.space.pixels(tokens + amount * torch.randn_like(tokens))
        return pictures.contiguous()


def train_sight(
    fresh: Path,
    out: Path,
    minutes: float,
    *,
    how: SightTraining = SightTraining(),
    generator: Path | None = None,
    device: str | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """Train a fresh model until the time is over, save it, and return what the examination found."""
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    refuse_no_model(fresh)
    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    with quiet():
        model = Qwen3VLForConditionalGeneration.from_pretrained(fresh, dtype=torch.float32).to(device)
        processor = load_processor(fresh, "qwen3_vl")
    batch_vision(model)
    if not use_uint8_pixels(model, processor):
        raise AssertionError("the agents' own processor returns uint8 pixels")
    log = Log(out / "log.jsonl")
    side = 256 // processor.image_processor.patch_size
    seer = Seer(model, TorchPainter(device), _latent_space(generator, device), side)
    loader = _loader(Sheets(processor, how.batch, seed, how.exercises), how.workers)
    clock = Clock(minutes)
    with unmasked_attention(model):
        _learn(seer, loader, clock, log, how, device)
        model.eval()
        accepting = processor.tokenizer(ACCEPTED, add_special_tokens=False)["input_ids"][0]
        found = _examine(seer, loader, how, accepting, device)
    log.write(stage="sight", examination=True, seconds=clock.spent, **found)
    with quiet():
        model.save_pretrained(out / "model")
        load_processor(fresh, "qwen3_vl").save_pretrained(out / "model")
    return found


def _learn(
    seer: Seer, loader: Iterator[Sheet], clock: Clock, log: Log, how: SightTraining, device: str
) -> None:
    import torch

    naming = Naming(seer.model.model.visual, device)
    parameters = [*seer.model.parameters(), *naming.head.parameters()]
    optimizer = torch.optim.AdamW(
        parameters,
        lr=how.rate,
        betas=(0.9, 0.98),
        weight_decay=how.weight_decay,
        fused=device.startswith("cuda"),
    )
    losses: list[torch.Tensor] = []
    seer.model.train()
    for step in clock.steps():
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(how.rate, clock.share)
        sheet = on_device(next(loader), device)
        said, named = seer.loss(sheet), naming.loss(sheet.codes)
        (said + how.naming * named).backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        if torch.isfinite(norm):
            optimizer.step()
            losses.append(torch.stack([said, named]).detach())
        optimizer.zero_grad(set_to_none=True)
        if step % how.log_every == 0 and losses:
            saying, naming_loss = torch.stack(losses).mean(dim=0).tolist()
            log.write(stage="sight", step=step, seconds=clock.spent, loss=saying, naming=naming_loss)
            losses.clear()
    naming.close()


def _examine(
    seer: Seer, loader: Iterator[Sheet], how: SightTraining, accepting: int, device: str
) -> dict[str, float]:
    """The share of exercises answered without a wrong word, and that of verdicts that are right."""
    import torch

    right: dict[str, list[torch.Tensor]] = {}
    seen = 0
    while seen < how.examined or not right.keys() >= set(how.exercises):
        sheet = on_device(next(loader), device)
        with torch.no_grad():
            words, verdicts = seer.marks(sheet, accepting)
        right.setdefault(sheet.name, []).append(words)
        if sheet.name in JUDGING:
            right.setdefault(f"{sheet.name} verdicts", []).append(verdicts)
        seen += len(sheet.ids)
    return {name: float(torch.cat(some).float().mean()) for name, some in sorted(right.items())}


def _loader(sheets: Sheets, workers: int) -> Iterator[Sheet]:
    import torch

    class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Sheet]:
            return iter(sheets)

    return iter(torch.utils.data.DataLoader(Stream(), batch_size=None, num_workers=workers))


def on_device(sheet: Sheet, device: str) -> Sheet:
    """The same numbers as tensors there."""
    import torch

    tensors = (sheet.ids, sheet.labels, sheet.is_picture, sheet.codes)
    return Sheet(
        sheet.name, *(torch.as_tensor(each).long().to(device, non_blocking=True) for each in tensors)
    )


def _latent_space(generator: Path | None, device: str) -> LatentSpace | None:
    """The autoencoder of a generator's folder."""
    if generator is None:
        return None
    from diffusers import AutoencoderKLFlux2

    with quiet():
        vae = AutoencoderKLFlux2.from_pretrained(generator, subfolder="vae").to(device).eval()
    vae.requires_grad_(False)
    return LatentSpace(vae)
