"""Planner and critic: a vision-language model on onnxruntime, called in batches."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from weakref import WeakValueDictionary

from interleave import BackendError, Message, Reply, Sampling, VlmCapabilities
from interleave.local.batching import BatchQueue, QueuedCall, device_executor
from interleave.local.completions import CompletionRequest
from interleave.local.library_errors import as_backend_error
from interleave.local.options import TransformersOptions
from interleave.plugin import backends
from interleave_mini.runtime.decoder import LanguageModel

DEFAULT_BATCH = 8
WAIT_SHARE = 0.05
"""How long the next batch waits for concurrent callers, as a share of the time the last one took."""

_LOADED: WeakValueDictionary[Path, LoadedModel] = WeakValueDictionary()
_LOADING = threading.Lock()


class OnnxAgent:
    """The model in a folder; specs with other options share it."""

    def __init__(self, folder: Path, options: TransformersOptions) -> None:
        self.options = options
        self.loaded = load_shared(folder)
        batch = options.batch or DEFAULT_BATCH
        self.loaded.allow_batch(batch)
        self.capabilities = VlmCapabilities(
            token_probabilities=True,
            knows_its_price=True,
            # In larger batches, numbers differ in their last digits.
            repeatable=options.batch == 1 and (not options.temperature or options.seed is not None),
            continues_replies=True,
            concurrency=options.concurrency or batch,
        )

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        decoding = backends.sampling_for(sampling, self.options)
        return await self.loaded.queue.submit(
            CompletionRequest(
                tuple(messages),
                sampling.max_tokens,
                decoding.temperature,
                sampling.token_probabilities,
                top_p=decoding.top_p,
                top_k=decoding.top_k,
                seed=decoding.seed,
                max_pixels=self.options.max_pixels,
            )
        )


class LoadedModel:
    """A model in memory, and the queue of calls to it."""

    def __init__(self, folder: Path) -> None:
        self.model = LanguageModel(folder)
        self.queue: BatchQueue[CompletionRequest, Reply] = BatchQueue(
            self._run,
            executor=device_executor("cpu"),
            batch_key=lambda request: request.batch_key,
            low_priority=True,
            wait_share=WAIT_SHARE,
        )

    def allow_batch(self, size: int) -> None:
        """Raise the batch size of the queue to this; never lower it, since specs share the queue."""
        with _LOADING:
            self.queue.max_batch = max(self.queue.max_batch, size)

    def _run(self, batch: Sequence[QueuedCall[CompletionRequest, Reply]]) -> list[Reply | BackendError]:
        with as_backend_error("the model", len(batch)):
            return self.model.complete([call.input for call in batch], lambda row: batch[row].cancelled)


def load_shared(folder: Path) -> LoadedModel:
    """Return the model of a folder, loaded once for all specs."""
    with _LOADING:
        loaded = _LOADED.get(folder)
        if loaded is None:
            loaded = _LOADED[folder] = LoadedModel(folder)
        return loaded
