"""Documents in notebooks: what a cell shows, and the notebook of the examples in a real kernel."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import interleave
from interleave.runs.notebook import LiveDocument
from interleave.runs.notebook_html import CellStep, cell_html

NOTEBOOK = Path(__file__).parents[2] / "examples" / "story.ipynb"


def test_a_result_shows_its_texts_and_images_in_order() -> None:
    html = interleave.generate("A frog in 2 pictures", profile="dry-run", out="frog")._repr_html_()
    first, second = html.index("Part 1 of 2"), html.index("Part 2 of 2")
    assert first < html.index("data:image/webp") < second < html.rindex("data:image/webp")
    assert "<script" not in html


def test_texts_of_a_document_are_no_markup() -> None:
    said = '<img src=x onerror="alert(1)">'
    html = cell_html(said, [CellStep(said, said, said, None, said)], said)
    assert "<img" not in html


def test_a_cell_shows_the_plan_then_each_image_with_its_verdict_then_the_result() -> None:
    live, seen = LiveDocument(), list[str]()

    async def follow() -> None:
        async for event in interleave.stream("A frog in 2 pictures", profile="dry-run", out="frog"):
            live.add(event)
            seen.append(live._repr_html_())

    asyncio.run(follow())
    assert "waiting for its image" in seen[0]
    assert "data:image" not in seen[0]
    rejected = next(html for html in seen if "rejected" in html)
    assert "the critic looks at this image" in seen[seen.index(rejected) - 1]
    assert live.result is not None
    assert seen[-1] == live.result._repr_html_()


def test_a_missing_image_leaves_the_rest_of_a_document() -> None:
    result = interleave.generate("A frog in 2 pictures", profile="dry-run", out="frog")
    assert result.steps[0].image is not None
    result.steps[0].image.unlink()
    html = result._repr_html_()
    assert html.count("data:image") == 1
    assert "Part 1 of 2" in html


@pytest.mark.slow
def test_the_notebook_of_the_examples_runs_in_a_kernel(tmp_path: Path) -> None:
    nbclient: Any = pytest.importorskip("nbclient")
    nbformat: Any = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    shown, redrawn, renamed = (outputs[number][0]["data"]["text/html"] for number in (1, 2, 3))
    assert shown.count("data:image") == 3
    assert redrawn.count("data:image") == 3
    assert redrawn != shown
    assert "<h2>From egg to frog</h2>" in renamed
    assert (tmp_path / "runs/notebook-frog").is_dir()


def test_the_notebook_of_the_examples_has_no_saved_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    assert [cell["outputs"] for cell in cells if cell["cell_type"] == "code" and cell["outputs"]] == []
