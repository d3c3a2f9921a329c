"""`?concurrency` and `?timeout` of a spec, kept for every backend, whether or not its author thought of them.

A backend that keeps such an option says so in its capabilities and is left as it is. One that does not, such
as a plugin that never looks at the option, is wrapped: its capabilities then say the concurrency, which all
callers keep, and the wrapper ends a try that takes longer than the timeout.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from interleave.backends.deadlines import TIMEOUT_ADVICE, Deadline
from interleave.backends.protocols import (
    GeneratorCapabilities,
    ImageGenerator,
    ImageRequest,
    Message,
    Reply,
    Sampling,
    VisionLanguageModel,
    VlmCapabilities,
)
from interleave.backends.retries import IMAGE_DEADLINE_SECONDS, VLM_DEADLINE_SECONDS
from interleave.config.specs import BackendOptions
from interleave.errors import BackendError, Failure

if TYPE_CHECKING:
    from PIL.Image import Image


def keep_limits(backend: object, options: BackendOptions, name: str) -> object:
    """The backend, wrapped if it does not keep the concurrency or the timeout that its spec asks for."""
    capabilities = getattr(backend, "capabilities", None)
    if not isinstance(capabilities, GeneratorCapabilities | VlmCapabilities):
        return backend  # an agent that computes, or no backend at all: the contract says so
    concurrency, timeout = options.concurrency, options.timeout
    if concurrency in (None, capabilities.concurrency) and timeout in (None, capabilities.timeout):
        return backend
    draws = isinstance(capabilities, GeneratorCapabilities)
    usual = capabilities.deadline or (IMAGE_DEADLINE_SECONDS if draws else VLM_DEADLINE_SECONDS)
    changed = replace(
        capabilities,
        concurrency=concurrency or capabilities.concurrency,
        timeout=timeout or capabilities.timeout,
        deadline=timeout if timeout is not None and timeout > usual else capabilities.deadline,
    )
    seconds = timeout if timeout != capabilities.timeout else None
    if draws:
        return LimitedGenerator(cast(ImageGenerator, backend), changed, seconds, name)
    return LimitedVlm(cast(VisionLanguageModel, backend), changed, seconds, name)


class _Limited:
    def __init__(self, backend: Any, capabilities: Any, seconds: float | None, name: str) -> None:
        self.backend = backend
        self.capabilities = capabilities
        self._seconds = seconds
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name == "backend":  # not set yet: a copy is being made
            raise AttributeError(name)
        return getattr(self.backend, name)

    @asynccontextmanager
    async def _in_time(self) -> AsyncGenerator[None]:
        if self._seconds is None:
            yield
            return
        deadline = Deadline(self._seconds)
        try:
            async with deadline.running():
                yield
        except TimeoutError as error:
            if not deadline.expired:
                raise
            raise BackendError(
                f"{self._name} gave no answer within {self._seconds:g} s{TIMEOUT_ADVICE}",
                transient=True,
                kind=Failure.TIMEOUT,
            ) from error


class LimitedGenerator(_Limited):
    """An image generator with the concurrency and the timeout of its spec."""

    async def generate(self, request: ImageRequest) -> Image:
        async with self._in_time():
            return cast("Image", await self.backend.generate(request))


class LimitedVlm(_Limited):
    """A vision-language model with the concurrency and the timeout of its spec."""

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        async with self._in_time():
            return cast(Reply, await self.backend.complete(messages, sampling))
