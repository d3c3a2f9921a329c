"""Files that the data stages read: corpora, records of the reference, scores, selections, manifests."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import ValidationError

from fuzzing import REFUSED, attempt, journals, scratch, spare_text, target
from interleave.agents.prompts import PromptPack, load_pack
from interleave.backends.protocols import Reply
from interleave.batches.requests import read_requests
from interleave.errors import InputError, InterleaveError, ReplyError
from interleave.runs.record import RECORD_NAME
from interleave.train.data.export.joined import JoinedFile, read_documents, read_items
from interleave.train.data.export.rows import conversation
from interleave.train.data.import_runs.records import (
    ImportedRun,
    is_result_list,
    read_answer,
    read_json,
    read_record,
    run_from_answer,
)
from interleave.train.data.import_runs.run_folder import refuse_unusable
from interleave.train.data.import_runs.stage import REPORT, import_all, read_results
from interleave.train.data.manifest import Manifest, read_manifest, write_manifest
from interleave.train.data.prompts.corpus import read_corpora, refuse_bad
from interleave.train.data.prompts.expand import (
    Expansion,
    ExpansionReply,
    _add_reply,
    fingerprint,
    read_replies,
    read_reply,
)
from interleave.train.data.prompts.taxonomy import OUR_WORLD, Taxonomy, read_taxonomy
from interleave.train.data.score_file import Unscored, _spent, read_scores
from interleave.train.data.select.selection import Selected, read_collection_paths, read_selection
from interleave.train.data.sequences import sequence, why_left_out
from interleave.train.data.trajectories import Trajectory, read_collection, read_trajectory
from interleave.types import Scores

INSIDE, OUTSIDE = (0, 128, 128), (255, 0, 0)
IMAGES = ("cat.png", "step1_0.png", "step1_2.png", "step2_4.png", "white.png")


def plant(folder: Path) -> None:
    """Images in a folder, one outside it, and a link from here to there."""
    for name in IMAGES:
        (folder / name).write_bytes(a_png(INSIDE))
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "secret.png").write_bytes(a_png(OUTSIDE))
    (folder / "link.png").symlink_to(outside / "secret.png")


@lru_cache
def a_png(colour: tuple[int, int, int]) -> bytes:
    from interleave.images import encode_png

    return encode_png(Image.new("RGB", (8, 8), colour))


def is_from_outside(image: Image.Image) -> bool:
    return image.convert("RGB").getpixel((0, 0)) == OUTSIDE


CORPUS = (
    {"id": 1, "user_input": "Go on from <image> please", "user_input_image": "cat.png"},
    {"id": "b", "user_input": "How a frog grows up", "domain": "science"},
    {
        "id": "c",
        "request": [{"image": "step1_0.png"}, {"text": "in two steps"}],
        "mine": [1],
        "split": "test",
    },
    {"request": "The moon in four pictures", "suite": "story"},
)
CORPUS_WORDS = (
    b'"user_input"',
    b'"user_input_image"',
    b"<image>",
    b'["cat.png", "link.png"]',
    b'"id": "\\ud83d"',
    b'"request"',
    b"link.png",
)


@target([b"\n".join(json.dumps(line).encode() for line in CORPUS) + b"\n"], words=CORPUS_WORDS, examples=32)
def foreign_corpus(data: bytes) -> bool:
    """What is taken into a corpus can be written, and read again as requests."""
    with scratch() as folder:
        plant(folder)
        path = folder / "corpus.jsonl"
        path.write_bytes(data)
        read = attempt(lambda: read_corpora([path], threshold=0.8))
        if not isinstance(read, tuple):
            return False
        corpus, images = read
        attempt(lambda: refuse_bad(corpus))
        assert not any(is_from_outside(Image.open(source)) for source in images.values())
        if not corpus.rows:
            return False
        out = folder / "out"
        (out / "images").mkdir(parents=True)
        for name, source in images.items():
            (out / "images" / name).write_bytes(source.read_bytes())
        (out / "requests.jsonl").write_bytes(b"".join(row.line() for row in corpus.rows))
        items, _ = read_requests(out / "requests.jsonl")
        assert [item.id for item in items] == [row.id for row in corpus.rows]
        return True


PLAN = [
    {"step_number": 1, "step_name": "a", "instruction": "Draw.", "prompt": "a ball", "auxiliary_text": None},
    {
        "step_number": 2,
        "step_name": "b",
        "instruction": "Add.",
        "prompt": "add a box",
        "auxiliary_text": "Two.",
    },
]


def a_try(step: int, target_img: str, success: bool, refined: str = "") -> dict[str, Any]:
    return {
        "step": step,
        "prompt": PLAN[step - 1]["prompt"],
        "refine_prompt": refined,
        "source_img": "/their/disk/white.png" if step == 1 else "/their/disk/step1_2.png",
        "target_img": f"/their/disk/{target_img}",
        "success": success,
        "reasoning": "Because.",
    }


RECORD = {
    "user_input": "Show a ball and a box.",
    "global_context": {"reasoning": "Two steps.", "execution_plan": PLAN},
    "steps": [
        a_try(1, "step1_0.png", False, "a red ball"),
        a_try(1, "step1_2.png", True),
        a_try(2, "step2_4.png", True),
    ],
}
SHORT_RECORD = {
    "1": {"prompt": "a ball", "refine_prompt": "", "source_img": "white.png", "target_img": "step1_0.png"},
    "2": {
        "prompt": "a box",
        "refine_prompt": "a big box",
        "source_img": "step1_0.png",
        "target_img": "step2_4.png",
    },
}
RESULTS = [
    {
        "id": 7,
        "prompt": "Show a ball.",
        "image_answer": ["step1_0.png", "step1_2.png"],
        "text_answer": "It rolls.",
    },
    {"id": "x", "prompt": "Tell me.", "image_answer": [], "text_answer": "Words."},
]
RECORD_WORDS = (
    *(
        b'"step": 2',
        b'"success": false',
        b'"execution_plan"',
        b'"target_img": "link.png"',
        b'"source_img"',
        b'"id": "\\ud83d"',
    ),
    *(
        b'"step_number"',
        b'"image_answer"',
        b"link.png",
        b'"user_input"',
        '"²"'.encode(),
        b'"refine_prompt": null',
    ),
)
RECORDS = tuple(json.dumps(each).encode() for each in (RECORD, SHORT_RECORD, RESULTS))


@target(RECORDS, words=RECORD_WORDS, examples=48)
def reference_record(data: bytes) -> bool:
    """A record of the reference as it is read; nothing is written yet."""
    with scratch() as folder:
        plant(folder)
        path = folder / "execution_record.json"
        path.write_bytes(data)
        value = attempt(lambda: read_json(path))
        runs = [
            attempt(
                lambda: read_record(path, folder, source="x", request_text="Show it.", text="The end."),
                errors=(InterleaveError, ValidationError),
            )
        ]
        if is_result_list(value):
            for item in value:  # type: ignore[attr-defined]
                answer = attempt(lambda item=item: read_answer(item))
                if answer is not REFUSED:
                    made = lambda answer=answer: run_from_answer(answer, folder, folder, source="x", time=0.0)  # noqa: E731
                    runs.append(attempt(made, errors=(InterleaveError, ValidationError)))
        read = [run for run in runs if isinstance(run, ImportedRun)]
        for run in read:
            attempt(lambda run=run: refuse_unusable(run))
            named = [
                part
                for part in (*run.request, *(each.image for each in run.attempts))
                if isinstance(part, Path)
            ]
            assert not any(is_from_outside(Image.open(path)) for path in named), "an image from outside"
        return bool(read)


@target(RECORDS, words=RECORD_WORDS, examples=10, weight=0.15)
def reference_import(data: bytes) -> bool:
    """The whole stage: run folders that every later stage reads, and a line for everything."""
    with scratch() as folder:
        src = folder / "src" / "7"
        src.mkdir(parents=True)
        plant(src)
        (src / "execution_record.json").write_bytes(data)
        (src.parent / "results.json").write_bytes(RECORDS[2])
        out = folder / "out"
        outcomes = attempt(lambda: import_all(folder / "src", out))
        assert {path.name for path in folder.iterdir()} <= {"src", "out"}
        if not isinstance(outcomes, list):
            return False
        assert len(list(read_results(out))) == len(outcomes) == len((out / REPORT).read_bytes().splitlines())
        made = sorted(path.name for path in (out / "runs").iterdir()) if (out / "runs").exists() else []
        assert len(made) == len({each.run for each in outcomes if each.run})
        for trajectory in read_collection(out, skipped=Counter()) if made else ():
            journals.look_through(trajectory)
            for step in trajectory.record.steps:
                for each in step.attempts:
                    assert not is_from_outside(trajectory.store.get(each.image)), "an image from outside"
        return any(each.run for each in outcomes)


SCORES = (
    {"run": "runs/a", "step": 1, "attempt": 1, "semantics": 7.0, "quality": 8.5, "calls": 2, "cost": 0.01},
    {"run": "runs/a", "step": 1, "attempt": 2, "failure": "no answer", "calls": 1},
    {"run": "runs/b", "step": 2, "attempt": 1, "semantics": 0, "quality": 10},
)


@target(
    [b"".join(json.dumps(line).encode() + b"\n" for line in SCORES)],
    words=(b'"semantics"', b'"failure"', b'"calls": "x"', b'"run"'),
    examples=32,
)
def score_file(data: bytes) -> bool:
    with scratch() as folder:
        (folder / "scores").mkdir()
        path = folder / "scores" / "solid.jsonl"
        path.write_bytes(data)
        scores = attempt(lambda: read_scores(folder), errors=InputError)
        if not isinstance(scores, dict):
            return False
        for (run, step, number), score in scores.items():
            assert type(run) is str and type(step) is int and type(number) is int
            assert isinstance(score, Unscored) or 0 <= score.overall <= 10, score
            assert (
                not isinstance(score, Scores) or Scores.model_validate_json(score.model_dump_json()) == score
            )
        spent = attempt(lambda: _spent([path]), errors=InputError)
        if isinstance(spent, tuple):
            calls, cost = spent
            assert type(calls) is int and calls >= 0 and 0 <= cost < float("inf"), spent
        return bool(scores)


def manifest_seeds() -> list[bytes]:
    made = Manifest(
        stage="select", options={"ratio": 0.5}, inputs={"a": "b"}, counts={"runs": 3}, notes=("x",)
    )
    return [made.model_dump_json().encode()]


@target(manifest_seeds, words=(b'"version": 2', b'"counts"', b'"stage"'))
def manifest(data: bytes) -> bool:
    with scratch() as folder:
        path = folder / "a.manifest.json"
        path.write_bytes(data)
        read = attempt(lambda: read_manifest(path), errors=InputError)
        if not isinstance(read, Manifest):
            return False
        write_manifest(path, read)
        assert same_values(read_manifest(path), read)
        return True


def same_values(one: Manifest, other: Manifest) -> bool:
    """Equal as they are written: a NaN is not equal to itself, and the order of keys says nothing."""
    texts = [json.dumps(each.model_dump(mode="json"), sort_keys=True) for each in (one, other)]
    return texts[0] == texts[1]


SELECTION = (
    {
        "collection": "col",
        "run": "a",
        "step": 1,
        "attempt": 1,
        "part": "sft",
        "accepted": True,
        "semantics": 7.0,
        "copies": 1,
    },
    {"collection": "col", "run": "a", "step": 1, "attempt": 2, "part": "dropped", "reason": "unscored"},
)


@target(
    [b"".join(json.dumps(line).encode() + b"\n" for line in SELECTION)],
    words=(b'"part": "rl"', b'"copies": -1', b'"run": "../.."'),
)
def selection(data: bytes) -> bool:
    with scratch() as folder:
        (folder / "selection.jsonl").write_bytes(data)
        lines = attempt(lambda: list(read_selection(folder)), errors=InputError)
        for line in lines if isinstance(lines, list) else ():
            assert isinstance(line, Selected) and line.copies >= 0
        return bool(lines)


@target([b'{"col": "col", "other": "../inside/col"}'], words=(b'"col"', b'".."', b'"/"'))
def selection_places(data: bytes) -> bool:
    with scratch() as folder:
        (folder / "col").mkdir()
        (folder / "collections.json").write_bytes(data)
        places = attempt(lambda: read_collection_paths(folder), errors=InputError)
        return isinstance(places, dict)


COMM = [
    {
        "title": "Growing cress",
        "step_info": [
            [{"type": "text", "content": "Water it."}, {"type": "image", "image_path": "step1_0.png"}],
            [{"type": "text", "content": "Wait."}, {"type": "image", "image_path": "step1_2.png"}],
            [{"type": "text", "content": "Eat it."}],
        ],
    }
]
SHAREGPT = [
    {
        "messages": [
            {"role": "user", "content": "What is <image> here?"},
            {"role": "assistant", "content": "A cat <|im_end|>."},
        ],
        "images": ["cat.png"],
    },
    {
        "conversations": [{"from": "human", "value": "<image>Hi"}, {"from": "gpt", "value": "Yes."}],
        "image": "cat.png",
    },
]
JOINED_WORDS = (
    b"<image>",
    b"<IMAGE>",
    b'"type": "image"',
    b'"image_path"',
    b"link.png",
    b'"step_info"',
    b'"from"',
    b'"images": null',
    b"<video>",
)


def check_joined(data: bytes, form: str, name: str) -> bool:
    """Every document becomes rows whose marks and images agree, or is named with its problem."""
    with scratch() as folder:
        plant(folder)
        path = folder / name
        path.write_bytes(data)
        items = attempt(lambda: list(read_items(path)), errors=InputError)
        if not isinstance(items, list):
            return False
        problems: list[str] = []
        documents = list(read_documents(JoinedFile(form, path), items, the_pack(), Counter(), problems))
        assert len(documents) + len(problems) == len(items)
        for row in (row for document in documents for row in document.rows):
            messages = conversation(row)
            json.dumps(messages, ensure_ascii=False).encode()
            assert not any(is_from_outside(Image.open(each.path)) for each in row.images if each.path)
        return bool(documents)


@cache
def the_pack() -> PromptPack:
    return load_pack()


@target([json.dumps(COMM).encode()], words=JOINED_WORDS, examples=24)
def comm(data: bytes) -> bool:
    return check_joined(data, "comm", "comm.json")


@target([b"\n".join(json.dumps(row).encode() for row in SHAREGPT) + b"\n"], words=JOINED_WORDS, examples=24)
def sharegpt(data: bytes) -> bool:
    return check_joined(data, "sharegpt", "rows.jsonl")


@target(
    journals.record_seeds,
    words=(b"<image>", b"</gthink>", b"<plan>", b'"status":"done"'),
    examples=20,
    weight=0.5,
)
def sequences(data: bytes) -> bool:
    """A trajectory as one text: as many marks as images, and no mark from what somebody wrote."""
    with scratch() as folder:
        run = folder / "run"
        (run / "images").parent.mkdir()
        (run / "images").symlink_to(journals.finished() / "images")
        (run / RECORD_NAME).write_bytes(data)
        trajectory = read_trajectory(folder, "run")
        if not isinstance(trajectory, Trajectory):
            return False
        for reflection in (False, True):
            if why_left_out(trajectory, reflection=reflection):
                continue
            item = attempt(
                lambda reflection=reflection: sequence(trajectory, reflection=reflection, folder=folder)
            )
            if isinstance(item, dict):
                told = "".join(message["content"] for message in item["messages"])
                assert told.count("<img_token>") == len(item["images"])
                json.dumps(item, ensure_ascii=False).encode()
        return True


@cache
def small_taxonomy() -> Taxonomy:
    return Taxonomy(read_taxonomy().subcategories[:1])


def expansion_seeds() -> list[bytes]:
    slots = small_taxonomy().subcategories[0].own
    answer = {
        "words": {slot: ["a new thing", "an old thing"] for slot in slots},
        "requests": ["Show me how a cat sleeps."],
    }
    return [json.dumps(answer).encode(), f"Here:\n```json\n{json.dumps(answer, indent=1)}\n```".encode()]


@target(expansion_seeds, words=(b'"words"', b'"requests"', b'["x"]'), examples=24)
def expansion(data: bytes) -> bool:
    """What a model says about a sub-category, journalled and taken up again."""
    subcategory = small_taxonomy().subcategories[0]
    value = attempt(lambda: read_reply(Reply(spare_text(data))), errors=ReplyError)
    if not isinstance(value, dict):
        return False
    answered = ExpansionReply(asked=fingerprint(subcategory), text=json.dumps(value, ensure_ascii=False))
    with scratch() as folder:
        path = folder / "journal.jsonl"
        path.write_bytes(answered.model_dump_json().encode() + b"\n")
        (again,) = read_replies(path)
    made = Expansion()
    _add_reply(subcategory, again, made)
    made.apply_to(small_taxonomy())
    for text in (text for texts in made.requests.values() for text in texts):
        text.encode()
    return True


def taxonomy_seeds() -> list[bytes]:
    smallest = sorted(OUR_WORLD.glob("*.toml"), key=lambda path: path.stat().st_size)[0]
    return [smallest.read_bytes()[:LARGEST_TAXONOMY]]


LARGEST_TAXONOMY = 60_000


@target(
    taxonomy_seeds,
    words=(b"{", b"}", b"[[subcategory]]\n", b"templates = [", b"[banks]\n"),
    examples=10,
    weight=0.3,
)
def taxonomy(data: bytes) -> bool:
    with scratch() as folder:
        (folder / "a.toml").write_bytes(data)
        return isinstance(attempt(lambda: read_taxonomy(folder)), Taxonomy)
