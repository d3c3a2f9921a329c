"""The protocols of models. A backend is any class with these methods; it need not inherit anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from pydantic import Field, ValidationInfo, field_validator

from interleave.errors import BackendError, Failure
from interleave.types import Part, Slot, Text, Value

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class ImageSettings:
    """What one image is drawn with, where that differs from the generator's own; None: its own."""

    steps: int | None = None
    guidance: float | None = None
    size: tuple[int, int] | None = None
    """Width and height."""
    negative_prompt: str | None = None

    @property
    def named(self) -> dict[str, Any]:
        """The settings that are named, by their names."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}


NO_SETTINGS = ImageSettings()


@dataclass(frozen=True)
class ImageRequest:
    """One image to draw. Steps, guidance and size belong to the backend, unless `settings` names them."""

    prompt: str
    seed: int
    sources: tuple[Image, ...] = ()
    """Images to start from, oldest first. Empty means text-to-image."""
    slot: Slot = Slot()
    mask: Image | None = None
    """What is redrawn of the first source: white. Only for generators whose capabilities say `masks`."""
    settings: ImageSettings = NO_SETTINGS
    """Only those that its capabilities list under `request_settings` may be named."""
    changes_last: bool = True
    """Whether the last source is the image to change. Else all sources are references; for models that tell
    the two apart by the prompt alone it makes no difference."""


@dataclass(frozen=True)
class GeneratorCapabilities:
    """What an image generator can do. It refuses what it cannot do, and never ignores a part of a request."""

    max_sources: int = 1
    """How many images an edit may start from; 0 for a generator that only draws from text."""
    text_to_image: bool = True
    """Whether it can draw with no source image at all."""
    masks: Literal["never", "may", "must"] = "never"
    """Whether a request may have a mask, or must have one."""
    request_settings: tuple[str, ...] = ()
    """The `ImageSettings` that a request may name: `steps`, `guidance`, `size`, `negative_prompt`."""
    seeds: bool = True
    """Whether the same request with the same seed gives the same image."""
    price_per_image: float | None = None
    """US dollars an image; 0 where it is free, None where it is not known."""
    concurrency: int | None = None
    """How many images it can draw at once; None for no limit."""
    first_concurrency: int | None = None
    """How many calls are made at once until it is known to take more; None: as many as `concurrency`."""
    timeout: float | None = None
    """Seconds that one try may take, which it keeps itself; None for the default."""
    deadline: float | None = None
    """Seconds that an image may take, with all retries; None for the default. Waits do not count."""


@runtime_checkable
class ImageGenerator(Protocol):
    """Draws images."""

    @property
    def capabilities(self) -> GeneratorCapabilities: ...

    async def generate(self, request: ImageRequest) -> Image:
        """Return one image. Raises `BackendError` when the model cannot."""
        ...


def check_extras(request: ImageRequest, capabilities: GeneratorCapabilities) -> None:
    """Refuse a mask or a setting that the generator does not take: it would be ignored."""
    if request.mask is not None and capabilities.masks == "never":
        raise BackendError("this generator changes whole images and takes no mask", kind=Failure.INVALID)
    if request.mask is None and capabilities.masks == "must":
        raise BackendError(
            "this generator redraws an image where a mask is white, and was given none", kind=Failure.INVALID
        )
    for name in request.settings.named:
        if name not in capabilities.request_settings:
            raise BackendError(f"this generator takes no {name!r} with a request", kind=Failure.INVALID)


@dataclass(frozen=True)
class Message:
    """One turn of a conversation with a vision-language model."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All its text, with nothing added: a model trained on a prompt must get it to the letter."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def merged(self) -> tuple[Part, ...]:
        """Its parts, texts that follow each other as one: servers may separate the parts that they get."""
        merged: list[Part] = []
        for part in self.parts:
            last = merged[-1] if merged else None
            if isinstance(part, Text) and isinstance(last, Text):
                merged[-1] = Text(last.text + part.text)
            else:
                merged.append(part)
        return tuple(merged)


@dataclass(frozen=True)
class Sampling:
    """How a reply is decoded. The default is greedy."""

    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    max_tokens: int = 4096
    token_probabilities: bool = False
    """Whether the reply should have token probabilities, where the backend can give them."""
    schema: Mapping[str, Any] | None = None
    """A JSON schema of the answer, for backends with constrained decoding."""
    reask: bool = False
    """Whether an earlier reply could not be read."""
    slot: Slot = Slot()


@dataclass(frozen=True)
class Token:
    """A token of a reply, and its probability."""

    text: str
    probability: float


@dataclass(frozen=True)
class Reply:
    """A model's answer, and how it ended."""

    text: str
    finish_reason: str = "stop"
    """`stop`, `length` (cut off: never repaired), `content_filter`, or a word of the backend."""
    usage: dict[str, int] = field(default_factory=dict)
    cost: float | None = None
    """The cost of this reply in US dollars, where the backend knows it."""
    tokens: tuple[Token, ...] = ()


@dataclass(frozen=True)
class VlmCapabilities:
    """What a vision-language model can do."""

    token_probabilities: bool = False
    knows_its_price: bool = False
    repeatable: bool = False
    """Whether the same messages, decoded greedily, get the same answer every time."""
    concurrency: int | None = None
    """How many calls it takes at once; None for no limit."""
    first_concurrency: int | None = None
    """How many calls are made at once until it is known to take more; None: as many as `concurrency`."""
    timeout: float | None = None
    """Seconds that one try may take, which it keeps itself; None for the default."""
    deadline: float | None = None
    """Seconds that an answer may take, with all retries; None for the default. Waits do not count."""
    reply_options: frozenset[str] = frozenset()
    """Options of its spec that help where replies are cut off or unreadable: `max_tokens`, `json_schema`."""
    typical_price: float | None = None
    """US dollars of a typical call, for estimates; None where it is not known."""


@runtime_checkable
class VisionLanguageModel(Protocol):
    """Reads text and images, answers with text."""

    @property
    def capabilities(self) -> VlmCapabilities: ...

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        """Return the model's answer. Raises `BackendError` when the model cannot."""
        ...


MAX_TEMPERATURE = 2.0


class SamplingOptions(Value):
    """Options of a model that can sample its replies."""

    temperature: float | None = Field(default=None, ge=0, le=MAX_TEMPERATURE)
    """Above 0, replies are sampled; otherwise the likeliest token is taken every time."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Sample from the smallest set of tokens with this total probability (nucleus sampling)."""
    top_k: int | None = Field(default=None, ge=1, le=1_000_000)
    """Sample from the k most likely tokens only."""
    seed: int | None = Field(default=None, ge=0, lt=2**31)
    """The same question gets the same reply, as far as the model's server can promise that."""

    @field_validator("top_p", "top_k", "seed")
    @classmethod
    def greedy_replies_have_no_choice(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and info.data.get("temperature") in (None, 0, "send"):
            raise ValueError("it changes nothing without a temperature above 0: add temperature=0.7")
        return value


def sampling_for(sampling: Sampling, options: SamplingOptions) -> Sampling:
    """How a call is decoded: the spec's options replace the default, but no choice of the caller."""
    if sampling.temperature != Sampling.temperature or not isinstance(options.temperature, float):
        return sampling
    return replace(
        sampling,
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        seed=options.seed,
    )


Listener = Callable[[Slot, int, int], None]
"""Called with the slot of the image, the steps done and the total; from any thread."""

_listeners: list[Listener] = []


def report(slot: Slot, done: int, total: int) -> None:
    """Report that `done` of `total` denoising steps of an image are done."""
    for listener in tuple(_listeners):
        listener(slot, done, total)


def has_listeners() -> bool:
    """Whether anybody listens: where progress has a cost, it is only asked for then."""
    return bool(_listeners)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a listener for every image that is being drawn."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
