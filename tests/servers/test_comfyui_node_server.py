"""ComfyUI itself with our node: workflows of documents, on the doubles whose images can be held."""

from __future__ import annotations

import copy
import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image
from programs import Program, Start, free_port, python_with, skip
from running import HeldGenerator, Service, service

NODE = Path(__file__).parents[2] / "integrations" / "comfyui"
EXAMPLE: dict[str, Any] = json.loads((NODE / "interleaved_document.api.json").read_text())
UI_EXAMPLE = NODE / "example_workflows" / "interleaved_document.json"
ENDS_WITHIN = 120.0


@pytest.fixture(scope="module")
def comfy(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Program:
    checkout = os.environ.get("COMFYUI", "")
    if not checkout or not (Path(checkout) / "main.py").is_file():
        skip("ComfyUI", "git clone it, and name the folder with COMFYUI")
    python = python_with(("aiohttp", "torchsde"), "COMFYUI_PYTHON", "install its requirements.txt")
    port, home = free_port(), tmp_path_factory.mktemp("comfyui")
    for name in ("custom_nodes", "user"):
        (home / name).mkdir()
    (home / "custom_nodes" / "interleave-thinker").symlink_to(NODE)
    shutil.copy(NODE / "interleave_thinker.py", home / "custom_nodes" / "alone.py")
    paths = home / "paths.yaml"
    paths.write_text(json.dumps({"tests": {"base_path": str(home), "custom_nodes": "custom_nodes"}}))
    command = [python, "main.py", "--cpu", "--port", str(port), "--output-directory", str(home / "output")]
    command += ["--extra-model-paths-config", str(paths), "--disable-all-custom-nodes", "--disable-api-nodes"]
    command += ["--whitelist-custom-nodes", "interleave-thinker", "alone.py"]
    command += ["--user-directory", str(home / "user"), "--database-url", "sqlite:///:memory:"]
    return start(command, port, health="/queue", cwd=Path(checkout))


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("documents"), generator=HeldGenerator()) as started:
        yield started


def example(documents: Service, **fields: Any) -> dict[str, Any]:
    """The workflow that comes with the node, at this service."""
    graph = copy.deepcopy(EXAMPLE)
    graph["1"]["inputs"] |= {"service": documents.url, **fields}
    return graph


def queued(comfy: Program, graph: dict[str, Any]) -> str:
    answer = httpx.post(f"{comfy.url}/prompt", json={"prompt": graph, "client_id": "test"}, trust_env=False)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["prompt_id"])


def until(found: Callable[[], Any]) -> Any:
    ends = time.monotonic() + ENDS_WITHIN
    while not (value := found()):
        assert time.monotonic() < ends
        time.sleep(0.1)
    return value


def ended(comfy: Program, prompt: str) -> dict[str, Any]:
    """What ComfyUI keeps of a workflow that has ended."""

    def look() -> Any:
        return httpx.get(f"{comfy.url}/history/{prompt}", trust_env=False).json().get(prompt)

    return dict(until(look))


def said(history: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(facts for name, facts in history["status"]["messages"] if name == kind)


def saved(comfy: Program, history: dict[str, Any], node: str) -> list[Image.Image]:
    files = [
        httpx.get(f"{comfy.url}/view", params=each, trust_env=False)
        for each in history["outputs"][node]["images"]
    ]
    return [Image.open(io.BytesIO(file.content)) for file in files]


def test_the_example_gives_images_and_text_and_shows_its_progress(comfy: Program, documents: Service) -> None:
    from websockets.sync.client import connect

    told: list[dict[str, Any]] = []
    previews = 0
    with connect(f"{comfy.url.replace('http', 'ws')}/ws?clientId=test", max_size=None, proxy=None) as socket:
        prompt = queued(comfy, example(documents))
        while not told or told[-1]["type"] not in ("execution_success", "execution_error"):
            message = socket.recv(timeout=ENDS_WITHIN)
            if isinstance(message, bytes):
                previews += 1
            else:
                told.append(json.loads(message))
    history = ended(comfy, prompt)
    assert history["status"]["status_str"] == "success", history["status"]
    steps = [each["data"] for each in told if each["type"] == "progress"]
    assert [(step["value"], step["max"]) for step in steps][-1] == (3, 3)
    assert {step["node"] for step in steps} == {"1"} and previews == 4 + 3
    (text,), (link,) = history["outputs"]["3"]["text"], history["outputs"]["4"]["text"]
    facts = documents.http.get(f"/v1/documents/{link.rpartition('/')[2]}").json()
    assert facts["seed"] == 7 and len(facts["steps"]) == 3
    images = saved(comfy, history, "2")
    for step, image in zip(facts["steps"], images, strict=True):
        assert f"({documents.url}{step['picture']})" in text
        drawn = Image.open(io.BytesIO(documents.http.get(step["picture"]).content))
        assert image.tobytes() == drawn.convert("RGB").tobytes()


def test_the_same_request_is_made_once(comfy: Program, documents: Service) -> None:
    graph = example(documents, seed=11)
    assert said(ended(comfy, queued(comfy, graph)), "execution_cached")["nodes"] == []
    calls = len(documents.generator.calls)
    assert "1" in said(ended(comfy, queued(comfy, graph)), "execution_cached")["nodes"]
    assert len(documents.generator.calls) == calls
    ended(comfy, queued(comfy, example(documents, seed=12)))
    assert len(documents.generator.calls) > calls


def test_a_batch_is_sent_and_lists_go_on(comfy: Program, documents: Service) -> None:
    graph = example(documents, seed=13, request="Make it night, in two pictures")
    size = {"width": 48, "height": 32, "batch_size": 2, "color": 255}
    graph["7"] = {"class_type": "EmptyImage", "inputs": size}
    graph["1"]["inputs"]["images"] = ["7", 0]
    graph["8"] = {"class_type": "PreviewImage", "inputs": {"images": ["1", 5]}}
    graph["9"] = {"class_type": "PreviewAny", "inputs": {"source": ["1", 2]}}
    history = ended(comfy, queued(comfy, graph))
    assert history["status"]["status_str"] == "success", history["status"]
    id_ = history["outputs"]["4"]["text"][0].rpartition("/")[2]
    facts = documents.http.get(f"/v1/documents/{id_}").json()
    assert [bool(part.get("picture")) for part in facts["request"]] == [True, True, False]
    assert history["outputs"]["9"]["text"] == [step["text"] for step in facts["steps"]]
    assert len(saved(comfy, history, "8")) == len(saved(comfy, history, "2")) == len(facts["steps"])


def test_stopping_comfyui_cancels_the_document(comfy: Program, documents: Service) -> None:
    documents.generator.free = len(documents.generator.calls) + 1
    try:
        prompt = queued(comfy, example(documents, seed=14))
        until(lambda: len(documents.generator.calls) > documents.generator.free)
        assert httpx.post(f"{comfy.url}/interrupt", json={}, trust_env=False).status_code == 200
        assert said(ended(comfy, prompt), "execution_interrupted")["node_id"] == "1"
        newest = documents.http.get("/v1/documents?limit=1").json()["data"][0]["id"]
        assert documents.http.get(f"/v1/documents/{newest}").json()["cancelling"]
    finally:
        documents.generator.free = 1_000_000


def test_two_documents_are_made_at_once_and_stopped_together(comfy: Program, documents: Service) -> None:
    graph = example(documents, seed=15)
    graph["11"], graph["12"] = copy.deepcopy(graph["1"]), copy.deepcopy(graph["2"])
    graph["11"]["inputs"]["seed"], graph["12"]["inputs"]["images"] = 16, ["11", 0]
    documents.generator.free = before = len(documents.generator.calls)
    try:
        prompt = queued(comfy, graph)
        until(lambda: len(documents.generator.calls) == before + 2)
        httpx.post(f"{comfy.url}/interrupt", json={}, trust_env=False)
        said(ended(comfy, prompt), "execution_interrupted")
        newest = documents.http.get("/v1/documents?limit=2").json()["data"]
        for job in newest:
            until(lambda id_=job["id"]: documents.http.get(f"/v1/documents/{id_}").json()["cancelling"])
    finally:
        documents.generator.free = 1_000_000


def test_failures_are_said_by_comfyui(comfy: Program, documents: Service) -> None:
    absent = {**example(documents)}
    absent["1"]["inputs"]["service"] = f"http://127.0.0.1:{free_port()}"
    said_there = said(ended(comfy, queued(comfy, absent)), "execution_error")["exception_message"]
    assert "no document service responds at" in said_there and "interleave serve documents" in said_there
    refused = ended(comfy, queued(comfy, example(documents, model="nothing")))
    assert "no model 'nothing'" in said(refused, "execution_error")["exception_message"]
    graph = example(documents, service="file:///etc/passwd")
    answer = httpx.post(f"{comfy.url}/prompt", json={"prompt": graph}, trust_env=False)
    assert answer.status_code == 400 and "is not an address such as" in answer.text


def test_the_file_alone_and_the_folder_are_loaded(comfy: Program) -> None:
    log = comfy.log.read_text("utf-8")
    assert "(IMPORT FAILED)" not in log  # as it says of custom nodes
    assert "interleave-thinker" in log and "alone.py" in log
    facts = httpx.get(f"{comfy.url}/object_info/InterleaveDocument", trust_env=False).json()[
        "InterleaveDocument"
    ]
    assert facts["output"] == ["IMAGE", "STRING", "STRING", "STRING", "STRING", "IMAGE"]
    found = httpx.get(f"{comfy.url}/workflow_templates", trust_env=False).json()
    assert found["interleave-thinker"] == [UI_EXAMPLE.stem]


def test_the_page_makes_the_same_workflow_of_the_example(comfy: Program) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright on this machine")
    if httpx.get(f"{comfy.url}/", trust_env=False).status_code != 200:
        skip("comfyui-frontend-package", "install ComfyUI's requirements.txt")
    known = "() => Boolean(window.app?.graph && window.LiteGraph?.registered_node_types?.InterleaveDocument)"
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(comfy.url, wait_until="domcontentloaded")
        page.wait_for_function(known, timeout=ENDS_WITHIN * 1000)
        page.evaluate("workflow => window.app.loadGraphData(workflow)", json.loads(UI_EXAMPLE.read_text()))
        made = page.evaluate("window.app.graphToPrompt().then(made => made.output)")
        browser.close()
    for number, node in EXAMPLE.items():
        assert made[number]["class_type"] == node["class_type"]
        assert made[number]["inputs"].items() >= node["inputs"].items()
    assert made["1"]["inputs"] == EXAMPLE["1"]["inputs"]
