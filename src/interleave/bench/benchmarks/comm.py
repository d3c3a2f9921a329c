"""CoMM: documents of text and images, continued (`comm-continue`, task 3) or written for a topic
(`comm-document`, task 4).

Three calls per item: marks for the whole document; the expected content of the hidden images; whether the
images show it. If one call fails, the sample has no result file upstream and drops out of all means; `zero`
keeps it in the denominator. `bench convert-comm` makes JSON of the Hub's pickled data (`comm_data.py`).
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from interleave import ImagePart, InputError, Message, Sampling, Text, read_image
from interleave.bench.base import (
    Answers,
    Benchmark,
    Context,
    Dataset,
    Item,
    Judge,
    JudgeRecord,
    MissingOutput,
    Question,
    Unparsed,
)
from interleave.bench.benchmarks.image_files import as_jpeg, copy_image, file_name, within
from interleave.bench.datasets import digest_of, field, read_object, read_rows
from interleave.bench.numbers import Number, item_mean
from interleave.bench.outputs import Output, OutputPart
from interleave.bench.parsing import field_of, json_object, number_of
from interleave.bench.prompts import Constant, on_lines
from interleave.plugin import Part, make_folder, write_atomic

DOCUMENT, DESCRIPTIONS, FIDELITY = "document", "descriptions", "fidelity"
SIDE = 512
MAX_IMAGES = 10
"""Maximum images of input and output together. The document is cut after the last one."""
RESULTS = "results.json"
MARKS = {
    "Sty": ("Image_Coherence", "overall_score", "style_consistency"),
    "Enti": ("Image_Coherence", "overall_score", "entity_consistency"),
    "Tren": ("Image_Coherence", "overall_score", "trend_consistency"),
    "Comp": ("Completeness", "Score"),
    "ImgQ": ("Image_Quality", "Score"),
    "overall_consistency": ("Image_Coherence", "overall_score", "overall_consistency"),
}
"""Keys of the document's marks in the judge's reply."""
IMPORTED = {
    "Sty": ("coherence_score", "style_consistency"),
    "Enti": ("coherence_score", "entity_consistency"),
    "Tren": ("coherence_score", "trend_consistency"),
    "Comp": ("completeness", "Score"),
    "ImgQ": ("Image_Quality", "Score"),
    "overall_consistency": ("coherence_score", "overall_consistency"),
}
"""The same in upstream's `evaluation_results.json`."""
NOT_APPLICABLE = ("na", "n/a", "none", "null")
_MARKER = re.compile(r"\s*\((\d{1,4})\)(?=\s|$)")
_PROMPTS = "eval/tot_metric/machine_evaluation_prompts"

Shown = str | Path
"""A piece of a document: text, or an image file."""


class CoMM(Benchmark):
    """Base of both tasks."""

    task: ClassVar[str]
    """Upstream's name, a suffix of its results folders."""
    licence = "CC-BY-4.0 (images: their websites')"
    judge = Judge("gpt-4o", "openai:gpt-4o")
    full_marks = 10.0
    asks_as = "comm"
    official_prompts: ClassVar[Mapping[str, Constant]] = {
        DOCUMENT: Constant(f"{_PROMPTS}/document_completeness_image_coherence.json"),
        DESCRIPTIONS: Constant(f"{_PROMPTS}/texts_to_image_descriptions.json"),
        FIDELITY: Constant(f"{_PROMPTS}/descriptions_gt_images_consistency.json"),
    }
    about = (
        "a mark that the judge calls not applicable counts as 0, as in upstream; the planner's training "
        "set holds CoMM data, so this is partly in-domain"
    )

    def read(self, folder: Path) -> Dataset:
        files = _json_files(folder)
        samples = {} if files or folder.is_file() else self._samples(folder)
        if not files and not samples:
            _refuse(folder, self.task)
        notes: list[str] = []
        if files:
            root = folder.parent if folder.is_file() else folder
            items = list(self._from_rows(files, root, notes))
        else:
            items = [self._from_results(identity, path) for identity, path in samples.items()]
            files = [path / RESULTS for path in samples.values()]
        full = [item for item in items if len(_images(item.parts)) >= MAX_IMAGES]
        if full:
            notes.append(
                f"{len(full):,} items are left out, as in upstream: their input has {MAX_IMAGES} "
                "images or more"
            )
        kept = tuple(item for item in items if len(_images(item.parts)) < MAX_IMAGES)
        if not kept:
            raise InputError(f"{folder} has no item for {self.task} ({'; '.join(notes) or 'nothing found'})")
        return Dataset(kept, digest_of(files), str(folder), (f"{len(kept):,} items", *notes))

    @abstractmethod
    def request(self, topic: str, steps: Sequence[Sequence[Shown]]) -> tuple[Shown, ...] | None:
        """Build the request from the steps of a document; `None` if it would be empty."""

    def given(self, steps: Sequence[Any]) -> int:
        """Return the number of steps given to the system."""
        return 0

    def _from_rows(self, files: Sequence[Path], root: Path, notes: list[str]) -> Iterator[Item]:
        bare = rotten = short = 0
        rows = (row for path in files for row in read_rows(path))
        for number, row in enumerate(rows, start=1):
            where = f"row {number}"
            steps, missing = _steps_of(row, root, where)
            given = self.given(steps)
            if not any(isinstance(piece, Path) for step in steps for piece in step) and not missing:
                bare += 1
                continue
            if missing & set(range(given)):
                rotten += 1
                continue
            parts = self.request(_topic(row, where), steps)
            if parts is None:
                short += 1
                continue
            references = [piece for step in steps[given:] for piece in step if isinstance(piece, Path)]
            group = row.get("dataset_type")
            yield Item(
                str(row.get("data_id")),
                group if isinstance(group, str) and group else "all",
                parts,
                {"first": given + 1, "references": references},
            )
        if bare:
            notes.append(f"{bare:,} documents without images are left out")
        if rotten:
            notes.append(f"{rotten:,} items are left out because input images are not in the folder")
        if short:
            notes.append(f"{short:,} documents of one step are left out: they have no first half to give")
        notes.append("requests use our wording; results folders have upstream's")

    def _samples(self, folder: Path) -> dict[str, Path]:
        """Return the results folders by item."""
        ending = f"_{self.task}"
        return {
            path.name.removesuffix(ending): path
            for path in sorted(folder.glob(f"*{ending}"))
            if (path / RESULTS).is_file()
        }

    def _from_results(self, identity: str, sample: Path) -> Item:
        found = read_object(sample / RESULTS)
        text = field(found, "model_input", str, str(sample / RESULTS))
        images = _named(found, "input_image_list", sample, "origin")
        parts = tuple(_interleaved(text, images))
        steps = [int(marker) for marker in re.findall(r"\((\d{1,4})\)", text)]
        references = _named(found, "output_gt_image_list", sample, "origin", needed=False)
        return Item(
            identity,
            "all",
            parts,
            {"first": max(steps, default=0) + 1, "references": references, "asked": text},
        )

    # judging

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return (DOCUMENT, DESCRIPTIONS, FIDELITY)

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        if output is None:
            raise MissingOutput("no output")
        asked = [part for part in item.parts if isinstance(part, str | Path)]
        first = len(_images(asked))
        answered = _cut(_document(output, context.folder), MAX_IMAGES - first)
        images = _images(answered)
        if key != DOCUMENT and not images:
            raise MissingOutput("the document has no images")
        if key == FIDELITY:
            said = context.records.get(DESCRIPTIONS)
            if said is None or said.status != "ok":
                raise Unparsed("the judge did not describe the expected images")
            parts = _described(said.value, images)
        else:
            shown = _numbered(asked, 0, hidden=False)
            parts = [
                Text("INPUT:"),
                *shown,
                Text("OUTPUT:"),
                *_numbered(answered, first, hidden=key == DESCRIPTIONS),
            ]
        return Question(
            (Message("system", (Text(context.prompts.templates[key]),)), Message("user", on_lines(parts))),
            {
                DOCUMENT: _marks,
                DESCRIPTIONS: lambda reply: _descriptions(reply, first, len(images)),
                FIDELITY: _fidelity,
            }[key],
            Sampling(temperature=1.0),
        )

    # numbers

    def worst(self, key: str) -> Any:
        return {DOCUMENT: dict.fromkeys(MARKS, 0.0), DESCRIPTIONS: [], FIDELITY: 0.0}[key]

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        document, described, fidelity = answers[DOCUMENT], answers[DESCRIPTIONS], answers[FIDELITY]
        if document is None or described is None or fidelity is None:  # upstream writes all three or none
            return dict.fromkeys((*MARKS, "IRS"))
        return {**{name: document[name] or 0.0 for name in MARKS}, "IRS": fidelity}

    def numbers(self) -> Sequence[Number]:
        names = ("Sty", "Enti", "Tren", "Comp", "ImgQ", "IRS", "overall_consistency")
        return [item_mean(name, name, most=self.full_marks) for name in names]

    # the official layout

    def export(self, dataset: Dataset, outputs: Mapping[str, Output], base: Path, folder: Path) -> None:
        for item in dataset.items:
            if (output := outputs.get(item.id)) is not None:
                self._export(item, output, base, folder / f"{file_name(item.id)}_{self.task}")

    def _export(self, item: Item, output: Output, base: Path, sample: Path) -> None:
        asked = [part for part in item.parts if isinstance(part, str | Path)]
        document = _document(output, base, first=item.facts["first"])
        make_folder(sample / "origin")
        names: dict[str, list[str]] = {}
        first = len(_images(asked)) + 1
        for field_name, place, name, start, images in (
            ("input_image_list", sample / "origin", "input", 1, _images(asked)),
            ("output_gt_image_list", sample / "origin", "output_gt", first, item.facts["references"]),
            ("prediction_image_list", sample, "predict", first, _images(document)),
        ):
            names[field_name] = [
                f"{name}_{number}{path.suffix}" for number, path in enumerate(images, start=start)
            ]
            for path, copy in zip(images, names[field_name], strict=True):
                copy_image(path, place / copy)
        result = {
            "model_input": item.facts.get("asked") or _flat(asked),
            "model_output": _flat(document),
            **names,
        }
        write_atomic(sample / RESULTS, json.dumps(result, ensure_ascii=False, indent=4).encode())

    def import_outputs(self, dataset: Dataset, folder: Path) -> Iterator[Output]:
        known = {file_name(item.id): item.id for item in dataset.items}
        samples = self._samples(folder)
        if not samples:
            raise InputError(f"{folder} has no folder *_{self.task} with a {RESULTS}")
        for name, sample in samples.items():
            if name not in known:
                raise InputError(f"{sample} answers an unknown item {name!r}")
            found = read_object(sample / RESULTS)
            text = field(found, "model_output", str, str(sample / RESULTS))
            pieces = _interleaved(text, _named(found, "prediction_image_list", sample, "."))
            parts = tuple(
                OutputPart(text=piece) if isinstance(piece, str) else OutputPart(image=str(piece))
                for piece in _by_step(pieces)
            )
            yield Output(item=known[name], parts=parts)

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        known = {file_name(item.id): item.id for item in dataset.items}
        samples = sorted(path.glob(f"*_{self.task}/evaluation_results.json"))
        if not samples:
            raise InputError(f"{path} has no folder *_{self.task} with an evaluation_results.json")
        for sample in samples:
            identity = known.get(sample.parent.name.removesuffix(f"_{self.task}"))
            if identity is None:
                raise InputError(f"{sample.parent} judges an unknown item")
            try:
                found = read_object(sample)
                marks = {name: _mark(_at(found, place)) for name, place in IMPORTED.items()}
                fidelity = _mark(_at(found, ("text fidelity to images", "Score"))) or 0.0
            except (InputError, Unparsed):
                continue  # upstream's script skips what it cannot read
            for key, value in ((DOCUMENT, marks), (DESCRIPTIONS, []), (FIDELITY, fidelity)):
                yield JudgeRecord(item=identity, key=key, output="", status="ok", value=value)


class CoMMContinue(CoMM):
    """Task 3: continue the first half of a document."""

    name = "comm-continue"
    title = "CoMM, continuation (task 3)"
    task = "task3"

    def given(self, steps: Sequence[Any]) -> int:
        return len(steps) // 2

    def request(self, topic: str, steps: Sequence[Sequence[Shown]]) -> tuple[Shown, ...] | None:
        given = self.given(steps)
        if not given:
            return None
        parts: list[Shown] = [f"These are the first steps of illustrated instructions about {topic}:"]
        for number, step in enumerate(steps[:given], start=1):
            parts += _with_marker(step, number)
        return (*parts, "Continue with the steps that follow, each with text and an image.")


class CoMMDocument(CoMM):
    """Task 4: write a document for a topic."""

    name = "comm-document"
    title = "CoMM, document for a question (task 4)"
    task = "task4"

    def request(self, topic: str, steps: Sequence[Sequence[Shown]]) -> tuple[Shown, ...] | None:
        return (f"Write step-by-step instructions with images about {topic}.",)


# data


def _json_files(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder] if folder.suffix in (".json", ".jsonl") else []
    return sorted(path for suffix in ("json", "jsonl") for path in folder.glob(f"*.{suffix}"))


def _refuse(folder: Path, task: str) -> None:
    pickled = folder.suffix in (".pth", ".pt", ".pkl") or any(folder.glob("*.pth"))
    reason = (
        "has only pickled data (.pth), which is not opened here because it can run code: convert it with "
        "'interleave bench convert-comm FILE.pth --out DIR --images' and give DIR"
        if pickled
        else f"has neither a .json or .jsonl file of items nor folders *_{task} with a {RESULTS}"
    )
    raise InputError(f"{folder} {reason}")


def _topic(row: Mapping[str, Any], where: str) -> str:
    for name in ("title", "summary_info"):
        if isinstance(text := row.get(name), str) and text.strip():
            return text.strip()
    raise InputError(f"{where}: neither 'title' nor 'summary_info' gives the topic")


def _steps_of(row: Mapping[str, Any], root: Path, where: str) -> tuple[list[list[Shown]], set[int]]:
    """Return the steps of a document, and the indices of those whose image is not in the folder."""
    if not isinstance(row.get("data_id"), str | int):
        raise InputError(f"{where}: 'data_id' is {row.get('data_id')!r:.60}")
    steps: list[list[Shown]] = []
    missing = set()
    for place, step in enumerate(field(row, "step_info", list, where)):
        pieces: list[Shown] = []
        for piece in step if isinstance(step, list) else [None]:
            match piece:
                case {"type": "text", "content": str(text)}:
                    pieces += [text.strip()] if text.strip() else []
                case {"type": "image", "image_path": str(name)}:
                    path = within(root, name, f"images/{name}")
                    pieces += [path] if path is not None else []
                    missing |= set() if path is not None else {place}
                case {"type": "image"}:
                    missing.add(place)
                case _:
                    raise InputError(f"{where}: step {place + 1} has {piece!r:.60}")
        steps.append(pieces)
    return steps, missing


def _named(
    found: Mapping[str, Any], name: str, sample: Path, below: str, *, needed: bool = True
) -> list[Path]:
    """Return the images of a list of file names."""
    paths = []
    for each in field(found, name, list, str(sample / RESULTS)):
        path = within(sample, f"{below}/{each}", str(each))
        if path is not None:
            paths.append(path)
        elif needed:
            raise InputError(f"{sample / RESULTS}: {name} names a missing file {each!r:.80}")
    return paths


def _interleaved(text: str, images: Sequence[Path]) -> list[Shown]:
    """Replace each <IMAGE> in a text by its image. Placeholders without an image are dropped."""
    pieces: list[Shown] = []
    ahead = iter(images)
    for place, piece in enumerate(text.split("<IMAGE>")):
        if place and (image := next(ahead, None)) is not None:
            pieces.append(image)
        if piece.strip():
            pieces.append(piece.strip())
    return pieces


def _by_step(pieces: Sequence[Shown]) -> Iterator[Shown]:
    """Do the same, with every numbered step as a separate text."""
    for piece in pieces:
        if isinstance(piece, str):
            yield from (part.strip() for part in re.split(r"(?=\(\d{1,4}\)\s)", piece) if part.strip())
        else:
            yield piece


# documents


def _images(pieces: Sequence[Any]) -> list[Path]:
    return [piece for piece in pieces if isinstance(piece, Path)]


def _with_marker(step: Sequence[Shown], number: int) -> list[Shown]:
    """Prefix a step with its number in brackets, as in all CoMM documents."""
    if step and isinstance(step[0], str):
        return list(step) if _MARKER.match(step[0]) else [f"({number}) {step[0]}", *step[1:]]
    return [f"({number})", *step]


def _document(output: Output, base: Path, *, first: int = 1) -> list[Shown]:
    """Number the steps of an answer: by its own numbers if it has any, else one per text."""
    pieces: list[Shown] = [
        base / part.image if part.image is not None else (part.text or "").replace("<IMAGE>", "").strip()
        for part in output.parts
        if part.image is not None or part.text
    ]
    if any(isinstance(piece, str) and _MARKER.match(piece) for piece in pieces):
        return pieces
    steps: list[list[Shown]] = []
    for piece in pieces:
        if isinstance(piece, str) or not steps:
            steps.append([])
        steps[-1].append(piece)
    return [piece for number, step in enumerate(steps, first) for piece in _with_marker(step, number)]


def _cut(pieces: Sequence[Shown], most: int) -> list[Shown]:
    """Cut a document after its last allowed image."""
    kept: list[Shown] = []
    left = most
    for piece in pieces:
        if left == 0:
            break
        kept.append(piece)
        left -= isinstance(piece, Path)
    return kept


def _flat(pieces: Sequence[Shown]) -> str:
    return " ".join("<IMAGE>" if isinstance(piece, Path) else piece for piece in pieces)


def _numbered(pieces: Sequence[Shown], first: int, *, hidden: bool) -> list[Part]:
    """Return a document as the judge sees it, with its images between numbered marks."""
    parts: list[Part] = []
    number = first
    for piece in pieces:
        if isinstance(piece, str):
            parts.append(Text(piece))
            continue
        shown = [] if hidden else [_image(piece)]
        parts += [Text(f"<Img_{number}>"), *shown, Text(f"</Img_{number}>")]
        number += 1
    return parts


def _described(descriptions: Sequence[str], images: Sequence[Path]) -> list[Part]:
    """Pair each image with its expected content. A surplus description has no image."""
    parts: list[Part] = []
    for number, text in enumerate(descriptions):
        parts.append(Text(f"<Description_{number}> {text} </Description_{number}>"))
        if number < len(images):
            parts += [Text(f"<Img_{number}>"), _image(images[number]), Text(f"</Img_{number}>")]
    return parts


def _image(path: Path) -> ImagePart:
    image = read_image(path)
    scale = max(1.0, max(image.size) / SIDE)
    return ImagePart(as_jpeg(image, (max(1, int(image.width / scale)), max(1, int(image.height / scale)))))


# replies


def _at(found: Any, place: Sequence[str]) -> Any:
    for name in place:
        if not isinstance(found, dict):
            raise Unparsed(f"{found!r:.40} is not a valid {name!r}")
        found = field_of(found, name)
    return found


def _mark(value: Any) -> float | None:
    """Return a mark; `None` if the judge calls it not applicable."""
    if value is None or (isinstance(value, str) and value.strip().lower() in NOT_APPLICABLE):
        return None
    return number_of(value, low=0, high=10)


def _marks(reply: str) -> dict[str, float | None]:
    found = field_of(json_object(reply), "scores")
    return {name: _mark(_at(found, place)) for name, place in MARKS.items()}


def _descriptions(reply: str, first: int, images: int) -> list[str]:
    """Return the expected content of each image, in the order of their numbers in the document."""
    tasks = field_of(json_object(reply), "Tasks")
    named = next(iter(tasks.values()), None) if isinstance(tasks, dict) and len(tasks) == 1 else None
    if not isinstance(named, dict):
        raise Unparsed("the reply has no list of images")
    texts = []
    for number in range(first, first + len(named)):
        text = named.get(f"Content of Image {number}")
        if not isinstance(text, str):
            raise Unparsed(f"the reply does not describe image {number}")
        texts.append(text)
    if len(texts) < images:
        raise Unparsed(f"the reply describes {len(texts)} of {images} images")
    return texts


def _fidelity(reply: str) -> float:
    return _mark(_at(json_object(reply), ("Consistency", "overall_score"))) or 0.0
