"""Replies of a small Qwen3-VL: prompts into a KV cache, then token by token."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from interleave import BackendError, ImagePart, Reply
from interleave.local.completions import (
    CompletionRequest,
    downscaled,
    make_reply,
    token_budget,
    too_long,
)
from interleave_mini.runtime.chat import IMAGE_TOKEN, Tokenizer
from interleave_mini.runtime.patches import Grid, PatchLayout, patch_positions
from interleave_mini.runtime.sampling import TokenChooser
from interleave_mini.runtime.sessions import Floats, Graph, Integers
from interleave_mini.runtime.weight_files import WeightFile

MASKED = np.finfo(np.float32).min
GROWTH = 128
"""Tokens by which the KV cache grows when it is full."""
EMBEDDINGS = "model.language_model.embed_tokens.weight"


@dataclass(frozen=True)
class Prompt:
    """A request as the model takes it."""

    ids: list[int]
    embeddings: Floats
    """tokens × width"""
    positions: Integers
    """3 × tokens: of time, rows and columns"""


class LanguageModel:
    """A planner or critic in memory. Must be used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_bytes())
        text, vision = config["text_config"], config["vision_config"]
        self.tokenizer = Tokenizer(folder)
        self.context: int = text["max_position_embeddings"]
        ends = json.loads((folder / "generation_config.json").read_bytes())["eos_token_id"]
        self.eos_ids = {*(ends if isinstance(ends, list) else [ends]), self.tokenizer.eos_id}
        self._layout = PatchLayout.read(folder)
        self._learned_side = int(vision["num_position_embeddings"] ** 0.5)
        self._image_id = self.tokenizer.id_of(IMAGE_TOKEN)
        self._embeddings = WeightFile(folder / "model.safetensors").read(EMBEDDINGS)
        self._rope = _Rope(text["head_dim"], text["rope_parameters"])
        self._vision, self._decoder = Graph(folder / "vision.onnx"), Graph(folder / "decoder.onnx")
        self._cache_shape = (text["num_key_value_heads"], text["head_dim"])
        self._layers: int = text["num_hidden_layers"]

    def complete(
        self,
        requests: Sequence[CompletionRequest],
        cancelled: Callable[[int], bool] = lambda row: False,
    ) -> list[Reply | BackendError]:
        """Return the replies in order; a cancelled row may end early, too long a prompt is an error."""
        prompts = self._prompts(requests)
        budgets = [
            token_budget(request, len(prompt.ids), self.context)
            for request, prompt in zip(requests, prompts, strict=True)
        ]
        fitting = [row for row, budget in enumerate(budgets) if budget > 0]
        written: dict[int, tuple[list[int], list[float]]] = {}
        if fitting:
            chooser = TokenChooser([requests[row] for row in fitting])
            replies = self._generate(
                [prompts[row] for row in fitting],
                [budgets[row] for row in fitting],
                chooser,
                lambda index: cancelled(fitting[index]),
            )
            written = dict(zip(fitting, replies, strict=True))
        return [
            make_reply(
                request,
                *written[row],
                prompt_length=len(prompt.ids),
                token_budget=budgets[row],
                eos_ids=self.eos_ids,
                decode=self.tokenizer.decode,
            )
            if row in written
            else too_long(len(prompt.ids), self.context)
            for row, (request, prompt) in enumerate(zip(requests, prompts, strict=True))
        ]

    def _prompts(self, requests: Sequence[CompletionRequest]) -> list[Prompt]:
        shown = [
            [
                self._layout.cut(downscaled(part.image, request.max_pixels))
                for message in request.messages
                for part in message.parts
                if isinstance(part, ImagePart)
            ]
            for request in requests
        ]
        features = iter(self._features([image for row in shown for image in row]))
        return [
            self._prompt(request, [grid for _, grid in row], [next(features) for _ in row])
            for request, row in zip(requests, shown, strict=True)
        ]

    def _features(self, images: Sequence[tuple[Floats, Grid]]) -> list[Floats]:
        """Return the features of all images; those of one size are computed together."""
        found: dict[int, Floats] = {}
        for grid in {grid for _, grid in images}:
            places = [place for place, image in enumerate(images) if image[1] == grid]
            positions = patch_positions(grid, self._layout.merge, self._learned_side)
            (features,) = self._vision(np.stack([images[place][0] for place in places]), *positions)
            found |= dict(zip(places, features, strict=True))
        return [found[place] for place in range(len(images))]

    def _prompt(
        self, request: CompletionRequest, grids: Sequence[Grid], features: Sequence[Floats]
    ) -> Prompt:
        merged = [(rows // self._layout.merge, columns // self._layout.merge) for rows, columns in grids]
        tokens = [rows * columns for rows, columns in merged]
        ids = self.tokenizer.encode_messages(request.asked, tokens, request.begun)
        embeddings = self._embeddings[ids]
        if features:
            embeddings[np.array(ids) == self._image_id] = np.concatenate(features)
        return Prompt(ids, embeddings, _positions(ids, self._image_id, merged))

    def _generate(
        self,
        prompts: Sequence[Prompt],
        budgets: Sequence[int],
        chooser: TokenChooser,
        cancelled: Callable[[int], bool],
    ) -> list[tuple[list[int], list[float]]]:
        """Return the tokens of every reply and their probabilities."""
        replies: list[tuple[list[int], list[float]]] = [([], []) for _ in prompts]
        batch, logits = self._prefill(prompts)
        rows = list(range(len(prompts)))
        while True:
            tokens, probabilities = chooser.choose(logits, rows)
            for row, token, probability in zip(rows, tokens.tolist(), probabilities.tolist(), strict=True):
                replies[row][0].append(token)
                replies[row][1].append(probability)
            going = [
                place
                for place, row in enumerate(rows)
                if tokens[place] not in self.eos_ids
                and len(replies[row][0]) < budgets[row]
                and not cancelled(row)
            ]
            if not going:
                return replies
            if len(going) < len(rows):
                batch.keep(going)
                rows, tokens = [rows[place] for place in going], tokens[going]
            logits = self._step(batch, tokens)

    def _prefill(self, prompts: Sequence[Prompt]) -> tuple[_Batch, Floats]:
        """Compute the prompts, padded on the left."""
        longest = max(len(prompt.ids) for prompt in prompts)
        rows = len(prompts)
        embeddings = np.zeros((rows, longest, self._embeddings.shape[1]), np.float32)
        positions = np.zeros((3, rows, longest), np.int64)
        padding = np.array([longest - len(prompt.ids) for prompt in prompts])
        for row, prompt in enumerate(prompts):
            embeddings[row, padding[row] :] = prompt.embeddings
            positions[:, row, padding[row] :] = prompt.positions
        index = np.arange(longest)
        hidden = (index[None, :] > index[:, None])[None] | (index < padding[:, None])[:, None]
        # A graph takes no empty cache: it has one token that is masked.
        mask = np.full((rows, 1, 1, longest, 1 + longest), MASKED, np.float32)
        mask[:, 0, 0, :, 1:] = np.where(hidden, MASKED, np.float32(0))
        heads, width = self._cache_shape
        empty = np.zeros((rows, heads, 1, width), np.float32)
        cosines, sines = self._rope(positions)
        logits, *new = self._decoder(embeddings, cosines, sines, mask, *[empty] * 2 * self._layers)
        following = np.array([prompt.positions.max() + 1 for prompt in prompts])
        return _Batch(new, padding, following), logits

    def _step(self, batch: _Batch, tokens: Integers) -> Floats:
        """Compute one more token of each row."""
        cosines, sines = self._rope(np.broadcast_to(batch.following[:, None], (3, len(tokens), 1)))
        embeddings = self._embeddings[tokens][:, None]
        logits, *new = self._decoder(embeddings, cosines, sines, batch.mask, *batch.cache)
        batch.append(new)
        return logits


class _Batch:
    """The KV cache of some rows, with room for more tokens, and the mask of what is in it."""

    def __init__(self, cache: Sequence[Floats], padding: Integers, following: Integers) -> None:
        self.length = cache[0].shape[2]
        self.following = following
        """The position of the next token of each row."""
        self.cache = list(cache)
        self.mask = np.zeros((len(padding), 1, 1, 1, self.length + 1), np.float32)
        self.mask[:, 0, 0, 0, :-1][np.arange(self.length) < padding[:, None]] = MASKED
        self._grow()

    def append(self, new: Sequence[Floats]) -> None:
        """Write the keys and values of one token."""
        if self.length == self.cache[0].shape[2]:
            self._grow()
        for kept, each in zip(self.cache, new, strict=True):
            kept[:, :, self.length] = each[:, :, 0]
        self.mask[..., self.length] = 0
        self.length += 1
        self.following = self.following + 1

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows."""
        self.cache = [each[rows] for each in self.cache]
        self.mask, self.following = self.mask[rows], self.following[rows]

    def _grow(self) -> None:
        rows, heads, capacity, width = self.cache[0].shape
        room = np.zeros((rows, heads, GROWTH, width), np.float32)
        self.cache = [np.concatenate([each, room], axis=2) for each in self.cache]
        masked = np.full((rows, 1, 1, 1, GROWTH), MASKED, np.float32)
        # The last entry is the new token itself, which follows the whole cache.
        self.mask = np.concatenate([self.mask[..., :capacity], masked, self.mask[..., -1:]], axis=-1)


class _Rope:
    """Rotary embeddings, whose frequencies take turns between time, rows and columns (interleaved M-RoPE)."""

    def __init__(self, width: int, parameters: dict[str, object]) -> None:
        theta, sections = float(str(parameters["rope_theta"])), parameters["mrope_section"]
        exponents = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
        self._frequencies = np.float32(1) / np.float32(theta) ** exponents
        self._axes = np.zeros(width // 2, np.int64)
        for axis in (1, 2):
            self._axes[axis : int(sections[axis]) * 3 : 3] = axis  # type: ignore[index]

    def __call__(self, positions: Integers) -> tuple[Floats, Floats]:
        """Return cosines and sines, rows × 1 × tokens × width, the first half of the sines negated."""
        angles = np.moveaxis(positions[self._axes], 0, -1).astype(np.float32) * self._frequencies
        cosines, sines = np.cos(angles), np.sin(angles)
        return (
            np.concatenate([cosines, cosines], axis=-1)[:, None],
            np.concatenate([-sines, sines], axis=-1)[:, None],
        )


def _positions(ids: Sequence[int], image_id: int, grids: Sequence[Grid]) -> Integers:
    """Return the positions of tokens: text advances by one, a grid of image tokens by its longer side."""
    pieces, start, place = [], 0, 0
    remaining = iter(grids)
    while place < len(ids):
        if ids[place] == image_id:
            rows, columns = next(remaining)
            row, column = np.mgrid[:rows, :columns].reshape(2, -1)
            pieces.append(np.stack([np.zeros_like(row), row, column]) + start)
            start += max(rows, columns)
            place += rows * columns
        else:
            end = next((index for index in range(place, len(ids)) if ids[index] == image_id), len(ids))
            pieces.append(np.tile(np.arange(end - place), (3, 1)) + start)
            start += end - place
            place = end
    return np.concatenate(pieces, axis=1)
