"""EdiVal's table and images as chains of edits."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from interleave.bench.drift.edival import IMAGES, TABLE, EdivalChains
from interleave.cli.main import run
from interleave.errors import InputError

PROMPTS = {
    "0": ["Add a kite.", "Make the kite's tail blue.", "Remove the bench."],
    "7": ["Add snow.", "x", "y"],
}


def write_table(folder: Path, rows: list[tuple[str, int, str]]) -> None:
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["image_index", "turns", "task_type", "instructions"])
    table.writerows([(index, turns, "['subject_add']", said) for index, turns, said in rows])
    (folder / TABLE).write_text(text.getvalue())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two chains of our own in the published form: every image has a row for each number of turns."""
    rows = [(index, turns, repr(said[:turns])) for index, said in PROMPTS.items() for turns in (1, 2, 3)]
    write_table(tmp_path, rows)
    image = io.BytesIO()
    Image.new("RGB", (32, 32), "navy").save(image, "JPEG")
    with zipfile.ZipFile(tmp_path / f"{IMAGES}.zip", "w") as packed:
        for index in (*PROMPTS, "99"):
            packed.writestr(f"{IMAGES}/{index}_input_raw.jpg", image.getvalue())
    return tmp_path


def test_an_image_and_its_instructions_are_a_chain(data: Path) -> None:
    chains = EdivalChains(data).chains("chain", 10, 9, 0)
    assert {chain.id: [link.prompt for link in chain.links] for chain in chains} == PROMPTS
    assert chains[0].start.size == (32, 32)
    assert [len(chain.links) for chain in EdivalChains(data).chains("noop", 1, 4, 0)] == [4]


def test_images_may_be_unpacked(data: Path) -> None:
    with zipfile.ZipFile(data / f"{IMAGES}.zip") as packed:
        packed.extractall(data)
    (data / f"{IMAGES}.zip").unlink()
    assert EdivalChains(data).chains("chain", 1, 1, 0)[0].start.size == (32, 32)


def test_the_command_takes_the_folder(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "drift", "--generator", "solid?size=64", "--chains-file", str(data), "--steps", "3"]
    options = ["--chains", "2", "--protocol", "chain", "--remedies", "plain", "--out", str(tmp_path / "d")]
    assert run([*command, *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cells"][0]["protocol"] == "chain"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "no instructions"),
        ([("0", 1, "not a list")], "row 2"),
        ([("0", 1, "[1]")], "row 2"),
        ([("0", 1, "__import__('os')")], "row 2"),
        ([("../0", 1, "['x']")], "image_index"),
        ([("0", 1, "['a']"), ("0", 2, "['b', 'c']")], "different instructions"),
    ],
)
def test_a_table_of_another_form_is_refused(
    rows: list[tuple[str, int, str]], said: str, tmp_path: Path
) -> None:
    write_table(tmp_path, rows)
    with pytest.raises(InputError, match=said):
        EdivalChains(tmp_path)


def test_missing_images_are_named(tmp_path: Path) -> None:
    write_table(tmp_path, [("0", 1, "['x']")])
    with pytest.raises(InputError, match="cannot read"):
        EdivalChains(tmp_path).chains("chain", 1, 1, 0)
    with pytest.raises(InputError, match=TABLE):
        EdivalChains(tmp_path / "nothing")
