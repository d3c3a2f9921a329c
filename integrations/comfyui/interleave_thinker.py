"""A ComfyUI node that has illustrated documents made by InterleaveThinker's document service.

Put this folder, or this file alone, into ComfyUI's `custom_nodes`. It needs nothing that ComfyUI does not
bring. The service is started with `interleave serve documents`, on this machine or another.

Environment variables, both optional:
INTERLEAVE_SERVICE_URL  the address of the service; the default of the node's field
INTERLEAVE_API_KEY      an API key of that service. It is sent to this machine and to INTERLEAVE_SERVICE_URL
                        only, because a workflow of somebody else may name any address. It is no field of the
                        node: ComfyUI writes fields into workflows and into the images that it saves.
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
"""The greatest number that a page in a browser can hold exactly; nodes that give seeds give greater ones."""
SEEDS = 2**63
"""How many seeds the service knows."""
MAX_ATTEMPTS = 100
MAX_PARTIAL_IMAGES = 3
"""The most attempts at one image that the service shows before the image is final."""
CALL_SECONDS = 60.0
SILENCE_SECONDS = 60.0
"""A stream without a byte for so long is dead: the service sends a comment every 15 seconds."""
TRIES = 40
"""How often in a row a connection is made again before the document is given up."""
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds before each further try; the last one from then on."""
CHECK_SECONDS = 0.1
"""How often it is looked whether ComfyUI was told to stop."""
PREVIEW_SIDE = 512
FINAL = frozenset({"response.completed", "response.failed", "response.incomplete"})
HOW_TO_START = (
    'Start it with:  pip install ".[serve]" ./mini  in a clone, and then  interleave serve documents\n'
    "and put the address that it prints into the field 'service'."
)

Check = Callable[[], None]
"""Raises where the work is to stop."""
Progress = Callable[[int, int, "Image.Image | None"], None]
"""Told how many of how many images are done, with the newest image where there is one."""


class DocumentError(RuntimeError):
    """Why there is no document, in words for the user."""


class Refused(DocumentError):
    """The service answered that it will not do it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def may_pass(self) -> bool:
        """Whether the same request may be taken later."""
        return self.status == 429 or self.status >= 500


@dataclass(frozen=True)
class Asked:
    """What the node was asked for."""

    request: str
    images: tuple[Image.Image, ...] = ()
    seed: int = 0
    max_attempts: int = 0
    """0 for what the service's profile says."""
    model: str = ""

    def body(self) -> dict[str, Any]:
        """The request to the service, as OpenAI's Responses API has it."""
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
    """A document that was made."""

    id: str
    link: str
    images: tuple[Image.Image, ...]
    captions: tuple[str, ...]
    """One for each image."""
    text: str
    """The whole document as Markdown."""
    cut_short: str = ""
    """Why it is not complete; empty where it is."""


# --- the service -----------------------------------------------------------------------------------------


def service_address(given: str) -> str:
    """An address as `http://host:port`; raises for what is none."""
    text = given.strip() or os.environ.get(SERVICE_VARIABLE, "").strip() or DEFAULT_SERVICE
    if "://" not in text:
        text = f"http://{text}"
    try:
        parsed = urllib.parse.urlsplit(text)
        usable = parsed.scheme in ("http", "https") and parsed.hostname and (parsed.port or True)
    except ValueError:
        usable = False
    if not usable or parsed.username is not None or parsed.query or parsed.fragment:
        raise DocumentError(f"service: {given!r} is no address like {DEFAULT_SERVICE}")
    return f"{parsed.scheme}://{parsed.netloc}{re.sub(r'(/v1)?/*$', '', parsed.path)}"


def is_this_machine(address: str) -> bool:
    host = urllib.parse.urlsplit(address).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def key_for(address: str) -> str:
    """The API key to send to an address; empty where it is not meant for it."""
    key, trusted = os.environ.get(KEY_VARIABLE, ""), os.environ.get(SERVICE_VARIABLE, "")
    is_meant = is_this_machine(address) or (trusted and service_address(trusted) == address)
    return key if is_meant else ""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the API key to another address."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Service:
    """Calls of the document service."""

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
        """What the service answers; raises `Refused`, or an OSError where it cannot be reached."""
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
            message += "\nRequests that it would take:\n" + "\n".join(f"- {each}" for each in nearest)
        return Refused(error.code, f"the document service refused the request: {message}")

    def submit(self, asked: Asked, check: Check) -> str:
        """Submit a job; a request whose answer was lost is repeated, and is one job nevertheless."""
        body, once = asked.body(), uuid.uuid4().hex
        for number in range(3):
            try:
                answer = self.call("POST", "/v1/responses", body, **{"Idempotency-Key": once})
                return str(json.loads(answer)["id"])
            except (OSError, http.client.HTTPException) as error:
                if number == 2 or _is_absent(error):
                    reason = getattr(error, "reason", None) or error
                    raise DocumentError(
                        f"there is no document service at {self.address} ({reason}).\n{HOW_TO_START}"
                    ) from None
                _wait(PAUSES[number], check)
            except (ValueError, KeyError, TypeError):
                raise DocumentError(f"{self.address} is no document service.\n{HOW_TO_START}") from None
        raise AssertionError("unreachable")

    def cancel(self, id_: str) -> None:
        try:
            self.call("POST", f"/v1/responses/{id_}/cancel", {}, seconds=10)
        except (DocumentError, OSError, http.client.HTTPException) as error:
            log.warning("the document %s could not be cancelled: %s", id_, error)

    def planned_images(self, id_: str) -> int:
        """How many images the plan has; 0 where it cannot be told."""
        try:
            plan = json.loads(self.call("GET", f"/v1/documents/{id_}/plan"))
            return sum(step["prompt"] is not None for step in plan["steps"])
        except (DocumentError, OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            return 0

    def markdown(self, id_: str) -> str:
        """The document as Markdown, with whole addresses for its images."""
        text = self.call("GET", f"/v1/documents/{id_}/document.md").decode()
        return text.replace("](/v1/documents/", f"]({self.address}/v1/documents/")

    def link(self, id_: str) -> str:
        """The page on which people read, change and export it."""
        return f"{self.address}/#/d/{id_}"


def _is_absent(error: Exception) -> bool:
    """Whether nothing listens there, so that trying again makes no sense."""
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
    """The events of a job, in order, each once: read by a thread, which reconnects when it is cut off.

    The thread is there because a read cannot be interrupted: whoever iterates looks every tenth of a second
    whether to stop.
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
                where = f"{self.service.address} cannot be reached any more ({problem})"
                self._found.put(
                    DocumentError(f"{where}. The document goes on there: {self.service.link(self.id)}")
                )
                return
            log.info("reading the events of %s again: %s", self.id, problem)
            self._left.wait(PAUSES[min(failures, len(PAUSES)) - 1])

    def _stream(self, after: int) -> Iterator[dict[str, Any]]:
        """The events after one, as far as this connection carries."""
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
    """Have a document made. The job is cancelled where `check` raises, or anything else goes wrong here."""
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
        raise DocumentError(f"the document failed: {error.get('message', 'no reason is given')}\n{link}")
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
    """The images of a batch of ComfyUI: floats from 0 to 1, batch × height × width × channels."""
    if images is None:
        return ()
    batch = (images.detach().cpu().float().clamp(0, 1) * 255).round().byte().numpy()
    return tuple(Image.fromarray(each[..., 0] if each.shape[-1] == 1 else each) for each in batch)


def tensor_of(images: tuple[Image.Image, ...]) -> Any:
    """A batch of ComfyUI. All images of a batch have one size: smaller ones are centred on white."""
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
"""Fields of nodes whose last document was not complete: asked again, they are made again."""


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


class InterleaveDocument:
    """The node: a request, perhaps with images, becomes images and text in order."""

    CATEGORY = "InterleaveThinker"
    DESCRIPTION = (
        "Has an illustrated document made: a plan is written, every image is drawn, judged, and drawn "
        "again where it is not right. Needs a running document service: interleave serve documents"
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
        "The page on which the document is read, changed and exported.",
        "The images as a list, each in its own size.",
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
                        "tooltip": "What the document is to explain, tell or show.",
                    },
                ),
                "seed": ("INT", {**whole, "control_after_generate": True}),
                "max_attempts": (
                    "INT",
                    {
                        "default": 0,
                        "min": 0,
                        "max": MAX_ATTEMPTS,
                        "tooltip": "How often an image is drawn at most; 0 for the service's own limit.",
                    },
                ),
                "service": ("STRING", {"default": service, "tooltip": "The address of the service."}),
                "model": (
                    "STRING",
                    {
                        "default": "",
                        "tooltip": "A model (profile) that the service offers; empty for its default.",
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
        """The same fields and images give the same document, except where it was not complete."""
        return float("nan") if _digest(fields) in _cut_short else ""

    async def make(
        self, request: str, seed: int, max_attempts: int, service: str, model: str, images: Any = None
    ) -> tuple[Any, ...]:
        """Not in ComfyUI's event loop but in a thread, so that several documents are made at once."""
        asked = Asked(request, images_of(images), seed, max_attempts, model)
        stopped = threading.Event()
        try:
            document = await asyncio.to_thread(_made_in_comfyui, Service(service), asked, stopped)
        finally:
            stopped.set()  # another node failed, or was interrupted: this one is cancelled with it
        fields = {"request": request, "seed": seed, "max_attempts": max_attempts, "service": service}
        digest = _digest({**fields, "model": model})
        _cut_short.discard(digest)
        if document.cut_short:
            _cut_short.add(digest)
            log.warning("the document is not complete: %s %s", document.cut_short, document.link)
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
    from comfy_execution.graph import ExecutionBlocker  # text only: what would take an image is not run

    return (ExecutionBlocker(None), *texts, [])


NODE_CLASS_MAPPINGS = {"InterleaveDocument": InterleaveDocument}
NODE_DISPLAY_NAME_MAPPINGS = {"InterleaveDocument": "Interleaved document (InterleaveThinker)"}
