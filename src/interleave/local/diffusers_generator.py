"""`diffusers:ORG/NAME`: an image model in this process. `families.py` has one row per pipeline family."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from interleave import BackendError, ConfigurationError, GeneratorCapabilities, ImageRequest, read_image
from interleave.local.batching import BatchQueue, QueuedCall, device_executor
from interleave.local.checkpoints import Source
from interleave.local.compile_blocks import (
    CompileLater,
    compile_blocks,
    denoiser_of,
    has_blocks,
    is_large,
)
from interleave.local.devices import (
    check_quantization,
    choose_device,
    choose_dtype,
    kernels_for,
    release_memory,
)
from interleave.local.families import Family, Lightning, family_of
from interleave.local.fp8 import has_float8, use_float8
from interleave.local.library_errors import as_backend_error
from interleave.local.options import LEAST_SIDE, MOST_SIDE, DiffusersOptions
from interleave.local.pipeline_sources import stack_sources
from interleave.local.pipelines import (
    SETTINGS_FILE,
    CallSettings,
    PipelineFolder,
    add_lora,
    fuse_lora,
    load_pipeline,
    move_to_device,
    read_settings,
    use_lightning_schedule,
)
from interleave.local.source_images import SIDE_MULTIPLE, as_mask, on_canvas, size_like, usable_source
from interleave.local.unread_layers import LAYERS, drop_unread_layers
from interleave.plugin import Spec, backends, images

if TYPE_CHECKING:
    from PIL.Image import Image

log = logging.getLogger(__name__)

MASK_OF_REQUEST = "request"
SIDES = range(LEAST_SIDE, MOST_SIDE + 1, SIDE_MULTIPLE)
GPU_BATCH = 4
"""Default images per batch on a GPU. A CPU gains nothing, and single images are reproducible."""


@dataclass(frozen=True)
class Settings:
    """Settings of every image."""

    steps: int
    guidance: float
    image_guidance: float | None
    size: tuple[int, int]
    prompt_tokens: int | None
    max_sources: int
    extra_arguments: dict[str, Any]


@dataclass(frozen=True)
class GenerationTask:
    """One image to generate, with its sources prepared for the pipeline."""

    request: ImageRequest
    sources: tuple[Image, ...]
    size: tuple[int, int]
    steps: int
    guidance: float
    negative_prompt: str | None
    mask: Image | None = None


class _AllCancelled(Exception):
    """Every call of a batch has been cancelled."""


class DiffusersGenerator:
    """A pipeline from the Hub or a folder."""

    Options = DiffusersOptions

    def __init__(
        self,
        *,
        spec: Spec,
        options: DiffusersOptions,
        pipeline: Any = None,
        settings: CallSettings = CallSettings(),
    ) -> None:
        """Use `pipeline` and its `settings` if given, else read both from the spec's model folder."""
        if spec.base_url or not spec.model:
            raise ConfigurationError(
                f"{str(spec)!r}: name a model, as in 'diffusers:black-forest-labs/FLUX.2-klein-4B' or "
                "'diffusers:./folder', without an address"
            )
        self.options = options
        self.device = choose_device(options.device)
        check_quantization(options.quantization, self.device)
        lightning = Lightning.named(options.lora) if options.lora else None
        folder = None
        if pipeline is None:
            folder = PipelineFolder.find(
                Source(spec.model, options.revision),
                options.trust_remote_code,
                Source(options.transformer) if options.transformer else None,
            )
            settings = read_settings(folder.path)
        self.family = family_of(type(pipeline).__name__ if folder is None else folder.class_name)
        self.family.require_code()
        self.settings = resolve_settings(self.family, spec.model, options, settings, lightning)
        self.mask = self._read_mask()
        self.pipeline = pipeline if folder is None else self._load(folder)
        self._prepare_pipeline(
            lightning, where=spec.model if folder is None else str(folder.path / SETTINGS_FILE)
        )
        batch = options.batch or (1 if self.device.type == "cpu" else GPU_BATCH)
        self.queue: BatchQueue[GenerationTask, Image] = BatchQueue(
            self._run,
            executor=device_executor(str(self.device)),
            max_batch=1 if self.family.batches == "nothing" else batch,
            batch_key=self._batch_key,
            free_memory=self._free_memory,
        )
        self.capabilities = GeneratorCapabilities(
            max_sources=self.settings.max_sources,
            text_to_image=self.family.text_to_image,
            masks="never" if not self.family.takes_mask else "must" if self.mask is None else "may",
            request_settings=self._request_settings(),
            price_per_image=0.0,
            concurrency=options.concurrency or self.queue.max_batch,
        )

    async def generate(self, request: ImageRequest) -> Image:
        self._refuse(request)
        size = self._size(request)
        changed = len(request.sources) - 1 if request.changes_last else 0
        sources = tuple(
            self._prepare_source(source, size, is_changed=place == changed)
            for place, source in enumerate(request.sources)
        )
        if not sources and self.family.starts_on_white:
            sources = (images.white_canvas(size),)
        named, mask = request.settings, self.mask
        if request.mask is not None:
            mask = on_canvas(as_mask(request.mask), size)
        elif mask is not None:
            mask = on_canvas(mask, size)
        task = GenerationTask(
            request,
            sources,
            size,
            steps=_first_set(named.steps, self.settings.steps),
            guidance=_first_set(named.guidance, self.settings.guidance),
            negative_prompt=_first_set(
                named.negative_prompt, self.options.negative_prompt, self.family.negative_prompt
            ),
            mask=mask,
        )
        return await self.queue.submit(task)

    def _size(self, request: ImageRequest) -> tuple[int, int]:
        if request.settings.size is not None:
            return request.settings.size
        if self.options.shape != "source" or not request.sources:
            return self.settings.size
        like = request.sources[-1 if request.changes_last else 0]
        usual = (self.family.side, self.family.side)
        sizes = self.family.sizes if self.settings.size == usual else ()
        return size_like(like, self.settings.size, multiple=self.family.side_multiple, sizes=sizes)

    def _request_settings(self) -> tuple[str, ...]:
        """Return the settings that a request may name: those that change an image of this pipeline."""
        distilled = bool(self.pipeline.config.get("is_distilled"))  # it ignores guidance
        guided = self.family.guidance_parameter is not None and not distilled
        takes = {
            "steps": True,
            "guidance": guided,
            "size": True,  # for pipelines without a size, sources are put on a canvas of this size
            "negative_prompt": guided and self.family.negative_prompt is not None,
        }
        return tuple(name for name, taken in takes.items() if taken)

    def _refuse(self, request: ImageRequest) -> None:
        if len(request.sources) > self.settings.max_sources:
            raise BackendError(
                f"the generator takes at most {self.settings.max_sources} sources, not {len(request.sources)}"
            )
        if not request.sources and not self.family.text_to_image:
            raise BackendError("this generator only edits: the request needs a source image")
        backends.check_extras(request, self.capabilities)
        if request.mask is not None and request.mask.size != request.sources[0].size:
            raise BackendError(
                f"the mask is {request.mask.width}×{request.mask.height}, and its image "
                f"{request.sources[0].width}×{request.sources[0].height}: they must have the same size"
            )
        size = request.settings.size
        if size is not None and not all(side in SIDES for side in size):
            raise BackendError(
                f"{size[0]}×{size[1]}: width and height must be multiples of {SIDE_MULTIPLE} from "
                f"{LEAST_SIDE} to {MOST_SIDE}"
            )

    def _prepare_source(self, source: Image, size: tuple[int, int], *, is_changed: bool) -> Image:
        source = usable_source(source)
        if self.family.takes_mask or not self.family.takes_size:
            return on_canvas(source, size)  # the result has the size of the source
        if self.options.shape == "source" and is_changed:
            return on_canvas(source, size)  # a pipeline would crop an unsupported side
        return source

    def _check_prompt_length(self, task: GenerationTask) -> GenerationTask:
        """Warn if the end of a prompt will not be read; truncate it if the pipeline would fail."""
        if self.settings.prompt_tokens is None:
            return task
        tokenizer = getattr(self.pipeline, self.family.tokenizer)
        tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
        ids = tokenizer(task.request.prompt, truncation=False, verbose=False).input_ids
        limit = self.settings.prompt_tokens - (
            _template_tokens(tokenizer) if self.family.chat_template else 0
        )
        if len(ids) <= limit:
            return task
        log.warning("the prompt has %d tokens, and the generator reads only %d: shorten it", len(ids), limit)
        if not self.family.truncate_prompts:
            return task
        kept = str(tokenizer.decode(ids[:limit], skip_special_tokens=True))
        return replace(task, request=replace(task.request, prompt=kept))

    def _batch_key(self, task: GenerationTask) -> object:
        """Return a key that is equal for tasks that can share a batch."""
        if task.sources and self.family.batches != "everything":
            return id(task)
        alike = (task.size, task.steps, task.guidance, task.negative_prompt)
        return (*alike, tuple(source.size for source in task.sources))

    def _run(self, batch: Sequence[QueuedCall[GenerationTask, Image]]) -> list[Image]:
        # In the device's thread, because two threads must not use a tokenizer concurrently.
        tasks = [self._check_prompt_length(call.input) for call in batch]

        def after_step(pipeline: Any, step: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
            if all(call.cancelled for call in batch):
                raise _AllCancelled
            for task in tasks:
                backends.report(task.request.slot, step + 1, task.steps)
            return tensors

        try:
            with as_backend_error("the generator", len(batch), let_through=_AllCancelled):
                pixels = self._draw(tasks, after_step)
                return [_as_image(*pair) for pair in zip(pixels, (each.size for each in tasks), strict=True)]
        except _AllCancelled:
            self._free_memory()
            return [images.white_canvas(task.size) for task in tasks]  # dropped by the cancelled calls

    def _draw(self, tasks: Sequence[GenerationTask], after_step: Any) -> Any:
        def work() -> Any:
            noise = self._global_noise(tasks[0].request.seed)
            with kernels_for(self.pipeline.dtype, self.device), noise:
                return self.pipeline(**self._arguments(tasks, after_step)).images

        return work() if self.compiling is None else self.compiling.draw(len(tasks), work)

    @contextmanager
    def _global_noise(self, seed: int) -> Iterator[None]:
        """Seed torch's global generator, for pipelines that take some of their noise from it."""
        if not self.family.global_noise:
            yield
            return
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield

    def _arguments(self, tasks: Sequence[GenerationTask], after_step: Any) -> dict[str, Any]:
        first, settings, family = tasks[0], self.settings, self.family
        arguments: dict[str, Any] = {
            **family.extra_arguments,
            **settings.extra_arguments,
            "prompt": [_prompt_with_marks(task, family) for task in tasks],
            "num_inference_steps": first.steps,
            # on the CPU, so that a seed gives the same noise on every device
            "generator": [torch.Generator().manual_seed(task.request.seed) for task in tasks],
            "output_type": "pt",  # converting to bytes is fastest on the device
        }
        if family.guidance_parameter:
            arguments[family.guidance_parameter] = first.guidance
        negative = first.negative_prompt
        if negative is not None:
            arguments["negative_prompt"] = [negative] * len(tasks)
        if family.takes_size:
            arguments["width"], arguments["height"] = first.size
        if family.prompt_tokens_parameter and settings.prompt_tokens:
            arguments[family.prompt_tokens_parameter] = settings.prompt_tokens
        if settings.image_guidance is not None:
            arguments[family.image_guidance_parameter] = settings.image_guidance
        if "callback_on_step_end" in self._parameters:
            arguments["callback_on_step_end"] = after_step
        if "step_func" in self._parameters:  # OmniGen2's name for it
            arguments["step_func"] = lambda step, total: after_step(self.pipeline, step, None, {})
        if "max_pixels" in self._parameters:  # larger images would be generated smaller and scaled up
            arguments["max_pixels"] = max(first.size[0] * first.size[1], family.side**2)
        if "max_area" in self._parameters:  # Kontext resizes to the sizes it was trained with
            same_size = all(source.size == first.size for source in first.sources)  # else it would zoom
            resized = min(first.size) >= 672 and not (first.sources and same_size)
            arguments |= {"max_area": first.size[0] * first.size[1], "_auto_resize": resized}
        if first.mask is not None:
            arguments["mask_image"] = first.mask
        if first.sources:
            arguments[family.source_parameter] = self._sources(tasks)
        if len(tasks) == 1 and family.batches == "nothing":
            arguments["prompt"] = arguments["prompt"][0]
            arguments["generator"] = arguments["generator"][0]
            if negative is not None:
                arguments["negative_prompt"] = negative
        return arguments

    def _sources(self, tasks: Sequence[GenerationTask]) -> Any:
        all_sources = [source for task in tasks for source in task.sources]
        single = self.family.max_sources == 1 and len(tasks) == 1
        return all_sources[0] if single else all_sources

    def _load(self, folder: PipelineFolder) -> Any:
        return load_pipeline(
            folder,
            dtype=choose_dtype(self.options.dtype, self.device),
            quantization=self.options.quantization,
            trust_remote_code=self.options.trust_remote_code,
            device=self.device if self.options.offload == "none" else None,
        )

    def _prepare_pipeline(self, lightning: Lightning | None, *, where: str) -> None:
        """Check and patch a loaded pipeline, and move it to its device; errors name `where`."""
        self._parameters = inspect.signature(type(self.pipeline).__call__).parameters
        for name in self.settings.extra_arguments:
            if name not in self._parameters:
                raise ConfigurationError(f"{where}: {type(self.pipeline).__name__} has no parameter {name!r}")
        self._refuse_options()
        if self.options.lora and self.options.transformer and self.options.quantization == "fp8":
            raise ConfigurationError(
                "a LoRA cannot be added to a transformer file in float8: omit ?lora= or ?transformer="
            )
        if self.options.lora:
            add_lora(self.pipeline, Source(self.options.lora), self.options.lora_scale)
        if lightning:
            use_lightning_schedule(self.pipeline)
        if self.family.batches == "everything":
            stack_sources(self.pipeline)
            drop_unread_layers(self.pipeline, self.settings.extra_arguments.get(LAYERS))
        if self.options.quantization == "fp8":
            self._use_float8()
        move_to_device(self.pipeline, self.device, self.options.offload)
        if self._compiles_immediately():
            compile_blocks(self.pipeline)
        self.compiling = CompileLater(self.pipeline) if self._may_compile_later() else None

    def _use_float8(self) -> None:
        denoiser = denoiser_of(self.pipeline)
        if denoiser is not None and has_float8(denoiser):
            return  # from its file, which deliberately leaves the other layers unrounded
        if self.options.lora:  # a rounded layer cannot take an adapter
            fuse_lora(self.pipeline)
        if denoiser is None or not use_float8(denoiser, self.device):
            raise ConfigurationError(
                f"{type(self.pipeline).__name__} has no layers for float8: omit ?quantization=fp8"
            )

    def _compiles_immediately(self) -> bool:
        """Return whether to compile now: on request, or in float8, which is slower until it is compiled."""
        rounds = self.options.quantization == "fp8" and self.device.type == "cuda"
        return rounds if self.options.compile is None else self.options.compile

    def _may_compile_later(self) -> bool:
        """Return whether to compile later; never with ?batch=1, which guarantees the same bits every time."""
        options, denoiser = self.options, denoiser_of(self.pipeline)
        plain = options.compile is None and options.quantization == "none" and options.offload == "none"
        worth_it = has_blocks(denoiser) and is_large(denoiser)
        return plain and options.batch != 1 and self.device.type == "cuda" and worth_it

    def _refuse_options(self) -> None:
        """Reject options for which the pipeline has no parameter, instead of ignoring them."""
        taken = {
            "guidance": self.family.guidance_parameter,
            "image_guidance": None if self.settings.image_guidance is None else "its own",
            "negative_prompt": "negative_prompt" if "negative_prompt" in self._parameters else None,
            "prompt_tokens": self.family.prompt_tokens_parameter,
        }
        for option, parameter in taken.items():
            if parameter is None and getattr(self.options, option) is not None:
                raise ConfigurationError(
                    f"{type(self.pipeline).__name__} does not support {option!r}: omit ?{option}="
                )

    def _read_mask(self) -> Image | None:
        if self.family.takes_mask and not self.options.mask:
            raise ConfigurationError(
                "this generator redraws the white area of a mask: name a mask with ?mask=PATH.png, "
                f"or use ?mask={MASK_OF_REQUEST} if every request has its own"
            )
        if self.options.mask and not self.family.takes_mask:
            raise ConfigurationError(f"?mask= is only for FLUX.1 Fill, and this is {self.family.summary!r}")
        if self.options.mask in (None, MASK_OF_REQUEST):
            return None
        return as_mask(read_image(self.options.mask))

    def _free_memory(self) -> None:
        self.pipeline.maybe_free_model_hooks()
        release_memory(self.device)


def resolve_settings(
    family: Family,
    model: str,
    options: DiffusersOptions,
    folder: CallSettings,
    lightning: Lightning | None,
) -> Settings:
    """Resolve each setting by spec, Lightning LoRA, folder, model row and family, in this order."""
    advice = family.advice(model)
    return Settings(
        steps=_first_set(
            options.steps,
            lightning and lightning.steps,
            folder.num_inference_steps,
            advice.steps,
            family.steps,
        ),
        guidance=_first_set(
            options.guidance,
            lightning and lightning.guidance,
            folder.guidance_scale,
            advice.guidance,
            family.guidance,
        ),
        image_guidance=None
        if family.image_guidance is None
        else _first_set(options.image_guidance, family.image_guidance),
        size=(
            _first_set(options.width, options.size, folder.width, family.side),
            _first_set(options.height, options.size, folder.height, family.side),
        ),
        prompt_tokens=_first_set(
            options.prompt_tokens, folder.max_sequence_length, advice.prompt_tokens, family.prompt_tokens
        ),
        max_sources=min(family.max_sources, _first_set(folder.max_sources, family.max_sources)),
        extra_arguments={"text_encoder_out_layers": folder.text_encoder_out_layers}
        if folder.text_encoder_out_layers
        else {},
    )


def _first_set(*values: Any) -> Any:
    """Return the first value that is not None."""
    return next((value for value in values if value is not None), None)


def _template_tokens(tokenizer: Any) -> int:
    """Return the number of tokens that the chat template adds to a prompt."""
    empty = tokenizer.apply_chat_template(
        [{"role": "user", "content": ""}], tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    return len(tokenizer(empty).input_ids)


def _prompt_with_marks(task: GenerationTask, family: Family) -> str:
    if not family.source_mark:
        return task.request.prompt
    marks = [family.source_mark.format(number) for number in range(1, len(task.sources) + 1)]
    return " ".join([*marks, task.request.prompt])


def _as_image(pixels: Any, size: tuple[int, int]) -> Image:
    """Return an image from floats between 0 and 1; raise `BackendError` for NaN and infinity."""
    from PIL import Image as pillow

    precise = pixels.float()
    if not torch.isfinite(precise).all():
        raise BackendError("the generator computed NaN or infinity: try ?dtype=bfloat16 or ?dtype=float32")
    levels = (precise * 255).round().clamp(0, 255).to(torch.uint8)
    # reordered on the device, because Pillow is slow at it
    image = pillow.fromarray(levels.permute(1, 2, 0).contiguous().cpu().numpy())
    return image if image.size == size else image.resize(size, pillow.Resampling.LANCZOS)
