"""Web page: a document that appears in the browser while it is generated.

    pip install "interleavethinker[serve]"
    python examples/web_page.py          # then open http://127.0.0.1:8000

`interleave.stream` yields events, which are sent on as server-sent events. Closing the page stops the run.
Its folder stays, and the same request resumes it.
"""

import base64
import hashlib
import io
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

from PIL import Image
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, StreamingResponse
from starlette.routing import Route

import interleave

PAGE = """<!doctype html>
<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>InterleaveThinker</title>
<style>body { font: 1rem/1.5 system-ui; max-width: 40rem; margin: 2rem auto; padding: 0 1rem }
input { width: 100%; font: inherit; padding: .5rem; box-sizing: border-box } img { max-width: 100% }</style>
<form><input name="request" placeholder="How a frog grows up, step by step, in four pictures"></form>
<main></main>
<script>
const form = document.forms[0], main = document.querySelector("main");
form.onsubmit = (submitted) => {
  submitted.preventDefault();
  main.replaceChildren();
  const figures = {};
  const events = new EventSource("/events?request=" + encodeURIComponent(form.request.value));
  const on = (name, act) => events.addEventListener(name, (event) => act(JSON.parse(event.data)));
  on("planned", (plan) => plan.steps.forEach((step) => {
    const figure = main.appendChild(document.createElement("figure"));
    figure.appendChild(document.createElement("figcaption")).textContent = step.text;
    figures[step.number] = figure;
  }));
  on("drawn", (drawn) => {
    const figure = figures[drawn.step];
    const image = figure.querySelector("img") ?? figure.appendChild(new Image());
    image.src = drawn.image;
  });
  on("judged", (verdict) => { figures[verdict.step].title = verdict.outcome + ": " + verdict.reasoning; });
  on("error", (error) => { main.append(error.message); });
  on("ended", () => events.close());
};
</script>
"""


def as_message(event: interleave.Event) -> tuple[str, dict[str, object]]:
    """Return the name and the data of the server-sent event for a run event."""
    match event:
        case interleave.Planned(plan):
            return "planned", {"steps": [{"number": step.number, "text": step.text} for step in plan.steps]}
        case interleave.Drawn(slot, prompt, _, image):
            return "drawn", {
                "step": slot.step,
                "attempt": slot.attempt,
                "prompt": prompt,
                "image": data_url(image),
            }
        case interleave.Judged(slot, verdict):
            return "judged", {
                "step": slot.step,
                "attempt": slot.attempt,
                "outcome": verdict.outcome,
                "reasoning": verdict.reasoning,
            }
        case interleave.StepFinished(step):
            return "finished", {"step": step.number, "forced": event.forced}
        case interleave.RunResult():
            return "ended", {"status": event.status, "document": str(event.document)}


def data_url(image: Image.Image) -> str:
    """Encode an image as a data URL, so that the page needs no second request."""
    file = io.BytesIO()
    image.save(file, "WEBP", quality=85)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode()


def server_sent(name: str, data: dict[str, object]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


async def messages(wish: str) -> AsyncIterator[str]:
    """Yield all events of a run as server-sent events, including errors."""
    # A folder named by the request, so that the same request resumes it or shows the finished run.
    out = f"runs/web/{hashlib.sha256(wish.encode()).hexdigest()[:16]}"
    try:
        async with aclosing(interleave.stream(wish, out=out)) as events:
            async for event in events:
                yield server_sent(*as_message(event))
    except interleave.InterleaveError as error:  # such as an empty request
        yield server_sent("error", {"message": str(error)})
        yield server_sent("ended", {"status": "failed"})


async def page(request: Request) -> HTMLResponse:
    return HTMLResponse(PAGE)


async def events(request: Request) -> StreamingResponse:
    wish = request.query_params.get("request", "")
    return StreamingResponse(messages(wish), media_type="text/event-stream")


app = Starlette(routes=[Route("/", page), Route("/events", events)])


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(app, host="127.0.0.1", port=8000)
