"""A ComfyUI node that creates illustrated documents with InterleaveThinker's document service.

Copy this folder, or only this file, into ComfyUI's `custom_nodes`. It needs no packages beyond ComfyUI's.
Start the service with `interleave serve documents`, on this machine or another.

Environment variables, both optional:
INTERLEAVE_SERVICE_URL  the address of the service; the default of the node's field
INTERLEAVE_API_KEY      an API key of that service. It is sent only to this machine and to
                        INTERLEAVE_SERVICE_URL, because a shared workflow may name any address. It is not a
                        field of the node, because ComfyUI writes fields into workflows and saved images.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import http.client
import io
import ipaddress
import json
import logging
import os
import queue
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from PIL import Image

log = logging.getLogger(__name__)
SERVICE_VARIABLE, KEY_VARIABLE = "INTERLEAVE_SERVICE_URL", "INTERLEAVE_API_KEY"
DEFAULT_SERVICE = "http://127.0.0.1:8020"
MAX_SEED = 2**53 - 1
"""The largest integer that JavaScript represents exactly; nodes that output seeds use larger ones."""
SEEDS = 2**63
"""The number of seeds that the service supports."""
MAX_ATTEMPTS = 100
MAX_PARTIAL_IMAGES = 3
"""Maximum intermediate attempts per image that the service streams."""
CALL_SECONDS = 60.0
SILENCE_SECONDS = 60.0
"""Read timeout of a stream: the service sends a comment every 15 seconds."""
TRIES = 40
"""Maximum consecutive reconnects before the node fails."""
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds before each retry; the last value repeats."""
CHECK_SECONDS = 0.1
"""Interval of the checks for an interrupt from ComfyUI."""
PREVIEW_SIDE = 512
FINAL = frozenset({"response.completed", "response.failed", "response.incomplete"})
HOW_TO_START = (
    'Start it with:  pip install ".[serve]" ./mini  in a clone, and then  interleave serve documents\n'
    "and enter the address that it prints into the field 'service'."
)

Check = Callable[[], None]
"""Raises an exception if the work must stop."""
Progress = Callable[[int, int, "Image.Image | None"], None]
"""Called with the finished and the total images, and the newest image, if any."""


class DocumentError(RuntimeError):
    """The document could not be created; the message is for the user."""


class Refused(DocumentError):
    """The service rejected the request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status == 429 or self.status >= 500


@dataclass(frozen=True)
class Asked:
    """The inputs of the node."""

    request: str
    images: tuple[Image.Image, ...] = ()
    seed: int = 0
    max_attempts: int = 0
    """0 for the default of the service's profile."""
    model: str = ""

    def body(self) -> dict[str, Any]:
        """Return the request to the service, in the format of OpenAI's Responses API."""
        parts: list[dict[str, Any]] = [
            {"type": "input_image", "image_url": data_url(image)} for image in self.images
        ]
        if self.request.strip():
            parts.append({"type": "input_text", "text": self.request})
        own = {
            "seed": self.seed % SEEDS,
            **({"max_attempts": self.max_attempts} if self.max_attempts else {}),
        }
        return {
            "input": [{"role": "user", "content": parts}],
            "background": True,
            "tools": [{"type": "image_generation", "partial_images": MAX_PARTIAL_IMAGES}],
            "interleave": own,
            **({"model": self.model.strip()} if self.model.strip() else {}),
        }


@dataclass(frozen=True)
class Document:
    """A finished document."""

    id: str
    link: str
    images: tuple[Image.Image, ...]
    captions: tuple[str, ...]
    """One caption per image."""
    text: str
    """The whole document as Markdown."""
    cut_short: str = ""
    """The reason if it is incomplete, else empty."""


# --- the service -----------------------------------------------------------------------------------------


def service_address(given: str) -> str:
    """Return an address as `http://host:port`; raise `DocumentError` if it is invalid."""
    text = given.strip() or os.environ.get(SERVICE_VARIABLE, "").strip() or DEFAULT_SERVICE
    if "://" not in text:
        text = f"http://{text}"
    try:
        parsed = urllib.parse.urlsplit(text)
        usable = parsed.scheme in ("http", "https") and parsed.hostname and (parsed.port or True)
    except ValueError:
        usable = False
    if not usable or parsed.username is not None or parsed.query or parsed.fragment:
        raise DocumentError(f"service: {given!r} is not an address such as {DEFAULT_SERVICE}")
    return f"{parsed.scheme}://{parsed.netloc}{re.sub(r'(/v1)?/*$', '', parsed.path)}"


def is_this_machine(address: str) -> bool:
    host = urllib.parse.urlsplit(address).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def key_for(address: str) -> str:
    """Return the API key to send to an address; empty if the address is not trusted."""
    key, trusted = os.environ.get(KEY_VARIABLE, ""), os.environ.get(SERVICE_VARIABLE, "")
    is_meant = is_this_machine(address) or (trusted and service_address(trusted) == address)
    return key if is_meant else ""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirects, which would send the API key to another address."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Service:
    """A client of the document service."""

    def __init__(self, address: str) -> None:
        self.address = service_address(address)
        self._key = key_for(self.address)
        handlers: list[Any] = [_NoRedirects()]
        if is_this_machine(self.address):
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def call(
        self, method: str, path: str, body: Any = None, *, seconds: float = CALL_SECONDS, **more: str
    ) -> bytes:
        """Return the response body; raise `Refused`, or an OSError if the service cannot be reached."""
        with self.open(method, path, body, seconds=seconds, **more) as answer:
            return bytes(answer.read())

    def open(self, method: str, path: str, body: Any = None, *, seconds: float, **more: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "interleave-comfyui", **more}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        try:
            return self._opener.open(request, timeout=seconds)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error) from None

    def _refusal(self, error: urllib.error.HTTPError) -> Refused:
        try:
            said = json.loads(error.read())["error"]
            message, nearest = str(said["message"]), [str(each) for each in said.get("nearest") or ()]
        except (ValueError, KeyError, TypeError, AttributeError, OSError):
            message = f"{self.address} answered {error.code} {error.reason}; is this the document service?"
            return Refused(error.code, message)
        if error.code == 401:
            message += f"\nSet {KEY_VARIABLE} in the environment of ComfyUI"
            message += "." if is_this_machine(self.address) else f", and {SERVICE_VARIABLE}={self.address}."
        if nearest:
            message += "\nRequests that it accepts:\n" + "\n".join(f"- {each}" for each in nearest)
        return Refused(error.code, f"the document service rejected the request: {message}")

    def submit(self, asked: Asked, check: Check) -> str:
        """Submit a job; a retry after a lost response does not create a second job."""
        body, once = asked.body(), uuid.uuid4().hex
        for number in range(3):
            try:
                answer = self.call("POST", "/v1/responses", body, **{"Idempotency-Key": once})
                return str(json.loads(answer)["id"])
            except (OSError, http.client.HTTPException) as error:
                if number == 2 or _is_absent(error):
                    reason = getattr(error, "reason", None) or error
                    raise DocumentError(
                        f"no document service responds at {self.address} ({reason}).\n{HOW_TO_START}"
                    ) from None
                _wait(PAUSES[number], check)
            except (ValueError, KeyError, TypeError):
                raise DocumentError(f"{self.address} is not a document service.\n{HOW_TO_START}") from None
        raise AssertionError("unreachable")

    def cancel(self, id_: str) -> None:
        try:
            self.call("POST", f"/v1/responses/{id_}/cancel", {}, seconds=10)
        except (DocumentError, OSError, http.client.HTTPException) as error:
            log.warning("the document %s could not be cancelled: %s", id_, error)

    def planned_images(self, id_: str) -> int:
        """Return the number of images in the plan; 0 if it is unknown."""
        try:
            plan = json.loads(self.call("GET", f"/v1/documents/{id_}/plan"))
            return sum(step["prompt"] is not None for step in plan["steps"])
        except (DocumentError, OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            return 0

    def markdown(self, id_: str) -> str:
        """Return the document as Markdown, with absolute image addresses."""
        text = self.call("GET", f"/v1/documents/{id_}/document.md").decode()
        return text.replace("](/v1/documents/", f"]({self.address}/v1/documents/")

    def link(self, id_: str) -> str:
        """Return the address of the page to read, edit and export the document."""
        return f"{self.address}/#/d/{id_}"


def _is_absent(error: Exception) -> bool:
    """Return whether nothing listens at the address, so that a retry is useless."""
    reason = getattr(error, "reason", error)
    return isinstance(reason, ConnectionRefusedError) or type(reason).__name__ == "gaierror"


def _wait(seconds: float, check: Check) -> None:
    pause = threading.Event()
    while seconds > 0:
        check()
        pause.wait(min(seconds, CHECK_SECONDS))
        seconds -= CHECK_SECONDS


# --- the events of a job ---------------------------------------------------------------------------------


class Events:
    """The events of a job, in order and without duplicates, read by a thread that reconnects.

    A read cannot be interrupted, so it runs in a thread, and the iterating caller checks for an interrupt
    every `CHECK_SECONDS`.
    """

    def __init__(self, service: Service, id_: str) -> None:
        self.service, self.id = service, id_
        self._found: queue.Queue[dict[str, Any] | Exception] = queue.Queue()
        self._left = threading.Event()

    def until_final(self, check: Check) -> Iterator[dict[str, Any]]:
        threading.Thread(target=self._read, name=f"events of {self.id}", daemon=True).start()
        try:
            while True:
                check()
                try:
                    found = self._found.get(timeout=CHECK_SECONDS)
                except queue.Empty:
                    continue
                if isinstance(found, Exception):
                    raise found
                yield found
                if found["type"] in FINAL:
                    return
        finally:
            self._left.set()

    def _read(self) -> None:
        last, failures = -1, 0
        while not self._left.is_set():
            try:
                for event in self._stream(last):
                    last, failures = event["sequence_number"], 0
                    self._found.put(event)
                    if event["type"] in FINAL or self._left.is_set():
                        return
                problem: Exception = ConnectionError("the stream ended before the document")
            except Refused as refusal:
                if not refusal.may_pass:
                    self._found.put(refusal)
                    return
                problem = refusal
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                problem = error
            failures += 1
            if failures >= TRIES:
                where = f"{self.service.address} can no longer be reached ({problem})"
                self._found.put(
                    DocumentError(f"{where}. The service continues it: {self.service.link(self.id)}")
                )
                return
            log.info("reading the events of %s again: %s", self.id, problem)
            self._left.wait(PAUSES[min(failures, len(PAUSES)) - 1])

    def _stream(self, after: int) -> Iterator[dict[str, Any]]:
        """Yield the events after number `after`, until the connection ends."""
        path = f"/v1/responses/{self.id}?stream=true" + (f"&starting_after={after}" if after >= 0 else "")
        with self.service.open("GET", path, seconds=SILENCE_SECONDS) as answer:
            data = b""
            for line in answer:
                if line.startswith(b"data:"):
                    data += line[5:]
                elif not line.strip() and data:
                    yield json.loads(data)
                    data = b""


def make_document(service: Service, asked: Asked, progress: Progress, check: Check) -> Document:
    """Create a document. The job is cancelled if `check` raises or another error occurs here."""
    id_ = service.submit(asked, check)
    log.info("InterleaveThinker: %s", service.link(id_))
    done = total = 0
    try:
        for event in Events(service, id_).until_final(check):
            kind = event["type"]
            if kind == "response.output_item.added" and not total:
                total = service.planned_images(id_)
                progress(0, max(total, 1), None)
            elif kind == "response.image_generation_call.partial_image":
                progress(done, max(total, done + 1), _image(event["partial_image_b64"]))
            elif kind == "response.output_item.done" and (result := event["item"].get("result")):
                done += 1
                progress(done, max(total, done), _image(result))
            elif kind in FINAL:
                return _document(service, event["response"])
    except Refused:
        raise
    except BaseException as error:
        if not isinstance(error, DocumentError):
            service.cancel(id_)
        raise
    raise AssertionError("unreachable")


def _document(service: Service, response: dict[str, Any]) -> Document:
    id_, status = response["id"], response["status"]
    link = service.link(id_)
    if status == "failed":
        error = response.get("error") or {}
        raise DocumentError(f"the document failed: {error.get('message', 'no reason given')}\n{link}")
    if status == "cancelled":
        raise DocumentError(f"the document was cancelled in the service: {link}")
    images, captions, caption = [], [], ""
    for item in response["output"]:
        if item["type"] == "message":
            caption = "".join(part.get("text", "") for part in item["content"])
        elif item.get("result"):
            images.append(_image(item["result"]))
            captions.append(caption)
            caption = ""
    short = ""
    if status != "completed":
        short = str(response.get("interleave", {}).get("reason") or "a limit of the service was reached")
    return Document(id_, link, tuple(images), tuple(captions), service.markdown(id_), short)


# --- images --------------------------------------------------------------------------------------------


def _image(encoded: str) -> Image.Image:
    image = Image.open(io.BytesIO(base64.b64decode(encoded)))
    return image.convert("RGB")


def data_url(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def images_of(images: Any) -> tuple[Image.Image, ...]:
    """Return the images of a ComfyUI batch: floats from 0 to 1, batch × height × width × channels."""
    if images is None:
        return ()
    batch = (images.detach().cpu().float().clamp(0, 1) * 255).round().byte().numpy()
    return tuple(Image.fromarray(each[..., 0] if each.shape[-1] == 1 else each) for each in batch)


def tensor_of(images: tuple[Image.Image, ...]) -> Any:
    """Return a ComfyUI batch, in which all images have one size; smaller ones are centred on white."""
    import numpy
    import torch

    width = max(image.width for image in images)
    height = max(image.height for image in images)
    batch = numpy.ones((len(images), height, width, 3), numpy.float32)
    for number, image in enumerate(images):
        left, top = (width - image.width) // 2, (height - image.height) // 2
        pixels = numpy.asarray(image.convert("RGB"), numpy.float32) / 255
        batch[number, top : top + image.height, left : left + image.width] = pixels
    return torch.from_numpy(batch)


# --- ComfyUI ---------------------------------------------------------------------------------------------

_cut_short: set[str] = set()
"""Digests of node fields whose last document was incomplete, so that the node runs again."""


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


class InterleaveDocument:
    """The node: turns a request, optionally with images, into images and text in order."""

    CATEGORY = "InterleaveThinker"
    DESCRIPTION = (
        "Creates an illustrated document: plans it, generates and judges every image, and redraws rejected "
        "images. Needs a running document service: interleave serve documents"
    )
    FUNCTION = "make"
    RETURN_TYPES = ("IMAGE", "STRING", "STRING", "STRING", "STRING", "IMAGE")
    RETURN_NAMES = ("images", "text", "captions", "document", "link", "image_list")
    OUTPUT_IS_LIST = (False, False, True, False, False, True)
    OUTPUT_TOOLTIPS = (
        "The images in order, as one batch; smaller ones are centred on white.",
        "The whole document as Markdown.",
        "The text of each image, as a list.",
        "The id of the document in the service.",
        "The page to read, edit and export the document.",
        "The images as a list, each in its original size.",
    )

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        service = os.environ.get(SERVICE_VARIABLE) or DEFAULT_SERVICE
        whole = {"min": 0, "max": MAX_SEED, "default": 0}
        return {
            "required": {
                "request": (
                    "STRING",
                    {
                        "multiline": True,
                        "default": "Explain in four pictures how a frog grows up.",
                        "tooltip": "The topic or story of the document.",
                    },
                ),
                "seed": ("INT", {**whole, "control_after_generate": True}),
                "max_attempts": (
                    "INT",
                    {
                        "default": 0,
                        "min": 0,
                        "max": MAX_ATTEMPTS,
                        "tooltip": "Maximum attempts per image; 0 for the service's default.",
                    },
                ),
                "service": ("STRING", {"default": service, "tooltip": "The address of the service."}),
                "model": (
                    "STRING",
                    {
                        "default": "",
                        "tooltip": "A model (profile) of the service; empty for its default.",
                    },
                ),
            },
            "optional": {
                "images": ("IMAGE", {"tooltip": "Images to start from; a batch is several images."}),
            },
        }

    @classmethod
    def VALIDATE_INPUTS(cls, service: str = "") -> bool | str:
        try:
            service_address(service or "")
        except DocumentError as error:
            return str(error)
        return True

    @classmethod
    def IS_CHANGED(cls, images: Any = None, **fields: Any) -> Any:
        """Return a constant, so that equal inputs are cached, or NaN after an incomplete document."""
        return float("nan") if _digest(fields) in _cut_short else ""

    async def make(
        self, request: str, seed: int, max_attempts: int, service: str, model: str, images: Any = None
    ) -> tuple[Any, ...]:
        """Create the document in a thread, so that several run concurrently in ComfyUI's event loop."""
        asked = Asked(request, images_of(images), seed, max_attempts, model)
        stopped = threading.Event()
        try:
            document = await asyncio.to_thread(_made_in_comfyui, Service(service), asked, stopped)
        finally:
            stopped.set()  # cancels this node if another one failed or was interrupted
        fields = {"request": request, "seed": seed, "max_attempts": max_attempts, "service": service}
        digest = _digest({**fields, "model": model})
        _cut_short.discard(digest)
        if document.cut_short:
            _cut_short.add(digest)
            log.warning("the document is incomplete: %s %s", document.cut_short, document.link)
        return _outputs(document)


def _made_in_comfyui(service: Service, asked: Asked, stopped: threading.Event) -> Document:
    from comfy.model_management import InterruptProcessingException, throw_exception_if_processing_interrupted
    from comfy.utils import ProgressBar

    bar = ProgressBar(1)

    def check() -> None:
        throw_exception_if_processing_interrupted()
        if stopped.is_set():
            raise InterruptProcessingException

    def progress(done: int, total: int, image: Image.Image | None) -> None:
        bar.update_absolute(done, total, ("JPEG", image, PREVIEW_SIDE) if image else None)

    return make_document(service, asked, progress, check)


def _outputs(document: Document) -> tuple[Any, ...]:
    texts = (document.text, list(document.captions), document.id, document.link)
    if document.images:
        each = [tensor_of((image,)) for image in document.images]
        return (tensor_of(document.images), *texts, each)
    from comfy_execution.graph import ExecutionBlocker  # text only: block nodes that need an image

    return (ExecutionBlocker(None), *texts, [])


NODE_CLASS_MAPPINGS = {"InterleaveDocument": InterleaveDocument}
NODE_DISPLAY_NAME_MAPPINGS = {"InterleaveDocument": "Interleaved document (InterleaveThinker)"}
