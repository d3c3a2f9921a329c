"""The libraries' progress bars and chatter, silenced while they load: stderr belongs to our progress line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Load without bars and notices; errors still come through."""
    from transformers.utils import logging as talk

    bars = talk.is_progress_bar_enabled()
    level = talk.get_verbosity()
    talk.disable_progress_bar()
    talk.set_verbosity_error()
    try:
        yield
    finally:
        talk.set_verbosity(level)
        if bars:
            talk.enable_progress_bar()


@contextmanager
def quiet_diffusers() -> Iterator[None]:
    """The same for diffusers, which brings transformers along."""
    from diffusers.utils import logging as talk

    level = talk.get_verbosity()
    talk.disable_progress_bar()
    talk.set_verbosity_error()
    try:
        with quiet():
            yield
    finally:
        talk.set_verbosity(level)
        talk.enable_progress_bar()
