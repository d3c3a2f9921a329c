"""Models of the Hub, with its real library: from its cache on disk, and against a server that refuses."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from interleave.backends.protocols import ImageRequest, Message, Sampling
from interleave.backends.registry import load_generator, load_vlm
from interleave.errors import ConfigurationError
from interleave.types import Text

ERRORS = {"Gated": (403, "GatedRepo"), "Gone": (404, "RepoNotFound"), "Old": (404, "RevisionNotFound")}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Path], Path]:
    """Puts a model into an empty cache of the Hub, as a download leaves it; returns where its files lie."""
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))

    def put(name: str, folder: Path) -> Path:
        home = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
        (home / "refs").mkdir(parents=True)
        (home / "refs" / "main").write_text(COMMIT)
        return Path(shutil.copytree(folder, home / "snapshots" / COMMIT))

    return put


def test_models_in_the_cache_are_loaded_without_a_network(
    hub: Callable[[str, Path], Path],
    klein: Path,
    toy_vlm: Callable[[str | None], Path],
    adapters: tuple[Path, Path],
) -> None:
    hub("Me/Klein", klein)
    hub("Me/Vlm", toy_vlm(None))
    hub("Me/Adapter", adapters[0])
    assert asyncio.run(load_generator("diffusers:Me/Klein").generate(ImageRequest("a cat", 7))).size == (
        64,
        64,
    )
    vlm = load_vlm("transformers:Me/Vlm?adapter=Me/Adapter", "critic")
    reply = asyncio.run(vlm.complete((Message("user", (Text("x"),)),), Sampling(max_tokens=4)))
    assert reply.usage["completion_tokens"] == 4


def test_K08_a_download_that_is_not_whole_is_named_with_the_command_that_mends_it(
    hub: Callable[[str, Path], Path], klein: Path
) -> None:
    folder = hub("Me/Klein", klein)
    (folder / "vae" / "diffusion_pytorch_model.safetensors").unlink()
    with pytest.raises(ConfigurationError) as refusal:
        load_generator("diffusers:Me/Klein")
    assert str(folder / "vae") in str(refusal.value)
    assert "hf download --force-download Me/Klein" in str(refusal.value)


class Refusing(BaseHTTPRequestHandler):
    """Answers as the Hub does for models that are not for everybody."""

    def do_GET(self) -> None:
        word = next((name for name in ERRORS if name in self.path), "")
        status, code = ERRORS.get(word, (500, "Broken"))
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", "no")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def refusing_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import huggingface_hub.constants as constants

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "ENDPOINT", address)
    yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.usefixtures("refusing_hub")
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("Me/Gated", "accept its licence at https://huggingface.co/Me/Gated, then set HF_TOKEN"),
        ("Me/Gone", "the model 'Me/Gone' is not on the Hub, or is private"),
        ("Me/Old?revision=v9", "has no revision 'v9'"),
        ("Me/Other", "hf download Me/Other"),
    ],
)
def test_what_the_hub_refuses_is_said_with_what_to_do(model: str, words: str) -> None:
    for load in (
        lambda: load_vlm(f"transformers:{model}", "critic"),
        lambda: load_generator(f"diffusers:{model}"),
    ):
        with pytest.raises(ConfigurationError) as refusal:
            load()
        assert words in str(refusal.value)
        assert "\n" not in str(refusal.value)
