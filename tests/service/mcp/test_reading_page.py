"""The reading page in Chromium, in a sandboxed frame of a page that speaks as hosts of MCP Apps do."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from calling import call, id_in
from running import Service

sys.path.insert(0, str(Path(__file__).parents[2] / "studio"))

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
PAGE = files("interleave.service.mcp").joinpath("reading_page.html").read_text("utf-8")
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
HOST = """<!doctype html><body><script>
const policy = `<meta http-equiv="Content-Security-Policy" content="POLICY">`;
window.log = []; window.answers = {};
const frame = document.createElement("iframe");
frame.sandbox = "allow-scripts"; frame.style = "width:700px;height:900px";
addEventListener("message", ({ source, data }) => {
  if (source !== frame.contentWindow) return;
  log.push(data);
  const reply = result => source.postMessage({ jsonrpc: "2.0", id: data.id, result }, "*");
  if (data.method === "ui/initialize") reply({ protocolVersion: data.params.protocolVersion,
    hostInfo: { name: "host", version: "1" }, hostCapabilities: { serverTools: {}, serverResources: {} },
    hostContext: { theme: "dark" } });
  else if (data.id !== undefined && answers[data.method]) reply(answers[data.method]);
});
window.show = result => frame.contentWindow.postMessage(
  { jsonrpc: "2.0", method: "ui/notifications/tool-result", params: result }, "*");
frame.srcdoc = PAGE.replace("<head>", "<head>" + policy);
document.body.append(frame);
</script>"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from studio_process import chromium

    with chromium() as started:
        yield started


@pytest.fixture
def host(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    embedded = json.dumps(PAGE).replace("</", "<\\/")
    page.set_content(HOST.replace("PAGE", embedded, 1).replace("POLICY", POLICY))
    page.wait_for_function("log.some(each => each.method === 'ui/notifications/initialized')")
    yield page
    page.close()


def shown(result: Any) -> dict[str, Any]:
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)  # type: ignore[no-any-return]


def test_texts_and_images_are_shown_in_order(host: Page, running: Service) -> None:
    made = call(running, "make_document", request="A frog in 3 pictures")
    host.evaluate("result => show(result)", shown(made))
    frame = host.frames[1]
    frame.wait_for_selector("img >> nth=2")
    order = frame.eval_on_selector_all("h1, h2, img", "all => all.map(each => each.localName)")
    assert order == ["h1", *["h2", "img"] * 3]
    assert frame.eval_on_selector_all("img", "all => all.every(each => each.naturalWidth > 0 && each.alt)")
    assert frame.inner_text("#status") == ""
    assert "resp_" not in frame.inner_text("main")
    assert host.evaluate("log.some(each => each.method === 'ui/notifications/size-changed')")


def test_a_click_shows_the_full_image(host: Page, running: Service) -> None:
    made = call(running, "make_document", request="A frog in 1 picture")
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
    host.evaluate("blob => answers['resources/read'] = { contents: [{ blob }] }", pixel)
    host.evaluate("result => show(result)", shown(made))
    frame = host.frames[1]
    frame.click("button.image")
    frame.wait_for_function("document.querySelector('dialog img').src.startsWith('data:image/png')")
    asked = host.evaluate("log.find(each => each.method === 'resources/read').params.uri")
    assert asked.startswith(f"interleave://documents/{id_in(made)}/images/")


def test_a_document_being_made_is_asked_for_until_it_is_complete(host: Page, running: Service) -> None:
    made = shown(call(running, "make_document", request="A frog in 2 pictures"))
    early = json.loads(json.dumps(made).replace("status: completed", "status: in_progress"))
    early["content"] = early["content"][:1]
    host.evaluate("result => answers['tools/call'] = result", made)
    host.evaluate("result => show(result)", early)
    frame = host.frames[1]
    assert frame.inner_text("#status") == "Being made…"
    frame.wait_for_selector("img >> nth=1")
    asked = host.evaluate("log.find(each => each.method === 'tools/call').params")
    assert asked["name"] == "look_at_document"
    assert asked["arguments"]["wait"] is False


def test_nothing_in_a_document_becomes_markup(host: Page) -> None:
    evil = "# <img src=x onerror=parent.hacked=1>\nstatus: completed\n<script>parent.hacked=1</script>"
    host.evaluate("result => show(result)", {"content": [{"type": "text", "text": evil}]})
    frame = host.frames[1]
    frame.wait_for_selector("h1")
    assert frame.query_selector("main img, main script") is None
    assert host.evaluate("window.hacked === undefined")
