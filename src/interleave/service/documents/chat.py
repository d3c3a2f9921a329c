"""Chat Completions over the same jobs: `POST /v1/chat/completions`, whole or streamed.

No line of a stream exceeds `MAX_LINE_BYTES`, because some clients cannot read longer ones. So streamed images
are addresses. If a client requests the bytes, a large image is scaled down.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import Header
from starlette.responses import Response

from interleave.service.documents.chat_request import ChatSubmission, Images, parse_chat
from interleave.service.documents.document_parts import Ending, ShownPart, failure_of, parts_of, shown_parts
from interleave.service.documents.jobs import Job
from interleave.service.documents.refusals import error_body, refusal_response
from interleave.service.documents.request_handling import Handling, submission_body
from interleave.service.documents.response_json import DOCUMENTS
from interleave.service.documents.routes import BLANK, Router
from interleave.service.documents.service import Documents
from interleave.service.documents.shared_images import origin_of
from interleave.service.documents.stored_images import DataUrl, StoredImage
from interleave.service.documents.streams import ChunkStream, json_response
from interleave.service.documents.submissions import OWN_FIELD

MAX_LINE_BYTES = 131_072
STREAMED_IMAGE_BYTES = 96_000
"""Maximum size of a file whose base64 text fits in a line with its JSON."""
STREAMED_CHARACTERS = 8_000
"""Maximum characters per line: JSON may need twelve bytes per character."""
IMAGES_HEADER = "x-interleave-pictures"
FINISH = {"completed": "stop", "incomplete": "length"}
router = Router()


class ChatStream(ChunkStream):
    """Chunks of a chat completion."""

    end = b"data: [DONE]\n\n"


@router.post("/v1/chat/completions", response_model=dict[str, Any])
async def create(
    call: Handling,
    asked: Annotated[ChatSubmission, submission_body(dict[str, Any], parse_chat)],
    pictures: Annotated[Images | None, BLANK] = None,
    header: Annotated[Images | None, BLANK, Header(alias=IMAGES_HEADER)] = None,
) -> Response:
    """OpenAI's API: Chat Completions."""
    documents, request = call.documents, call.request
    job = await call.submit(asked)
    origin = documents.settings.public_url or origin_of(request.url.scheme, request.headers.get("host", ""))
    writer = ChatWriter(documents, job, asked, asked.images or pictures or header, origin)
    if asked.stream:
        chunks = writer.chunks(shown_parts(documents.events(job)))
        return ChatStream(chunks, call.images(job), call.lease, client_gone=call.on_leaving(asked, job))
    response = await documents.in_thread(documents.response, await call.wait(asked, job))
    if (failure := failure_of(response)) is not None:
        refused = refusal_response(failure)
        refused.headers["x-should-retry"] = "false"  # the SDK would resubmit it as a new job
        return refused
    return await json_response(writer.completion(response), call.images(job), call.lease)


class ChatWriter:
    """Writer of a document as a chat completion."""

    def __init__(
        self, documents: Documents, job: Job, asked: ChatSubmission, images: Images | None, origin: str
    ) -> None:
        self.documents = documents
        self.job = job
        self.asked = asked
        self.images = images or ("url" if asked.stream else "data")
        self.origin = origin
        self._images = 0
        self._has_content = False

    def completion(self, response: dict[str, Any]) -> dict[str, Any]:
        """Return the whole document."""
        content, images = "", []
        for part in parts_of(response["output"]):
            for delta in self._deltas(part):
                content += delta.get("content", "")
                images += delta.get("images", [])
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if self.images != "markdown":
            message["images"] = images
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": FINISH[response["status"]],
        }
        return {
            **self._head("chat.completion"),
            "choices": [choice],
            "usage": _usage(response["usage"]),
            OWN_FIELD: response[OWN_FIELD],
        }

    async def chunks(
        self, parts: AsyncGenerator[ShownPart | Ending | None]
    ) -> AsyncGenerator[dict[str, Any] | None]:
        """Yield the document step by step, as it becomes final."""
        first = self._chunk({"role": "assistant", "content": ""})
        yield {**first, OWN_FIELD: {"document": f"{DOCUMENTS}/{self.job.id}"}}
        async with aclosing(parts):
            async for part in parts:
                if part is None:
                    yield None
                elif isinstance(part, Ending):
                    for chunk in self._ending(part):
                        yield chunk
                else:
                    for delta in self._deltas(part):
                        yield self._chunk(delta)

    def _ending(self, ending: Ending) -> list[dict[str, Any]]:
        if (failure := ending.failure) is not None:
            return [error_body(failure)]
        response = ending.response or {}
        last = self._chunk({}, finish=FINISH[response["status"]])
        if not self.asked.include_usage:
            return [last]
        return [last, {**last, "choices": [], "usage": _usage(response["usage"])}]

    def _deltas(self, part: ShownPart) -> list[dict[str, Any]]:
        """Return the deltas that a part adds to the message."""
        if isinstance(part, str):
            return self._text(part)
        number = self._images
        self._images += 1
        if self.images == "markdown":
            return self._text(f"![Picture {number + 1}]({self._address(part)})")
        image = {"type": "image_url", "index": number, "image_url": {"url": self._url(part)}}
        return [{"images": [image]}]

    def _text(self, text: str) -> list[dict[str, Any]]:
        """Return a paragraph in pieces of bounded length."""
        whole = f"\n\n{text}" if self._has_content else text
        self._has_content = True
        return [
            {"content": whole[at : at + STREAMED_CHARACTERS]}
            for at in range(0, len(whole), STREAMED_CHARACTERS)
        ]

    def _url(self, image: StoredImage) -> str | DataUrl:
        if self.images == "url":
            return self._address(image)
        most = STREAMED_IMAGE_BYTES if self.asked.stream else None
        return DataUrl(image.name, most_bytes=most)

    def _address(self, image: StoredImage) -> str:
        return self.origin + self.documents.addresses.path_of(self.job.id, image.name)

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage = {"usage": None} if self.asked.include_usage else {}
        return {**self._head("chat.completion.chunk"), "choices": [choice], **usage}

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.job.id.removeprefix('resp_')}",
            "object": kind,
            "created": int(self.job.created),
            "model": self.job.model,
        }


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    return {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": usage["total_tokens"],
    }
