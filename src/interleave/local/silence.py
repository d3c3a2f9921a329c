"""Turn off the libraries' progress bars and notices while they load: stderr is for our progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Turn the progress bars and notices of transformers off; errors are still logged."""
    from transformers.utils import logging as library_log

    bars = library_log.is_progress_bar_enabled()
    level = library_log.get_verbosity()
    library_log.disable_progress_bar()
    library_log.set_verbosity_error()
    try:
        yield
    finally:
        library_log.set_verbosity(level)
        if bars:
            library_log.enable_progress_bar()


@contextmanager
def quiet_diffusers() -> Iterator[None]:
    """Turn them off for diffusers and for transformers, which it uses."""
    from diffusers.utils import logging as library_log

    level = library_log.get_verbosity()
    library_log.disable_progress_bar()
    library_log.set_verbosity_error()
    try:
        with quiet():
            yield
    finally:
        library_log.set_verbosity(level)
        library_log.enable_progress_bar()
