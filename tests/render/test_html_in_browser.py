"""The page in a real browser: hostile text runs nothing, images load, nothing is cut off on a phone."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

import interleave

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")]

ATTACK = "<script>document.title = 'taken over'</script><img src=x onerror=\"document.title='taken over'\">"


def browse(page: Path, profile: Path, *arguments: str) -> str:
    command = [str(CHROMIUM), *QUIET, f"--user-data-dir={profile}", *arguments, page.absolute().as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=240).stdout


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    steps = [
        {
            "step_number": 1,
            "step_name": ATTACK,
            "instruction": ATTACK,
            "prompt": ATTACK,
            "auxiliary_text": ATTACK,
        }
    ]
    Path("p.jsonl").write_text(json.dumps({"text": json.dumps({"execution_plan": steps})}) + "\n")
    refusal = {"text": json.dumps({"success": False, "refine_prompt": ATTACK + "x" * 300})}
    accept = {"text": json.dumps({"success": True})}
    Path("c.jsonl").write_text(json.dumps(refusal) + "\n" + json.dumps(accept) + "\n")
    run = interleave.generate(
        ATTACK, out="run", planner="scripted:./p.jsonl", critic="scripted:./c.jsonl", max_attempts=2
    )
    return run.document


def test_G22_hostile_text_is_shown_and_never_run(hostile: Path, tmp_path: Path) -> None:
    dom = browse(hostile, tmp_path / "profile", "--dump-dom")
    title = dom.split("<title>")[1].split("</title>")[0]
    assert "document.title" in title  # the words are there, as words
    assert not title.startswith("taken over")
    assert "&lt;script&gt;" in dom


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_the_page_fills_its_window_and_nothing_sticks_out(hostile: Path, tmp_path: Path, width: int) -> None:
    shot = tmp_path / "shot.png"
    opened = tmp_path / "open.html"
    opened.write_text(hostile.read_text("utf-8").replace("<details>", "<details open>"), "utf-8")
    browse(opened, tmp_path / "profile", f"--window-size={width},2400", f"--screenshot={shot}")
    with Image.open(shot) as image:
        assert image.width == width
        margin = image.convert("RGB").crop((width - 4, 0, width, 2400))
        colours = margin.getcolors(100_000)
    assert colours is not None
    assert len(colours) == 1, f"something reaches the right edge at {width} pixels"
