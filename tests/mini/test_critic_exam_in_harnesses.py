"""The critic exam as tasks of other harnesses, which are not installed: what these read of it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from interleave_mini.bench.pairs import FAULTS, write_pairs

yaml: Any = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install pyyaml")
FOLDER = Path(__file__).parent.parent.parent / "integrations" / "critic-exam" / "lmms_eval"
FIELDS = {
    *("task", "dataset_path", "test_split", "output_type", "doc_to_visual", "doc_to_text", "doc_to_target"),
    *("process_results", "generation_kwargs", "metric_list", "metadata"),
}
"""Those of lmms-eval's task guide that this task uses."""


def module_of(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads `!function utils.NAME` as lmms-eval does: a function in a file beside the task."""


def function(loader: Loader, node: Any) -> Any:
    file, _, name = str(loader.construct_scalar(node)).rpartition(".")
    return getattr(module_of(FOLDER / f"{file}.py"), name)


Loader.add_constructor("!function", function)


@pytest.fixture(scope="module")
def task() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load((FOLDER / "critic_exam.yaml").read_text("utf-8"), Loader)
    return loaded


def test_lmms_eval_reads_the_folder_and_scores_answers(
    task: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(task) == FIELDS
    assert task["output_type"] == "generate_until"
    write_pairs(tmp_path, 0, 2)
    right, wrong = map(json.loads, (tmp_path / "pairs.jsonl").read_text("utf-8").splitlines())
    monkeypatch.setitem(task["doc_to_visual"].__globals__, "FOLDER", tmp_path)
    assert [image.size for image in task["doc_to_visual"](wrong)] == [(256, 256)] * 2
    assert task["doc_to_text"](right, {}).endswith("yes or no.")
    assert [task["doc_to_target"](each) for each in (right, wrong)] == ["yes", "no"]
    assert wrong["fault"] == FAULTS[0]
    scored = [
        task["process_results"](doc, [answer]) for doc in (right, wrong) for answer in ("**No**, it", "Hm")
    ]
    assert scored == [
        {"critic_exam_accuracy": 0.0, "critic_exam_false_alarms": 1.0},
        {"critic_exam_accuracy": 0.0, "critic_exam_false_alarms": 0.0},
        {"critic_exam_accuracy": 1.0, "critic_exam_caught": 1.0},
        {"critic_exam_accuracy": 0.0, "critic_exam_caught": 0.0},
    ]
    assert {each["metric"] for each in task["metric_list"]} == set().union(*scored)


def test_the_card_names_the_file_and_split_that_are_read(task: dict[str, Any], tmp_path: Path) -> None:
    write_pairs(tmp_path, 0, 2)
    _, header, _ = (tmp_path / "README.md").read_text("utf-8").split("---\n", 2)
    (config,) = yaml.safe_load(header)["configs"]
    (files,) = config["data_files"]
    assert (files["split"], files["path"]) == (task["test_split"], "pairs.jsonl")
