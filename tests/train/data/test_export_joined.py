"""Foreign interleaved data that joins the planner's rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_folders import Try, make_image, write_run

from interleave.agents.replies import parse_plan
from interleave.errors import ConfigurationError, InputError
from interleave.train.data.export.joined import JoinedFile
from interleave.train.data.export.stage import ExportOptions, export
from interleave.train.data.select.stage import select


@pytest.fixture
def selection(tmp_path: Path) -> Path:
    write_run(tmp_path / "col", "run", [[Try()]])
    select([tmp_path / "col"], tmp_path / "selection")
    return tmp_path / "selection"


def joined_rows(selection: Path, joined: JoinedFile, *, skip_bad: bool = False) -> list[dict[str, Any]]:
    out = selection.parent / "rows"
    export(selection, out, ExportOptions(("swift",), validation=0, joined=(joined,), skip_bad=skip_bad))
    lines = (out / "swift" / "planner_sft.jsonl").read_text("utf-8").splitlines()
    return [row for row in map(json.loads, lines) if not row["id"].startswith("col/")]


def document(folder: Path, *, steps: int = 3) -> dict[str, Any]:
    """As CoMM has it."""
    (folder / "images").mkdir(exist_ok=True)
    for number in range(1, steps + 1):
        make_image(str(number)).save(folder / "images" / f"{number}.jpg")
    return {
        "data_id": "1",
        "title": "Growing cress",
        "summary_info": [],
        "step_info": [
            [
                {"type": "text", "content": f" Water it {number} times. "},
                {"type": "image", "image_path": f"{number}.jpg", "url": None},
            ]
            for number in range(1, steps + 1)
        ],
    }


def test_documents_of_comm_are_continued_and_annotated(selection: Path, tmp_path: Path) -> None:
    (tmp_path / "comm.json").write_text(json.dumps([document(tmp_path)]))
    continued, annotated, asked = joined_rows(selection, JoinedFile("comm", tmp_path / "comm.json"))
    assert len(asked["images"]) == 3
    cut = len(continued["images"])
    rest = parse_plan(continued["messages"][-1]["content"]).steps
    assert [(step.number, step.prompt) for step in rest] == [
        (number, f"Water it {number} times.") for number in range(cut + 1, 4)
    ]
    assert "Growing cress" in continued["messages"][1]["content"]
    texts = parse_plan(annotated["messages"][-1]["content"]).steps
    assert [step.caption for step in texts] == [f"Water it {number} times." for number in (1, 2, 3)]
    assert len(annotated["images"]) == annotated["messages"][1]["content"].count("<image>") == 3


@pytest.mark.parametrize("spelling", ["messages", "conversations"])
def test_conversations_of_sharegpt_join_as_they_are(selection: Path, tmp_path: Path, spelling: str) -> None:
    make_image("cat").save(tmp_path / "cat.png")
    turns = [("user", "What is <image> here?"), ("assistant", "A plan <|im_end|>.")]
    if spelling == "messages":
        row: dict[str, Any] = {"messages": [{"role": role, "content": text} for role, text in turns]}
    else:
        names = {"user": "human", "assistant": "gpt"}
        row = {"conversations": [{"from": names[role], "value": text} for role, text in turns]}
    (tmp_path / "rows.jsonl").write_text(json.dumps({**row, "images": ["cat.png"]}) + "\n")
    [joined] = joined_rows(selection, JoinedFile("sharegpt", tmp_path / "rows.jsonl"))
    assert joined["id"] == "rows/1"
    assert joined["messages"] == [
        {"role": "user", "content": "What is <image> here?"},
        {"role": "assistant", "content": "A plan <\u200b|im_end|>."},
    ]
    assert len(joined["images"]) == 1


BAD = [
    ({"messages": [{"role": "user", "content": "hi"}]}, "the last turn is not an answer"),
    (
        {"messages": [{"role": "user", "content": "<image>"}, {"role": "assistant", "content": "a"}]},
        "1 × <image> in the text, but 0 images",
    ),
    (
        {
            "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "<image>"}],
            "images": ["cat.png"],
        },
        "contains an image",
    ),
    (
        {
            "messages": [{"role": "user", "content": "<image>"}, {"role": "assistant", "content": "a"}],
            "images": ["../../etc/cat.png"],
        },
        "is not below the folder",
    ),
    (
        {
            "messages": [{"role": "user", "content": "<image>"}, {"role": "assistant", "content": "a"}],
            "images": ["gone.png"],
        },
        "'gone.png' does not exist",
    ),
    ({"text": "hi"}, "'conversations' is missing"),
    ([], "has no attribute"),
]


@pytest.mark.parametrize(("row", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_I07_a_bad_row_is_told_with_its_number(
    selection: Path, tmp_path: Path, row: Any, reason: str
) -> None:
    make_image("cat").save(tmp_path / "cat.png")
    good = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "a"}]}
    (tmp_path / "rows.json").write_text(json.dumps([good, row]))
    joined = JoinedFile("sharegpt", tmp_path / "rows.json")
    with pytest.raises(InputError) as refusal:
        joined_rows(selection, joined)
    assert "rows.json:2" in str(refusal.value) and reason in str(refusal.value)
    assert [each["id"] for each in joined_rows(selection, joined, skip_bad=True)] == ["rows/1"]


def test_a_pickle_is_never_opened(selection: Path, tmp_path: Path) -> None:
    (tmp_path / "train_data.pth").write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")
    with pytest.raises(InputError, match="is a pickle"):
        joined_rows(selection, JoinedFile("comm", tmp_path / "train_data.pth"))
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("text", "reason"), [("comm", "FORMAT:PATH"), ("coco:x.json", "no join format 'coco'")]
)
def test_what_to_join_must_be_said_in_full(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        JoinedFile.parse(text)


TURNS = [{"role": "user", "content": "What now?"}, {"role": "assistant", "content": "This."}]


def test_I05_text_that_no_file_can_hold_is_named_and_the_others_are_joined(
    selection: Path, tmp_path: Path
) -> None:
    cut_off = [{"role": "user", "content": "Look \ud83d"}, TURNS[1]]
    rows = [{"messages": cut_off}, {"messages": TURNS}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    joined = JoinedFile("sharegpt", tmp_path / "rows.jsonl")
    with pytest.raises(InputError, match=r"rows\.jsonl:1: a text contains half of a surrogate pair"):
        joined_rows(selection, joined)
    assert [row["id"] for row in joined_rows(selection, joined, skip_bad=True)] == ["rows/2"]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("x.jsonl", b'{"messages": []}\n{\n', r"x\.jsonl:2 cannot be read as JSON"),
        ("x.jsonl", b"[" * 100_000 + b"\n", r"x\.jsonl:1 cannot be read as JSON \(maximum recursion"),
        ("x.jsonl", b'{"a": "\xff"}\n', r"x\.jsonl:1 cannot be read as JSON"),
        ("x.json", b"[" * 100_000, r"x\.json cannot be read as JSON \(maximum recursion"),
        ("x.json", b"[" + b"9" * 5000 + b"]", r"x\.json cannot be read as JSON"),
        ("x.json", b"{}", r"x\.json must contain a list"),
    ],
)
def test_I07_a_file_that_is_no_json_is_refused_by_name_and_line(
    name: str, data: bytes, said: str, selection: Path, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=said):
        joined_rows(selection, JoinedFile("sharegpt", tmp_path / name))


def test_I07_a_line_without_an_end_is_refused_by_its_number(
    selection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interleave.train.data.export.joined.MAX_DOCUMENT_BYTES", 1000)
    (tmp_path / "x.jsonl").write_bytes(b'{"messages": []}\n' + b" " * 999 + b"{}" * 1000)
    with pytest.raises(InputError, match=r"x\.jsonl:2 has more than 1,000 bytes"):
        joined_rows(selection, JoinedFile("sharegpt", tmp_path / "x.jsonl"))
