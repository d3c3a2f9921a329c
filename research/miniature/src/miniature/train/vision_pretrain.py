"""Vision pretraining: an untrained agent learns to read images of the world before it learns its task.

Large agents start from pretrained models. These start from random weights, and the few ten thousand rows of a
task are too few to train a vision tower. Images are painted on the device and never repeat. Some pass through
the generator's autoencoder, because in use the agents see the generator's images. The model answers questions
about them, and an auxiliary head makes every vision token name the content of its cell.

OUT/model      the model, ready for its task        OUT/log.jsonl   losses, times and the final evaluation
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from random import Random
from threading import Thread
from typing import Any

import numpy as np
import torch

from interleave.local.processors import load_processor
from interleave.local.qwen3_vl.batched_vision import batch_vision
from interleave.local.qwen3_vl.uint8_pixels import use_uint8_pixels
from interleave.local.qwen3_vl.unmasked_attention import unmasked_attention
from interleave.local.silence import quiet
from interleave_mini.reader.scores import ACCEPTED
from interleave_mini.world.backgrounds import SIDE
from interleave_mini.world.drawing import (
    ATLAS_SIZE,
    HAND_CODES,
    LOAD_CODES,
    MARGIN,
    RELATIONS,
    SCENE_CODES,
    THINGS,
    Codes,
    TorchPainter,
)
from interleave_mini.world.motion import Shot, shot_codes
from interleave_mini.world.scene import GRID, Size
from interleave_mini.world.sprites import CELL
from interleave_mini.world.wider import ALL_BACKGROUNDS, ALL_COLOURS, ALL_NOUNS
from miniature.train.agent_model import check_model_folder
from miniature.train.autoencoder import LatentSpace
from miniature.train.drawn_images import DRAWN, make_drawn_images
from miniature.train.optimizers import MuonAndAdamW
from miniature.train.training_loop import Log, TimedSchedule, learning_rate
from miniature.train.vision_examples import EXERCISES, Exercise, Shown, sample_exercise

IGNORED = -100
WHITE = 255
PAD_TO = 32
AUTOENCODED_SHARE = 0.02
"""Share of images that pass through the autoencoder; one round trip costs as much as ten exercises."""
LATENT_NOISE = 0.1
CLIP = 1.0
SORTED_TOGETHER = 4
"""Batches sorted by length together, to reduce padding."""
VERDICT_TOKENS = {"check": 0, "verdict": 1, "audit": 1, "audit-plan": 1, "done": 1, DRAWN: 1}
"""Exercises with a verdict, and the index of the answer token that accepts or rejects."""
DRAWN_SHARE = 0.15
"""Share of batches about images drawn by the generator, if there are any."""
DRAWN_EVAL = 2
"""Batches about such images that are held out from training."""


@dataclass(frozen=True)
class VisionPretraining:
    """Settings of vision pretraining."""

    exercises: tuple[str, ...] = EXERCISES
    batch_size: int = 256
    rate: float = 1.5e-3
    weight_decay: float = 0.05
    workers: int = 0
    log_every: int = 100
    save_every: int = 1000
    """Steps between saves of the model."""
    replays: int = 3
    """Maximum repetitions of an earlier batch while the next new one is made."""
    dropout: float = 0.0
    """Share of a layer's outputs that are left out, against learning requests by heart."""
    aux_weight: float = 1.0
    """Weight of the auxiliary loss relative to that of the answers."""
    eval_examples: int = 2048
    """Exercises in the final evaluation; 0 skips it."""
    drawings: int = 0
    """Images that the generator draws first, for exercises about its failures."""


@dataclass(frozen=True)
class Batch:
    """A batch of exercises of one kind, tokenized."""

    name: str
    ids: Any
    labels: Any
    is_image: Any
    positions: Any
    """Position of every token in time, height and width, 3 × rows × tokens."""
    codes: Any
    """Codes of shots, one row per image, in the order of the questions; a white canvas has a negative first
    value."""
    places: Any = ()
    """Indices of images drawn by the generator, instead of codes."""


class Batches(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """Endless stream of batches from worker processes, each with its own seed."""

    def __init__(
        self, processor: Any, batch_size: int, seed: int, exercises: tuple[str, ...] = EXERCISES
    ) -> None:
        self.tokenizer = processor.tokenizer
        self.template = processor.tokenizer.apply_chat_template
        self.image_token = int(processor.image_token_id)
        self.tokens_per_image = (
            256 // processor.image_processor.patch_size // processor.image_processor.merge_size
        ) ** 2
        self.tokens_across = math.isqrt(self.tokens_per_image)
        self.batch_size, self.seed, self.exercises = batch_size, seed, exercises

    def __iter__(self) -> Iterator[Batch]:
        worker = torch.utils.data.get_worker_info()
        rng = Random(f"sight/{self.seed}/{worker.id if worker else 0}")
        waiting: dict[str, list[Exercise]] = {name: [] for name in self.exercises}
        while True:
            exercise = sample_exercise(rng, self.exercises)
            some = waiting[exercise.name]
            some.append(exercise)
            if len(some) == SORTED_TOGETHER * self.batch_size:
                yield from self._batches(some, rng)
                some.clear()

    def in_batches(self, exercises: list[Exercise], rng: Random) -> Iterator[Batch]:
        """Yield batches of these exercises, all of one kind; an incomplete last batch is dropped."""
        together = SORTED_TOGETHER * self.batch_size
        for start in range(0, len(exercises) // self.batch_size * self.batch_size, together):
            whole = exercises[start : start + together]
            yield from self._batches(whole[: len(whole) // self.batch_size * self.batch_size], rng)

    def _batches(self, exercises: list[Exercise], rng: Random) -> Iterator[Batch]:
        """Yield batches of exercises of similar length, in random order."""
        exercises.sort(key=lambda each: (len(each.images), len(each.answer)))
        size = self.batch_size
        some = [exercises[start : start + size] for start in range(0, len(exercises), size)]
        rng.shuffle(some)
        yield from map(self.batch, some)

    def batch(self, exercises: list[Exercise]) -> Batch:
        questions, answers = self._texts(exercises)
        said = self.tokenizer([*questions, *answers], add_special_tokens=False)["input_ids"]
        asked = [self._with_image_tokens(ids) for ids in said[: len(exercises)]]
        rows = list(zip(asked, said[len(exercises) :], strict=True))
        width = -(-max(len(ask) + len(say) for ask, say in rows) // PAD_TO) * PAD_TO
        ids = np.full((len(rows), width), self.tokenizer.pad_token_id, dtype=np.int64)
        labels = np.full((len(rows), width), IGNORED, dtype=np.int64)
        for row, (ask, say) in enumerate(rows):
            ids[row, : len(ask) + len(say)] = [*ask, *say]
            labels[row, len(ask) : len(ask) + len(say)] = say
        images = [image for each in exercises for image in each.images]
        places = np.array([image.place for image in images if isinstance(image, Shown)], np.int64)
        codes = image_codes([image for image in images if not isinstance(image, Shown)])
        is_image = ids == self.image_token
        positions = image_positions(is_image, self.tokens_across)
        return Batch(exercises[0].name, ids, labels, is_image.astype(np.int64), positions, codes, places)

    def _texts(self, exercises: list[Exercise]) -> tuple[list[str], list[str]]:
        """Return questions and answers in the chat template of the later task."""
        conversations = [_as_conversation(each) for each in exercises]
        questions = self.template(conversations, tokenize=False, add_generation_prompt=True)
        return questions, [f"{each.answer}{self.tokenizer.eos_token}" for each in exercises]

    def _with_image_tokens(self, ids: list[int]) -> list[int]:
        return [
            token
            for each in ids
            for token in ([each] * self.tokens_per_image if each == self.image_token else [each])
        ]


def _as_conversation(exercise: Exercise) -> list[dict[str, Any]]:
    asked = [{"role": "user", "content": [_as_content(part) for part in exercise.question]}]
    if not exercise.complaint:
        return asked
    first = {"role": "assistant", "content": exercise.first_answer}
    return [*asked, first, {"role": "user", "content": f"Again: {exercise.complaint}"}]


def _as_content(part: Shot | Shown | str | None) -> dict[str, str]:
    return {"type": "text", "text": part} if isinstance(part, str) else {"type": "image"}


def image_codes(shots: Sequence[Shot | None]) -> Codes:
    """Return the codes of shots; `None` is a white canvas."""
    codes = np.zeros((len(shots), SCENE_CODES + HAND_CODES), np.int16)
    codes[:, 0] = IGNORED
    painted = [place for place, shot in enumerate(shots) if shot is not None]
    if painted:
        codes[painted] = shot_codes([shot for shot in shots if shot is not None])
    return codes


def image_positions(is_image: np.ndarray[Any, Any], across: int) -> np.ndarray[Any, Any]:
    """Return the positions that the model would compute for these tokens: 3 × rows × tokens.

    The model computes them row by row on the device, which takes several times as long as the step itself.
    """
    rows, width = is_image.shape
    positions = np.broadcast_to(np.arange(width), (3, rows, width)).copy()
    lines, columns = np.divmod(np.arange(across * across), across)
    for row in np.flatnonzero(is_image.any(axis=1)):
        edges = np.flatnonzero(np.diff(is_image[row], prepend=False) & is_image[row])
        for start in edges:
            end = start + across * across
            first = positions[0, row, start]
            positions[:, row, start:end] = np.stack([np.zeros_like(lines), lines, columns]) + first
            positions[:, row, end:] -= across * across - across
    return positions


class VisionPretrainer:
    """The model in training and the painter of its images."""

    def __init__(
        self, model: Any, painter: TorchPainter, space: LatentSpace | None, side: int, drawn: Any = None
    ) -> None:
        self.model, self.painter, self.space, self.drawn = model, painter, space, drawn
        self.grid = torch.tensor([[1, side, side]], device=painter.device)

    def answers(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logits at every answer token, and the correct tokens."""
        hidden = self.model.model(
            input_ids=batch.ids,
            attention_mask=torch.ones_like(batch.ids),
            mm_token_type_ids=batch.is_image,
            position_ids=batch.positions,
            use_cache=False,
            **self._pixels(batch),
        ).last_hidden_state
        wanted = batch.labels[:, 1:]
        spoken = wanted != IGNORED
        return self.model.lm_head(hidden[:, :-1][spoken]), wanted[spoken]

    def _pixels(self, batch: Batch) -> dict[str, torch.Tensor]:
        if len(batch.places):
            images = self.drawn[batch.places]
        elif len(batch.codes):
            images = self._painted(batch.codes)
        else:  # requests without an image
            return {}
        return {
            "pixel_values": images.reshape(len(images) * int(self.grid[0, 1:].prod()), -1),
            "image_grid_thw": self.grid.expand(len(images), 3),
        }

    def loss(self, batch: Batch) -> torch.Tensor:
        with self._autocast():
            logits, wanted = self.answers(batch)
        return torch.nn.functional.cross_entropy(logits.float(), wanted)

    def correct(self, batch: Batch, accepting: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return, for each exercise, whether every answer token is correct, and whether the accepting or
        rejecting token is."""
        with self._autocast():
            logits, wanted = self.answers(batch)
        said = logits.argmax(dim=-1)
        rows = (batch.labels[:, 1:] != IGNORED).nonzero()[:, 0]
        wrong = torch.zeros(len(batch.ids), device=said.device)
        wrong.index_add_(0, rows, (said != wanted).float())
        first = torch.searchsorted(rows, torch.arange(len(batch.ids), device=said.device))
        first += VERDICT_TOKENS.get(batch.name, 0)
        return wrong == 0, (said[first] == accepting) == (wanted[first] == accepting)

    def _autocast(self) -> Any:
        """Return a context for one step: autocast caches bf16 weights, which must not outlive an update."""
        kind = self.painter.device.type
        return torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda")

    def _painted(self, codes: torch.Tensor) -> torch.Tensor:
        """Paint images; pass a share of them through the generator's autoencoder."""
        with torch.no_grad():
            images = self.painter.paint(codes.clamp(min=0))
            images[codes[:, 0] < 0] = WHITE
            some = int(AUTOENCODED_SHARE * len(images)) if self.space else 0
            if self.space and some:
                chosen = torch.randperm(len(images), device=images.device)[:some]
                tokens = self.space.tokens(images[chosen])
                amount = LATENT_NOISE * torch.rand(some, 1, 1, device=tokens.device)
                images[chosen] = self.space.pixels(tokens + amount * torch.randn_like(tokens))
        return images.contiguous()


GRIPPER_NOUN = 1 + len(ALL_NOUNS)
LABEL_SIZES = (2 + len(ALL_NOUNS), 1 + len(ALL_COLOURS), len(Size))
"""Numbers of labels of a row of the atlas: nouns with “empty” and “gripper”, colours with “none”, sizes."""
_OF_LOADS = (*LABEL_SIZES[:2], 1 + len(RELATIONS))
HEAD_SIZES = (*LABEL_SIZES, *_OF_LOADS, len(ALL_BACKGROUNDS))
"""Numbers of labels of a token: those of the thing in its cell, noun, colour and relation of what that
carries, and the background."""


def labels_of_rows() -> np.ndarray[Any, Any]:
    """Return noun, colour and size for every row of the atlas."""
    nouns, colours, sizes = (
        {each: place for place, each in enumerate(some)} for some in (ALL_NOUNS, ALL_COLOURS, Size)
    )
    labels = np.zeros((ATLAS_SIZE, len(LABEL_SIZES)), np.int64)
    labels[1 : 1 + len(THINGS)] = [
        (1 + nouns[thing.noun], 1 + colours[thing.colour], sizes[thing.size]) for thing in THINGS
    ]
    grippers = labels[1 + len(THINGS) :]
    grippers[:, 0] = GRIPPER_NOUN
    grippers[:, 1] = np.arange(len(grippers))  # the empty one comes first
    return labels


class AuxHead:
    """A linear head on a vision tower: each token predicts the content of its cell, all the background.

    One sentence for a whole image trains a vision tower slowly; a label for every token trains it much
    faster. There are too many things for a label each, so noun, colour, size and what is carried have their
    own. The head is discarded afterwards.
    """

    def __init__(self, tower: Any, device: Any) -> None:
        self.head = torch.nn.Linear(tower.config.out_hidden_size, sum(HEAD_SIZES)).to(device)
        across = SIDE // tower.config.patch_size // tower.config.spatial_merge_size
        self.cells = torch.tensor(cells_of_tokens(across), device=device)
        self.labels = torch.from_numpy(labels_of_rows()).to(device)
        self.seen: torch.Tensor | None = None
        self._hook = tower.register_forward_hook(self._record)

    def _record(self, _tower: Any, _inputs: Any, outputs: Any) -> None:
        self.seen = outputs.pooler_output

    def loss(self, codes: torch.Tensor) -> torch.Tensor:
        """Return the cross-entropy of things and backgrounds for the images of the last forward pass."""
        if self.seen is None:
            raise RuntimeError("the vision tower has not run")
        tokens, self.seen = self.seen.view(len(codes), len(self.cells), -1), None
        *of_cells, background = self.head(tokens.float()).split(HEAD_SIZES, dim=-1)
        cross_entropy = torch.nn.functional.cross_entropy
        things = sum(
            cross_entropy(said.flatten(0, 1), wanted.flatten())
            for said, wanted in zip(of_cells, self._labels(codes).unbind(dim=-1), strict=True)
        )
        backgrounds = cross_entropy(
            background.mean(dim=1), codes[:, 0], ignore_index=IGNORED, reduction="sum"
        )
        return things + backgrounds / len(codes)

    def _labels(self, codes: torch.Tensor) -> torch.Tensor:
        """Return the labels of every token but the background: images × tokens × kinds of labels."""
        loads = codes[:, LOAD_CODES + self.cells]
        relation = torch.where(loads > 0, 1 + loads % len(RELATIONS), 0)[..., None]
        of_load = self.labels[loads // len(RELATIONS)][..., :2]
        return torch.cat([self.labels[codes[:, 1 + self.cells]], of_load, relation], dim=-1)

    def close(self) -> None:
        """Remove the hook from the tower."""
        self._hook.remove()


def cells_of_tokens(across: int) -> list[int]:
    """Return the cell with the centre of each token, for an image of `across` tokens a side."""
    step = SIDE // across
    lines = [min(max((step // 2 + step * each - MARGIN) // CELL, 0), GRID - 1) for each in range(across)]
    return [row * GRID + column for row in lines for column in lines]


def pretrain_vision(
    fresh: Path,
    out: Path,
    minutes: float,
    *,
    settings: VisionPretraining = VisionPretraining(),
    generator: Path | None = None,
    device: str | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """Train a model for `minutes`, save it and return its evaluation."""
    from transformers import Qwen3VLForConditionalGeneration

    check_model_folder(fresh)
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
    schedule = TimedSchedule(minutes)
    trainer = VisionPretrainer(model, TorchPainter(device), _latent_space(generator, device), side)
    stream = Batches(processor, settings.batch_size, seed, settings.exercises)
    loader, unseen = _loader(stream, settings.workers), list[Batch]()
    if settings.drawings and generator is not None:
        made = make_drawn_images(generator, settings.drawings, device, seed=seed, workers=settings.workers)
        log.write(stage="drawings", seconds=schedule.spent, **made.counts)
        trainer.drawn = made.images
        of_drawn = list(stream.in_batches(made.exercises, Random(seed)))
        unseen, of_drawn = of_drawn[:DRAWN_EVAL], of_drawn[DRAWN_EVAL:]
        loader = _with_drawn(loader, of_drawn, Random(seed))
    batches = ReplayedBatches(loader, device, settings.replays)

    def save(model: Any) -> None:
        with quiet():
            model.save_pretrained(out / "model")
            load_processor(fresh, "qwen3_vl").save_pretrained(out / "model")

    if settings.dropout:
        _drop_outputs(model, settings.dropout)
    if device.startswith("cuda"):
        _compile_layers(model)
    with unmasked_attention(model):
        _train(trainer, batches, schedule, log, settings, device, save)
        save(model)  # the evaluation is slow
        if not settings.eval_examples:
            return {}
        model.eval()
        accepting = processor.tokenizer(ACCEPTED, add_special_tokens=False)["input_ids"][0]
        with torch.compiler.set_stance("force_eager"):  # recompiling would take longer than it saves
            found = _evaluate(trainer, batches, settings, accepting, unseen)
    log.write(stage="sight", examination=True, seconds=schedule.spent, **found)
    return found


def _drop_outputs(model: Any, share: float) -> None:
    """Leave out a share of what attention and feed-forward layers add to the text, while training."""

    def drop(module: Any, _inputs: Any, output: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(output, share, module.training)

    for layer in model.model.language_model.layers:
        layer.self_attn.o_proj.register_forward_hook(drop)
        layer.mlp.down_proj.register_forward_hook(drop)


def _compile_layers(model: Any) -> None:
    """Fuse the many small operations of each layer, which dominate the time of a small model."""
    for layer in (*model.model.language_model.layers, *model.model.visual.blocks):
        layer.compile(dynamic=True)


def _train(
    trainer: VisionPretrainer,
    batches: ReplayedBatches,
    schedule: TimedSchedule,
    log: Log,
    settings: VisionPretraining,
    device: str,
    save: Callable[[Any], None],
) -> None:
    aux_head = AuxHead(trainer.model.model.visual, device)
    parameters = [*trainer.model.parameters(), *aux_head.head.parameters()]
    optimizer = MuonAndAdamW(trainer.model, aux_head.head.parameters(), settings.rate, settings.weight_decay)
    losses: list[torch.Tensor] = []
    trainer.model.train()
    for step in schedule.steps():
        batch = next(batches)
        answer_loss = trainer.loss(batch)
        aux_loss = aux_head.loss(batch.codes) if len(batch.codes) else torch.zeros_like(answer_loss)
        (answer_loss + settings.aux_weight * aux_loss).backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        if torch.isfinite(norm):
            optimizer.step(learning_rate(settings.rate, schedule.progress))
            losses.append(torch.stack([answer_loss, aux_loss]).detach())
        optimizer.zero_grad()
        if step % settings.log_every == 0 and losses:
            mean_answer, mean_aux = torch.stack(losses).mean(dim=0).tolist()
            log.write(stage="sight", step=step, seconds=schedule.spent, loss=mean_answer, naming=mean_aux)
            losses.clear()
        if step and step % settings.save_every == 0:
            save(trainer.model)
    aux_head.close()


class ReplayedBatches:
    """New batches as soon as they are made, and earlier ones again while none is ready.

    A GPU trains on a batch several times faster than the processes make one, and a repeated batch teaches
    almost as much as a new one.
    """

    def __init__(self, loader: Iterator[Batch], device: str, replays: int, kept: int = 3000) -> None:
        self.replays, self.kept, self.since_new = replays, kept, 0
        self.earlier: list[Batch] = []
        self.rng = Random(0)
        self.ready: Queue[Batch | Exception] = Queue(maxsize=4)
        Thread(target=self._fetch, args=(loader, device), daemon=True).start()

    def _fetch(self, loader: Iterator[Batch], device: str) -> None:
        try:
            for batch in loader:
                self.ready.put(on_device(batch, device))
            self.ready.put(StopIteration())
        except Exception as error:  # raised in the waiting call, which would else wait forever
            self.ready.put(error)

    def new(self) -> Batch:
        """Wait for the next new batch and return it."""
        made = self.ready.get()
        if isinstance(made, Exception):
            raise made
        return made

    def __next__(self) -> Batch:
        if self.earlier and self.since_new < self.replays and self.ready.empty():
            self.since_new += 1
            return self.rng.choice(self.earlier)
        batch, self.since_new = self.new(), 0
        if len(self.earlier) < self.kept:
            self.earlier.append(batch)
        else:
            self.earlier[self.rng.randrange(self.kept)] = batch
        return batch


def _evaluate(
    trainer: VisionPretrainer,
    batches: ReplayedBatches,
    settings: VisionPretraining,
    accepting: int,
    unseen: Sequence[Batch] = (),
) -> dict[str, float]:
    """Return the share of exercises answered without a wrong token, and of correct verdicts.

    `unseen` are batches about the generator's images that were held out from training.
    """
    right: dict[str, list[torch.Tensor]] = {}
    waiting = [on_device(each, str(trainer.painter.device)) for each in unseen]
    seen = 0
    while waiting or seen < settings.eval_examples or not right.keys() >= set(settings.exercises):
        is_new, batch = (True, waiting.pop()) if waiting else (False, batches.new())
        if batch.name == DRAWN and not is_new:
            continue  # the model was trained on it
        with torch.no_grad():
            words, verdicts = trainer.correct(batch, accepting)
        right.setdefault(batch.name, []).append(words)
        if batch.name in VERDICT_TOKENS:
            right.setdefault(f"{batch.name} verdicts", []).append(verdicts)
        seen += len(batch.ids)
    return {name: float(torch.cat(some).float().mean()) for name, some in sorted(right.items())}


def _with_drawn(loader: Iterator[Batch], of_drawn: list[Batch], rng: Random) -> Iterator[Batch]:
    """Yield the batches of a loader, interleaved with those about drawn images, which repeat."""
    while True:
        yield rng.choice(of_drawn) if of_drawn and rng.random() < DRAWN_SHARE else next(loader)


def _loader(batches: Batches, workers: int) -> Iterator[Batch]:
    return iter(torch.utils.data.DataLoader(batches, batch_size=None, num_workers=workers))


def on_device(batch: Batch, device: str) -> Batch:
    """Return the batch as tensors on a device."""
    tensors = (batch.ids, batch.labels, batch.is_image, batch.positions, batch.codes, batch.places)
    return Batch(
        batch.name, *(torch.as_tensor(each).long().to(device, non_blocking=True) for each in tensors)
    )


def _latent_space(generator: Path | None, device: str) -> LatentSpace | None:
    """Load the latent space of the autoencoder in a generator's folder."""
    if generator is None:
        return None
    from diffusers import AutoencoderKLFlux2

    with quiet():
        vae = AutoencoderKLFlux2.from_pretrained(generator, subfolder="vae").to(device).eval()
    vae.requires_grad_(False)
    return LatentSpace(vae)
