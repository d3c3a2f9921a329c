"""`transformers:ORG/NAME`: a vision-language model in this process, any `AutoModelForImageTextToText`.

Specs that name the same weights share them: a planner and a critic with the same base are one loaded model
with two adapters (`?adapter=`), and their calls are batched in one queue.
"""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from interleave import BackendError, ConfigurationError, Message, Reply, Sampling, VlmCapabilities
from interleave.local.batching import BatchQueue, QueuedCall, device_executor
from interleave.local.checkpoints import (
    Source,
    check_model,
    find_adapter,
    find_model,
    read_json,
    refuse_bad_fit,
)
from interleave.local.compile_blocks import LARGE, is_large
from interleave.local.completions import CompletionRequest
from interleave.local.decoding import Decoder
from interleave.local.devices import (
    check_quantization,
    choose_device,
    choose_dtype,
    kernels_for,
    release_memory,
)
from interleave.local.direct_loading import class_of, is_rounded, load_language_model
from interleave.local.fp8 import round_language_model
from interleave.local.library_errors import as_backend_error, as_configuration_error
from interleave.local.options import TransformersOptions
from interleave.local.processors import load_processor
from interleave.local.qwen3_vl.batched_vision import batch_vision
from interleave.local.qwen3_vl.compile_ahead import (
    can_compile_ahead,
    compile_ahead,
    wait_until_compiled,
)
from interleave.local.qwen3_vl.uint8_pixels import use_uint8_pixels
from interleave.local.silence import quiet
from interleave.plugin import Spec, backends

DEFAULT_BATCH, GRAPH_DECODE_BATCH = 8, 32
"""Prompts per batch. With CUDA graphs, decoding 32 replies takes less than twice as long as decoding one."""
WAIT_SHARE, WAIT_SHARE_ON_CPU = 0.2, 0.05
"""Wait of the next batch for concurrent callers, as a fraction of the last batch's time."""

_LOADED: WeakValueDictionary[tuple[object, ...], LoadedModel] = WeakValueDictionary()
_LOADING = threading.Lock()


class TransformersVlm:
    """A model from the Hub or a folder, called in batches."""

    Options = TransformersOptions

    def __init__(
        self, *, spec: Spec, options: TransformersOptions, loaded: LoadedModel | None = None
    ) -> None:
        """Use the model `loaded` if given, else load the spec's model."""
        if spec.base_url or not spec.model:
            raise ConfigurationError(
                f"{str(spec)!r}: name a model, as in 'transformers:Qwen/Qwen3-VL-8B-Instruct' or "
                "'transformers:./folder', without an address"
            )
        if options.adapter and options.quantization == "fp8":
            raise ConfigurationError(
                "a LoRA adapter cannot be added to weights in float8: omit ?adapter= or ?quantization=fp8"
            )
        self.options = options
        self.loaded = loaded or load_shared(Source(spec.model, options.revision), options)
        self.loaded.allow_batch(self.loaded.batch_for(options))
        self.adapter = (
            self.loaded.add_adapter(Source(options.adapter, options.adapter_revision))
            if options.adapter
            else None
        )
        on_gpu = self.loaded.device.type == "cuda" and options.quantization in ("none", "fp8")
        self.compiled = (
            on_gpu and is_large(self.loaded.decoder.model) if options.compile is None else options.compile
        )
        self.static = self.compiled or (on_gpu and self.loaded.decoder.has_graph_decoder)
        if options.cache != "auto":
            self.static = options.cache == "static"
        if self.static and self.loaded.device.type == "cuda":
            self.loaded.warm_up(self._request((Message("user", ()),), Sampling()))
        self.capabilities = VlmCapabilities(
            token_probabilities=True,
            knows_its_price=True,
            # In larger batches, results differ in their last digits.
            repeatable=options.batch == 1 and (not options.temperature or options.seed is not None),
            continues_replies=True,
            concurrency=options.concurrency or self.loaded.batch_for(options),
        )

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        return await self.loaded.queue.submit(self._request(tuple(messages), sampling))

    def _request(self, messages: tuple[Message, ...], sampling: Sampling) -> CompletionRequest:
        decoding = backends.sampling_for(sampling, self.options)
        return CompletionRequest(
            messages,
            sampling.max_tokens,
            decoding.temperature,
            sampling.token_probabilities,
            top_p=decoding.top_p,
            top_k=decoding.top_k,
            seed=decoding.seed,
            adapter=self.adapter,
            max_pixels=self.options.max_pixels,
            static=self.static,
            compiled=self.compiled and self.static,
            reuse=self.options.batch != 1 if self.options.reuse is None else self.options.reuse,
        )


def load_shared(source: Source, options: TransformersOptions) -> LoadedModel:
    """Return the model of a source, loaded once for all backends that use it with the same settings."""
    device = choose_device(options.device)
    dtype = choose_dtype(options.dtype, device)
    check_quantization(options.quantization, device)
    folder = find_model(source)
    key = (
        folder.resolve(),
        device,
        dtype,
        options.attention,
        options.quantization,
        options.trust_remote_code,
    )
    with _LOADING:
        loaded = _LOADED.get(key)
        if loaded is None:
            loaded = _LOADED[key] = load_model(folder, source, options)
        return loaded


class LoadedModel:
    """Weights on a device, and the queue of their calls."""

    def __init__(self, model: Any, processor: Any) -> None:
        batch_vision(model)
        use_uint8_pixels(model, processor)
        self.device = model.device
        self.executor = device_executor(str(self.device))
        self.decoder = Decoder(model, processor)
        self.adapters: dict[str, Path] = {}
        self.queue: BatchQueue[CompletionRequest, Reply] = BatchQueue(
            self._run,
            executor=self.executor,
            batch_key=lambda request: request.batch_key,
            free_memory=self._free_memory,
            low_priority=True,
            wait_share=WAIT_SHARE if self.device.type == "cuda" else WAIT_SHARE_ON_CPU,
        )

    def batch_for(self, options: TransformersOptions) -> int:
        """Return the batch size of a spec, or the default for this model and device."""
        graphs = self.device.type == "cuda" and self.decoder.has_graph_decoder and not options.adapter
        return options.batch or (GRAPH_DECODE_BATCH if graphs else DEFAULT_BATCH)

    def allow_batch(self, size: int) -> None:
        """Raise the batch size of the queue to `size`; never lower it, because backends share the queue."""
        with _LOADING:
            self.queue.max_batch = max(self.queue.max_batch, size)

    def add_adapter(self, source: Source) -> str:
        """Load another LoRA adapter; return its name."""
        folder = find_adapter(source)
        name = f"adapter_{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]}"
        if name not in self.adapters:
            check_model(folder, source, trust_remote_code=False)
            self.executor.submit(self._load_adapter, folder, name, source).result()
            self.adapters[name] = folder
        return name

    def warm_up(self, request: CompletionRequest) -> None:
        """Compile before the first call, whose deadline leaves no time for it."""
        self.executor.submit(self._warm_up, request).result()

    def _warm_up(self, request: CompletionRequest) -> None:
        checks = iter((False, False, True))  # a compiled step is traced, captured, replayed: three tokens

        def cancelled(row: int) -> bool:
            return next(checks, True)

        wait_until_compiled()
        self._select_adapter(request.adapter)
        if self.queue.max_batch > 1:  # one row and several rows are compiled separately
            self.decoder.complete([request, request], lambda row: True)
        self.decoder.complete([request], cancelled)

    def _free_memory(self) -> None:
        self.decoder.free_memory()
        release_memory(self.device)

    def _run(self, batch: Sequence[QueuedCall[CompletionRequest, Reply]]) -> list[Reply | BackendError]:
        with as_backend_error("the model", len(batch)), kernels_for(self.decoder.model.dtype, self.device):
            self._select_adapter(batch[0].input.adapter)
            return self.decoder.complete(
                [call.input for call in batch],
                # rows beyond the batch are padding, and end with its last call
                lambda row: batch[min(row, len(batch) - 1)].cancelled,
            )

    def _select_adapter(self, name: str | None) -> None:
        if not self.adapters:
            return
        if name is None:
            self.decoder.model.disable_adapters()
        else:
            self.decoder.model.enable_adapters()
            self.decoder.model.set_adapter(name)

    def _load_adapter(self, folder: Path, name: str, source: Source) -> None:
        model = self.decoder.model
        with quiet(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Already found a `peft_config`")  # several are intended
            with as_configuration_error(f"the adapter in {folder} does not fit the model"):
                info = model.load_adapter(str(folder), adapter_name=name)
        # The adapters loaded before are listed as missing too.
        missing = {key for key in getattr(info, "missing_keys", ()) if name in key}
        refuse_bad_fit(folder, {**(vars(info) if info else {}), "missing_keys": missing}, source)
        model.eval()


def load_model(folder: Path, source: Source, options: TransformersOptions) -> LoadedModel:
    """Check a folder and load its model on its device."""
    check_model(folder, source, trust_remote_code=options.trust_remote_code)
    model_type = str(read_json(folder / "config.json", source).get("model_type"))
    if _reads_directly(options) and options.compile is not False and can_compile_ahead(model_type):
        _compile_ahead(folder, options)
    model = _load_weights(folder, source, options)
    with quiet(), as_configuration_error(f"the processor in {folder} cannot be loaded"):
        processor = load_processor(folder, model_type, trust_remote_code=options.trust_remote_code)
    return LoadedModel(model, processor)


def _compile_ahead(folder: Path, options: TransformersOptions) -> None:
    """Start to compile the decode step if the model will be compiled."""
    from transformers import AutoConfig

    with quiet(), as_configuration_error(f"the model in {folder} cannot be loaded"):
        text = AutoConfig.from_pretrained(folder, local_files_only=True).get_text_config()
    weights = text.num_hidden_layers * text.hidden_size * (3 * text.intermediate_size + 2 * text.hidden_size)
    if options.compile or weights >= LARGE:
        device = choose_device(options.device)
        compile_ahead(text, choose_dtype(options.dtype, device), device, options.quantization == "fp8")


def _reads_directly(options: TransformersOptions) -> bool:
    """Return whether weights are read straight to the device."""
    cuda = choose_device(options.device).type == "cuda"
    return cuda and options.quantization in ("none", "fp8") and not options.trust_remote_code


def _load_weights(folder: Path, source: Source, options: TransformersOptions) -> Any:
    from transformers import AutoModelForImageTextToText

    device = choose_device(options.device)
    how: dict[str, Any] = {
        "dtype": choose_dtype(options.dtype, device),
        "attn_implementation": None if options.attention == "auto" else options.attention,
    }
    with quiet(), as_configuration_error(f"the model in {folder} cannot be loaded"):
        if _reads_directly(options) or is_rounded(folder, source):
            kind = class_of(AutoModelForImageTextToText, folder)
            model, info = load_language_model(kind, folder, source, device, **how)
        else:
            model, info = AutoModelForImageTextToText.from_pretrained(
                folder,
                **how,
                device_map={"": device} if device.type != "cpu" else None,
                quantization_config=_quantization_config(options, device),
                trust_remote_code=options.trust_remote_code,
                use_safetensors=True,
                local_files_only=True,
                ignore_mismatched_sizes=True,  # rejected below, naming the file
                output_loading_info=True,
            )
    refuse_bad_fit(folder, info, source)
    if options.quantization == "fp8" and not round_language_model(model):
        raise ConfigurationError(f"{type(model).__name__} has no layers for float8: omit ?quantization=fp8")
    return model.eval()


def _quantization_config(options: TransformersOptions, device: Any) -> Any:
    if options.quantization in ("none", "fp8"):
        return None
    from transformers import BitsAndBytesConfig

    if options.quantization == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=choose_dtype(options.dtype, device),
    )
