"""`diffusers:ORG/NAME`: an image model in this process. `families.py` has what differs between pipelines."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from interleave.backends.generators.families import Family, Lightning, family_of
from interleave.backends.generators.settling import DrawingOptions, Settings, settle
from interleave.backends.local.batching import BatchQueue, Ticket, lane_of
from interleave.backends.local.canvases import of_same_shape, on_canvas, takeable
from interleave.backends.local.checkpoints import Source, check_pipeline, find_pipeline
from interleave.backends.local.compile_blocks import (
    CompileLater,
    compile_blocks,
    denoiser_of,
    has_blocks,
    is_large,
)
from interleave.backends.local.kernels import kernels_for
from interleave.backends.local.library_errors import as_backend_error
from interleave.backends.local.options import (
    choose_device,
    choose_dtype,
    let_go_of_memory,
    refuse_quantisation,
)
from interleave.backends.local.pipeline_settings import FILE_NAME, CallSettings, read_settings
from interleave.backends.local.pipelines import (
    add_lora,
    load_pipeline,
    place,
    use_lightning_schedule,
)
from interleave.backends.local.stack_sources import stack_sources
from interleave.backends.progress import tell
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.config.specs import Spec
from interleave.errors import BackendError, ConfigurationError
from interleave.pictures import read_picture, white_canvas

if TYPE_CHECKING:
    from PIL.Image import Image

log = logging.getLogger(__name__)

GPU_BATCH = 4
"""Pictures drawn together on a GPU by default. A CPU gains nothing; alone they are repeatable."""


@dataclass(frozen=True)
class Drawing:
    """One picture to draw, with its sources as the pipeline takes them."""

    request: ImageRequest
    sources: tuple[Image, ...]
    size: tuple[int, int]


class _NobodyWaits(Exception):
    """Every call of a batch has been cancelled."""


class DiffusersGenerator:
    """A pipeline from the Hub or a folder."""

    Options: TypeAlias = DrawingOptions

    def __init__(self, *, spec: Spec, options: Options, role: str = "generator") -> None:
        if spec.base_url or not spec.model:
            raise ConfigurationError(
                f"{str(spec)!r}: name a model, as in 'diffusers:black-forest-labs/FLUX.2-klein-4B' or "
                "'diffusers:./folder', without an address"
            )
        device = choose_device(options.device)
        refuse_quantisation(options.quantization, device)
        source = Source(spec.model, options.revision)
        folder = find_pipeline(source)
        index = check_pipeline(folder, source, trust_remote_code=options.trust_remote_code)
        family = family_of(str(index["_class_name"]))
        lightning = Lightning.named(options.lora) if options.lora else None
        self._choose(options, family, settle(family, spec.model, options, read_settings(folder), lightning))
        self.pipeline = load_pipeline(
            folder,
            source,
            index,
            dtype=choose_dtype(options.dtype, device),
            quantization=options.quantization,
            trust_remote_code=options.trust_remote_code,
        )
        self._prepare(lightning, where=str(folder / FILE_NAME))
        self._open()

    @classmethod
    def of(
        cls, pipeline: Any, options: Options, *, model: str = "", settings: CallSettings = CallSettings()
    ) -> DiffusersGenerator:
        """A pipeline that is in memory already; `model` is what it is named on the Hub."""
        generator = cls.__new__(cls)
        family = family_of(type(pipeline).__name__)
        generator._choose(options, family, settle(family, model, options, settings, None))
        generator.pipeline = pipeline
        generator._prepare(None, where=model)
        generator._open()
        return generator

    def _choose(self, options: Options, family: Family, settings: Settings) -> None:
        self.options = options
        self.device = choose_device(options.device)
        self.family = family
        self.settings = settings
        self.mask = self._read_mask()

    def _open(self) -> None:
        """Take calls from here on."""
        options = self.options
        batch = options.batch or (1 if self.device.type == "cpu" else GPU_BATCH)
        self.queue: BatchQueue[Drawing, Image] = BatchQueue(
            self._run,
            lane=lane_of(str(self.device)),
            most=1 if self.family.batches == "nothing" else batch,
            together=self._together,
            recover=self._recover,
        )
        self.capabilities = GeneratorCapabilities(
            max_sources=self.settings.max_sources,
            text_to_image=self.family.text_to_image,
            price_per_image=0.0,
            concurrency=options.concurrency or self.queue.most,
        )

    async def generate(self, request: ImageRequest) -> Image:
        self._refuse(request)
        size = self.settings.size
        if self.options.shape == "source" and request.sources:
            size = of_same_shape(request.sources[0], size)
        sources = tuple(self._as_taken(source, size) for source in request.sources)
        if not sources and self.family.starts_on_white:
            sources = (white_canvas(size),)
        return await self.queue.do(Drawing(request, sources, size))

    def _refuse(self, request: ImageRequest) -> None:
        if len(request.sources) > self.settings.max_sources:
            raise BackendError(
                f"the generator takes at most {self.settings.max_sources} sources, not {len(request.sources)}"
            )
        if not request.sources and not self.family.text_to_image:
            raise BackendError("this generator only changes pictures, and was given none to start from")

    def _as_taken(self, source: Image, size: tuple[int, int]) -> Image:
        if self.family.takes_mask or not self.family.takes_size:
            return on_canvas(takeable(source), size)  # the picture that comes back is of the source's size
        return takeable(source)

    def _within_limit(self, drawing: Drawing) -> Drawing:
        """The drawing, with a word in the log where the end of its prompt will not be read."""
        if self.settings.prompt_tokens is None:
            return drawing
        tokenizer = getattr(self.pipeline, self.family.tokenizer)
        tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
        ids = tokenizer(drawing.request.prompt, truncation=False, verbose=False).input_ids
        limit = self.settings.prompt_tokens - (_scaffold(tokenizer) if self.family.chat else 0)
        if len(ids) <= limit:
            return drawing
        log.warning(
            "the prompt has %d tokens, and the generator reads the first %d: shorten it", len(ids), limit
        )
        if not self.family.cut_prompts:
            return drawing
        kept = str(tokenizer.decode(ids[:limit], skip_special_tokens=True))
        return replace(drawing, request=replace(drawing.request, prompt=kept))

    def _together(self, drawing: Drawing) -> object:
        """Drawings for which this is equal can be made in one batch."""
        if drawing.sources and self.family.batches != "everything":
            return id(drawing)
        return (drawing.size, tuple(source.size for source in drawing.sources))

    def _run(self, batch: Sequence[Ticket[Drawing, Image]]) -> list[Image]:
        # Here, in the lane: a tokenizer must not be used by two threads at once.
        drawings = [self._within_limit(ticket.job) for ticket in batch]

        def after_step(pipeline: Any, step: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
            if all(ticket.cancelled for ticket in batch):
                raise _NobodyWaits
            for drawing in drawings:
                tell(drawing.request.slot, step + 1, self.settings.steps)
            return tensors

        try:
            with as_backend_error("the generator", len(batch), let_through=_NobodyWaits):
                drawn = self._draw(drawings, after_step)
                return [
                    _as_picture(*pair) for pair in zip(drawn, (each.size for each in drawings), strict=True)
                ]
        except _NobodyWaits:
            self._recover()
            return [white_canvas(drawing.size) for drawing in drawings]  # nobody will see them

    def _draw(self, drawings: Sequence[Drawing], after_step: Any) -> Any:
        def work() -> Any:
            with kernels_for(self.pipeline.dtype, self.device):
                return self.pipeline(**self._arguments(drawings, after_step)).images

        return work() if self.compiling is None else self.compiling.draw(len(drawings), work)

    def _arguments(self, drawings: Sequence[Drawing], after_step: Any) -> dict[str, Any]:
        import torch

        first, settings, family = drawings[0], self.settings, self.family
        arguments: dict[str, Any] = {
            **family.other,
            **settings.more,
            "prompt": [_marked(drawing, family) for drawing in drawings],
            "num_inference_steps": settings.steps,
            # on the CPU whatever the device, so that a seed means the same everywhere
            "generator": [torch.Generator().manual_seed(drawing.request.seed) for drawing in drawings],
            "output_type": "pt",  # made bytes of on the device, where that takes no time
        }
        if family.guidance_parameter:
            arguments[family.guidance_parameter] = settings.guidance
        negative = family.negative if self.options.negative_prompt is None else self.options.negative_prompt
        if negative is not None:
            arguments["negative_prompt"] = [negative] * len(drawings)
        if family.takes_size:
            arguments["width"], arguments["height"] = first.size
        if family.prompt_tokens_parameter and settings.prompt_tokens:
            arguments[family.prompt_tokens_parameter] = settings.prompt_tokens
        if "callback_on_step_end" in self._parameters:
            arguments["callback_on_step_end"] = after_step
        if "max_area" in self._parameters:  # Kontext: an area of its own, and sizes it knows from training
            arguments |= {"max_area": first.size[0] * first.size[1], "_auto_resize": min(first.size) >= 672}
        if self.mask is not None:
            arguments["mask_image"] = on_canvas(self.mask, first.size)
        if first.sources:
            arguments[family.source_parameter] = self._sources(drawings)
        if len(drawings) == 1 and family.batches == "nothing":
            arguments["prompt"] = arguments["prompt"][0]
            arguments["generator"] = arguments["generator"][0]
            if negative is not None:
                arguments["negative_prompt"] = negative
        return arguments

    def _sources(self, drawings: Sequence[Drawing]) -> Any:
        all_sources = [source for drawing in drawings for source in drawing.sources]
        single = self.family.most_sources == 1 and len(drawings) == 1
        return all_sources[0] if single else all_sources

    def _prepare(self, lightning: Lightning | None, *, where: str) -> None:
        """Everything that is done to a loaded pipeline before its first picture."""
        self._parameters = inspect.signature(type(self.pipeline).__call__).parameters
        for name in self.settings.more:
            if name not in self._parameters:
                raise ConfigurationError(f"{where}: {type(self.pipeline).__name__} takes no {name!r}")
        self._refuse_options()
        if self.options.lora:
            add_lora(self.pipeline, Source(self.options.lora), self.options.lora_scale)
        if lightning:
            use_lightning_schedule(self.pipeline)
        if self.family.batches == "everything":
            stack_sources(self.pipeline)
        place(self.pipeline, self.device, self.options.offload)
        if self.options.compile:
            compile_blocks(self.pipeline)
        self.compiling = CompileLater(self.pipeline) if self._may_compile_later() else None

    def _may_compile_later(self) -> bool:
        """Not with ?batch=1, which promises the same bits however many pictures there have been."""
        options, denoiser = self.options, denoiser_of(self.pipeline)
        plain = options.compile is None and options.quantization == "none" and options.offload == "none"
        worth_it = has_blocks(denoiser) and is_large(denoiser)
        return plain and options.batch != 1 and self.device.type == "cuda" and worth_it

    def _refuse_options(self) -> None:
        """What the pipeline has no argument for is refused, never ignored."""
        taken = {
            "guidance": self.family.guidance_parameter,
            "negative_prompt": "negative_prompt" if "negative_prompt" in self._parameters else None,
            "prompt_tokens": self.family.prompt_tokens_parameter,
        }
        for option, parameter in taken.items():
            if parameter is None and getattr(self.options, option) is not None:
                raise ConfigurationError(
                    f"{type(self.pipeline).__name__} has no such setting: leave out ?{option}="
                )

    def _read_mask(self) -> Image | None:
        if self.family.takes_mask and not self.options.mask:
            raise ConfigurationError(
                "this generator redraws a picture where a mask is white: name a mask with ?mask=PATH.png"
            )
        if self.options.mask and not self.family.takes_mask:
            raise ConfigurationError(f"?mask= is for FLUX.1 Fill, and this is {self.family.summary!r}")
        return read_picture(self.options.mask).convert("L").convert("RGB") if self.options.mask else None

    def _recover(self) -> None:
        self.pipeline.maybe_free_model_hooks()
        let_go_of_memory(self.device)


def _scaffold(tokenizer: Any) -> int:
    """How many tokens the chat template puts around a prompt."""
    empty = tokenizer.apply_chat_template(
        [{"role": "user", "content": ""}], tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    return len(tokenizer(empty).input_ids)


def _marked(drawing: Drawing, family: Family) -> str:
    if not family.source_mark:
        return drawing.request.prompt
    marks = [family.source_mark.format(number) for number in range(1, len(drawing.sources) + 1)]
    return " ".join([*marks, drawing.request.prompt])


def _as_picture(pixels: Any, size: tuple[int, int]) -> Image:
    """A picture from numbers between 0 and 1, refused where they are none."""
    import torch
    from PIL import Image as pillow

    precise = pixels.float()
    if not torch.isfinite(precise).all():
        raise BackendError(
            "the generator computed numbers that are none (NaN): try ?dtype=bfloat16 or ?dtype=float32"
        )
    levels = (precise * 255).round().clamp(0, 255).to(torch.uint8)
    image = pillow.fromarray(levels.permute(1, 2, 0).cpu().numpy())
    return image if image.size == size else image.resize(size, pillow.Resampling.LANCZOS)
