"""Protocols of models. A backend is any class with these methods, without a base class."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from pydantic import Field, ValidationInfo, field_validator

from interleave.errors import BackendError, Failure
from interleave.types import Part, Request, Slot, Text, Value

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class ImageSettings:
    """Settings of one image that override the generator's. `None`: use the generator's."""

    steps: int | None = None
    guidance: float | None = None
    size: tuple[int, int] | None = None
    """Width and height."""
    negative_prompt: str | None = None

    @property
    def named(self) -> dict[str, Any]:
        """Settings that are not `None`, by name."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}


NO_SETTINGS = ImageSettings()


@dataclass(frozen=True)
class ImageRequest:
    """One image to generate. The backend sets steps, guidance and size unless `settings` does."""

    prompt: str
    seed: int
    sources: tuple[Image, ...] = ()
    """Images to start from, oldest first. Empty means text-to-image."""
    slot: Slot = Slot()
    mask: Image | None = None
    """Mask of the first source: white areas are redrawn. Only for generators with `masks`."""
    settings: ImageSettings = NO_SETTINGS
    """Only settings in the generator's `request_settings` are allowed."""
    changes_last: bool = True
    """Whether the last source is the image to edit. Otherwise all sources are references. Models that
    distinguish them only by the prompt ignore this."""
    lettered: bool = False
    """Whether words are set upon the image later. A run then adds to the prompt that it has no writing."""


@dataclass(frozen=True)
class GeneratorCapabilities:
    """Capabilities of an image generator. It refuses unsupported requests and never ignores a part of one."""

    max_sources: int = 1
    """Maximum source images of an edit. 0 for a text-to-image generator."""
    text_to_image: bool = True
    """Whether it can generate without a source image."""
    masks: Literal["never", "may", "must"] = "never"
    """Whether a request may have a mask, or must have one."""
    request_settings: tuple[str, ...] = ()
    """Settings that a request may set: `steps`, `guidance`, `size`, `negative_prompt`."""
    seeds: bool = True
    """Whether the same request with the same seed gives the same image."""
    price_per_image: float | None = None
    """US dollars per image. 0 if free, `None` if unknown."""
    concurrency: int | None = None
    """Maximum concurrent images. `None` for no limit."""
    first_concurrency: int | None = None
    """Concurrent calls at the start, before the limit rises. `None`: `concurrency`."""
    timeout: float | None = None
    """Maximum seconds of one try, which the backend enforces. `None` for the default."""
    deadline: float | None = None
    """Maximum seconds of an image with all retries, without waiting. `None` for the default."""
    draws_writing: bool = True
    """Whether its images may have writing in them, so that it must be told to draw none."""


@runtime_checkable
class ImageGenerator(Protocol):
    """Generates images."""

    @property
    def capabilities(self) -> GeneratorCapabilities: ...

    async def generate(self, request: ImageRequest) -> Image:
        """Return one image. Raises `BackendError` if the model fails."""
        ...


def check_extras(request: ImageRequest, capabilities: GeneratorCapabilities) -> None:
    """Refuse a mask or a setting that the generator would ignore."""
    if request.mask is not None and capabilities.masks == "never":
        raise BackendError("this generator changes whole images and takes no mask", kind=Failure.INVALID)
    if request.mask is None and capabilities.masks == "must":
        raise BackendError(
            "this generator redraws the white area of a mask, and the request has no mask",
            kind=Failure.INVALID,
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
        """All text, with nothing added: a model trained on a prompt must receive exactly that prompt."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def merged(self) -> tuple[Part, ...]:
        """Parts with consecutive texts merged, because servers may insert separators between parts."""
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
    """Decoding of a reply. The default is greedy."""

    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    max_tokens: int = 4096
    token_probabilities: bool = False
    """Whether to return token probabilities, if the backend can."""
    schema: Mapping[str, Any] | None = None
    """JSON schema of the answer, for backends with constrained decoding."""
    reask: bool = False
    """Whether an earlier reply could not be parsed."""
    slot: Slot = Slot()


@dataclass(frozen=True)
class Token:
    """A token of a reply, and its probability."""

    text: str
    probability: float


@dataclass(frozen=True)
class Reply:
    """A model's answer."""

    text: str
    finish_reason: str = "stop"
    """`stop`, `length` (truncated, never repaired), `content_filter`, or a value of the backend."""
    usage: dict[str, int] = field(default_factory=dict)
    cost: float | None = None
    """Cost of this reply in US dollars, if the backend knows it."""
    tokens: tuple[Token, ...] = ()


@dataclass(frozen=True)
class VlmCapabilities:
    """Capabilities of a vision-language model."""

    token_probabilities: bool = False
    knows_its_price: bool = False
    repeatable: bool = False
    """Whether greedy decoding always gives the same answer to the same messages."""
    continues_replies: bool = False
    """Whether a reply continues the last message if that is the assistant's."""
    concurrency: int | None = None
    """Maximum concurrent calls. `None` for no limit."""
    first_concurrency: int | None = None
    """Concurrent calls at the start, before the limit rises. `None`: `concurrency`."""
    timeout: float | None = None
    """Maximum seconds of one try, which the backend enforces. `None` for the default."""
    deadline: float | None = None
    """Maximum seconds of an answer with all retries, without waiting. `None` for the default."""
    reply_options: frozenset[str] = frozenset()
    """Options of its spec against truncated or unreadable replies: `max_tokens`, `json_schema`."""
    typical_price: float | None = None
    """US dollars of a typical call, for estimates. `None` if unknown."""


@runtime_checkable
class VisionLanguageModel(Protocol):
    """Reads text and images, answers with text."""

    @property
    def capabilities(self) -> VlmCapabilities: ...

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        """Return the model's answer. Raises `BackendError` if the model fails."""
        ...


@dataclass(frozen=True)
class DocumentEnd:
    """End of a native system's document."""

    finish_reason: str = "stop"
    """As in `Reply`: a document that ended with `length` is kept, and a note says that it is truncated."""
    usage: dict[str, int] = field(default_factory=dict)
    cost: float | None = None
    """Cost of the document in US dollars, if the backend knows it."""


DocumentEvent = Part | DocumentEnd


@runtime_checkable
class DocumentModel(Protocol):
    """A native system: answers a request with a whole document of text and images."""

    @property
    def capabilities(self) -> VlmCapabilities: ...

    def write(self, request: Request) -> AsyncIterator[DocumentEvent]:
        """Yield texts and images in reading order, then the end. Raises `BackendError` if the model fails."""
        ...


MAX_TEMPERATURE = 2.0


class SamplingOptions(Value):
    """Options of a model that can sample its replies."""

    temperature: float | None = Field(default=None, ge=0, le=MAX_TEMPERATURE)
    """Above 0, replies are sampled. Otherwise decoding is greedy."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Sample from the smallest set of tokens with this total probability (nucleus sampling)."""
    top_k: int | None = Field(default=None, ge=1, le=1_000_000)
    """Sample from the k most likely tokens only."""
    seed: int | None = Field(default=None, ge=0, lt=2**31)
    """Seed for reproducible replies, as far as the model's server supports it."""

    @field_validator("top_p", "top_k", "seed")
    @classmethod
    def greedy_replies_have_no_choice(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and info.data.get("temperature") in (None, 0, "send"):
            raise ValueError("it has no effect without a temperature above 0: add temperature=0.7")
        return value


def sampling_for(sampling: Sampling, options: SamplingOptions) -> Sampling:
    """Return the sampling of a call. The spec's options replace the default, but not the caller's choice."""
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
"""Function of the slot of an image, the finished steps and the total, called from any thread."""

_listeners: list[Listener] = []


def report(slot: Slot, done: int, total: int) -> None:
    """Report that `done` of `total` denoising steps of an image are done."""
    for listener in tuple(_listeners):
        listener(slot, done, total)


def has_listeners() -> bool:
    """Return whether there are listeners. Costly progress is only reported to them."""
    return bool(_listeners)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a listener with the progress of every image."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
