"""CoMM's pickled files: read without running anything, converted, their images loaded once."""

from __future__ import annotations

import io
import json
import os
import pickle
import threading
from collections import OrderedDict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from interleave.bench import image_download
from interleave.bench.benchmarks.comm import CoMMContinue, CoMMDocument
from interleave.bench.comm_data import convert
from interleave.bench.restricted_pickle import read_pickle
from interleave.cli.main import run
from interleave.errors import InputError


def piece(**more: Any) -> dict[str, Any]:
    return {"type": "image", **more}


def item(identity: str = "a", *images: dict[str, Any]) -> dict[str, Any]:
    """An item as it is on the Hub, with fields that the benchmark does not use."""
    shown = images or (piece(url="http://x/1.png", image_path="wikihow/1.png"),)
    steps = [
        [{"type": "text", "content": f"Do part {n} – with “care”."}, each] for n, each in enumerate(shown)
    ]
    return {
        "data_id": identity,
        "title": "Fold a boat",
        "summary_info": "",
        "dataset_type": "wikihow",
        "step_info": steps,
        "clip_scores": (0.1, None, True),
    }


def pickled(path: Path, value: Any, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(value, protocol))
    return path


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_is_read_in_every_protocol(tmp_path: Path, protocol: int) -> None:
    data = [item(), {"numbers": [1, -(2**70), 0.5, None, True], "text": "ä\n"}]
    assert read_pickle(pickled(tmp_path / "a.pth", data, protocol)) == data


@pytest.mark.parametrize("is_zip", [True, False])
def test_both_containers_of_torch_are_read(tmp_path: Path, is_zip: bool) -> None:
    torch = pytest.importorskip("torch")
    torch.save([item()], tmp_path / "a.pth", _use_new_zipfile_serialization=is_zip)
    assert read_pickle(tmp_path / "a.pth") == [item()]
    torch.save([torch.zeros(2)], tmp_path / "b.pth", _use_new_zipfile_serialization=is_zip)
    with pytest.raises(InputError, match=r"torch\._utils\._rebuild_tensor|tensor"):
        read_pickle(tmp_path / "b.pth")


class Attack:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ([Attack(os.system, "touch executed")], r"posix\.system|nt\.system"),
        ({"a": Attack(eval, "open('executed', 'w')")}, r"builtins\.eval|__builtin__\.eval"),
        ([OrderedDict(a=1)], r"collections\.OrderedDict"),
        ([Path("x")], "pathlib"),
        ([Attack(getattr, os, "system")], "getattr|import"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_anything_else_is_refused_by_name_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any, named: str, protocol: int
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        path = pickled(Path("a.pth"), value, protocol)
    except TypeError:
        pytest.skip("does not apply: this value cannot be pickled in this protocol")
    with pytest.raises(InputError, match=named):
        read_pickle(path)
    assert not Path("executed").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        b"not a pickle",
        b"\x80\x04.",
        pickle.dumps([1] * 9)[:-2],
        b"(" * 99,
        b"\x82\x01.",
        b"PK\x03\x04",
    ],
)
def test_broken_files_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.pth").write_bytes(data)
    with pytest.raises(InputError, match=r"a\.pth"):
        read_pickle(tmp_path / "a.pth")


def test_small_files_that_grow_without_end_are_refused(tmp_path: Path) -> None:
    shared: list[Any] = ["x"]
    for _ in range(25):
        shared = [shared, shared]
    cycle: list[Any] = []
    cycle.append(cycle)
    for endless in (shared, cycle):
        path = pickled(tmp_path / "a.pth", [{**item(), "step_info": endless}])
        with pytest.raises(InputError, match=r"item 1 has more than"):
            convert(path, tmp_path / "out")
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("as_dict", [True, False])
def test_a_converted_file_is_what_the_benchmark_reads(tmp_path: Path, as_dict: bool) -> None:
    rows = [
        item(name, *[piece(url=f"http://x/{name}{n}.png", image_path=f"w/{name}{n}.png") for n in range(4)])
        for name in "ab"
    ]
    given: Any = rows
    if as_dict:
        given = {row["data_id"]: {k: v for k, v in row.items() if k != "data_id"} for row in rows}
    made = convert(pickled(tmp_path / "test_data.pth", given), tmp_path / "out")
    assert made.items == 2 and made.urls["w/a0.png"] == "http://x/a0.png" and len(made.urls) == 8
    for name in made.urls:
        (tmp_path / "out/images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "out/images" / name)
    for benchmark in (CoMMContinue(), CoMMDocument()):
        found = benchmark.read(tmp_path / "out")
        assert [each.id for each in found.items] == ["a", "b"] and found.items[0].group == "wikihow"
    assert "clip_scores" not in json.loads(made.path.read_text("utf-8").splitlines()[0])


@pytest.mark.parametrize(
    "given",
    [
        {"image_path": "../../secret.png"},
        {"image_path": "/etc/x.png"},
        {},
        {"image_path": "."},
        {"image_path": "n" * 999},
    ],
)
def test_a_path_that_leaves_the_folder_becomes_a_name_made_from_the_address(
    tmp_path: Path, given: dict[str, str]
) -> None:
    path = pickled(tmp_path / "t.pth", [item("a", piece(url="https://x.org/d/A.PNG?w=3", **given))])
    made = convert(path, tmp_path / "out")
    (name,) = made.urls
    assert len(name) == 36 and name.endswith(".png") and "/" not in name


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("text", "holds a str"),
        ([1], "item 1 is not a dictionary"),
        ([], "no items"),
        ([{"data_id": "a"}], "step_info"),
        ([{"step_info": []}], "data_id"),
        ([{"data_id": "a", "step_info": ["x"]}], "item 1, step 1|'step'|step"),
        ([{"data_id": "a", "step_info": [[{"type": "video"}]]}], "neither text nor image"),
        ([{"data_id": "a", "step_info": [[{"type": "image"}]]}], "neither 'url' nor 'image_path'"),
        ([{"data_id": "a", "step_info": [[b"x"]]}], "a bytes"),
    ],
)
def test_other_shapes_are_refused_with_their_place(tmp_path: Path, value: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        convert(pickled(tmp_path / "a.pth", value), tmp_path / "out")


# images


class Web:
    """A web server with images, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.broken = {"/later.png"}
        picture = io.BytesIO()
        Image.new("RGB", (8, 8), "red").save(picture, "PNG")
        web = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                web.asked.append(self.path)
                if self.path in web.broken:
                    self.send_error(503)
                elif self.path == "/gone.png":
                    self.send_error(404)
                elif self.path == "/inside.png":
                    self.send_response(302)
                    self.send_header("Location", "http://10.0.0.1/secret.png")
                    self.end_headers()
                else:
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(b"<html>" if self.path == "/page.png" else picture.getvalue())

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    found = Web()
    refuse = image_download.refuse_private

    def refuse_others(url: str) -> None:
        if not url.startswith(found.url):  # the test's own server is inside this machine
            refuse(url)

    monkeypatch.setattr(image_download, "refuse_private", refuse_others)
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def test_images_are_loaded_once_and_a_second_run_continues(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("one", "two", "gone", "later", "page", "inside")
    pieces = [piece(url=f"{web.url}/{name}.png", image_path=f"w/{name}.png") for name in names]
    pickled(Path("test.pth"), [item("a", *pieces)])
    command = ["bench", "convert-comm", "test.pth", "--out", "out", "--images", "--json"]
    assert run(command) == 1  # one may come later
    found = json.loads(capsys.readouterr().out)
    assert (found["loaded"], found["gone"], found["failed"]) == (2, 3, 1)
    with Image.open("out/images/w/one.png") as image:
        assert image.size == (8, 8)
    lines = Path("out/images/not_available.jsonl").read_text("utf-8").splitlines()
    reasons = {row["name"]: row["reason"] for row in map(json.loads, lines)}
    assert reasons == {
        "w/gone.png": "HTTP 404",
        "w/page.png": "not an image",
        "w/inside.png": "an address inside a private network",
    }
    web.asked.clear()
    web.broken.clear()
    assert run(command) == 0
    assert json.loads(capsys.readouterr().out)["loaded"] == 1 and web.asked == ["/later.png"]
    web.asked.clear()
    assert run([*command, "--retry-gone"]) == 0
    assert sorted(web.asked) == ["/gone.png", "/inside.png", "/page.png"]


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://x/a", "http://127.0.0.1/a.png", "http://169.254.169.254/", "http://[::1]/"],
)
def test_addresses_inside_this_network_are_never_asked(tmp_path: Path, url: str) -> None:
    (ended,) = image_download.download({"a.png": url}, tmp_path, workers=1)
    assert ended.ending == "gone" and not (tmp_path / "a.png").exists()


def test_a_name_that_cannot_be_written_fails_alone(web: Web, tmp_path: Path) -> None:
    (tmp_path / "w").write_text("a file where a folder should be")
    ended = {
        each.name: each.ending
        for each in image_download.download(
            {"w/a.png": f"{web.url}/a.png", "b.png": f"{web.url}/b.png"}, tmp_path, workers=2
        )
    }
    assert ended == {"w/a.png": "failed", "b.png": "loaded"}
