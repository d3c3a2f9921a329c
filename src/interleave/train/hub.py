"""The result of a training on the Hub: a private repository of its own, checked before the first step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from interleave import ConfigurationError, InterleaveError, StorageError


def prepare_upload(repository: str) -> None:
    """Make the repository, private where it is new: better refused now than after days of training."""
    from huggingface_hub import HfApi

    with _told(
        lambda reason: ConfigurationError(
            f"--push-to {repository!r}: nothing can be uploaded there ({reason}). Write ORG/NAME, and log in "
            "with `hf auth login` or HF_TOKEN"
        )
    ):
        HfApi().create_repo(repository, private=True, exist_ok=True)


def upload(folder: Path, repository: str) -> str:
    """Upload a result; returns its address. It stays on this machine whatever happens."""
    from huggingface_hub import HfApi

    with _told(
        lambda reason: StorageError(
            f"the result is in {folder}, but was not uploaded to {repository!r} ({reason}): log in with "
            f"`hf auth login`, then give the same command again, or: hf upload {repository} {folder}"
        )
    ):
        api = HfApi()
        made = api.create_repo(repository, private=True, exist_ok=True)
        api.upload_folder(repo_id=repository, folder_path=folder, commit_message="Trained by interleave")
        return str(made)


@contextmanager
def _told(error_of: Callable[[str], InterleaveError]) -> Iterator[None]:
    """Turn what the Hub's library raises into an error that says what to do."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        yield
    except (HfHubHTTPError, HFValidationError, OSError, ValueError) as error:
        raise error_of(" ".join(str(error).split())[:200]) from None
