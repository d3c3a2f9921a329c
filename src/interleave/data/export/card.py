"""The dataset card: what an export holds, where it comes from, how to load it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from interleave.data.export.images import PictureForm
from interleave.data.export.lengths import Lengths
from interleave.data.export.rows import Kind
from interleave.data.export.worker import Job
from interleave.data.formats import FORMATS
from interleave.data.manifest import Manifest

FILE_NAME = "README.md"
WHAT = {
    "planner_sft": "requests and plans: whole ones, the rest of begun ones, and annotations of pictures",
    "critic_sft": "attempts and the verdicts on them",
    "critic_rl": "attempts with their label and scores, which a redraw has to beat",
    "agent_sft": "`planner_sft` and `critic_sft` together, for one agent that does both jobs",
}
LOADING = {
    "trl": '`datasets.load_dataset("parquet", data_files="trl/critic_sft.parquet")`',
    "llamafactory": "`--dataset_dir llamafactory --dataset interleave_critic_sft`; no reinforcement learning",
    "swift": "`--dataset critic_sft.jsonl`, run from the folder `swift` or with ROOT_IMAGE_DIR set to it",
    "verl": "`data.train_files=verl/critic_rl.parquet`, `data.image_key=images`"
    "; SFT: `data.messages_key=messages`",
    "easyr1": "`data.train_files=easyr1/critic_rl.jsonl`, `data.image_dir=easyr1`; the answer is JSON",
    "reference": "its own `critic_rl.jsonl`; absolute paths, so it stays where it was made",
}


def write_card(
    folder: Path, manifest: Manifest, job: Job, lengths: Mapping[Kind, Lengths], makers: Counter[str]
) -> None:
    text = "\n".join(_lines(manifest, job, lengths, makers))
    (folder / FILE_NAME).write_text(text + "\n", "utf-8")


def _lines(
    manifest: Manifest, job: Job, lengths: Mapping[Kind, Lengths], makers: Counter[str]
) -> Iterator[str]:
    yield from _front_matter(manifest, job)
    yield "# Rows for an interleaving planner and critic\n"
    yield f"Made by `interleave data export` ({manifest.software}) from run folders.\n"
    yield "| rows | what |\n|---|---|"
    kinds = sorted({name.split("/")[2] for name in _files(manifest)})
    yield from (f"| `{kind}` | {WHAT[kind]} |" for kind in kinds)
    yield "\n## Files\n\n| file | rows |\n|---|--:|"
    yield from (f"| `{_path(name)}` | {rows:,} |" for name, rows in _files(manifest).items())
    yield "\n## Loading\n"
    yield from (f"- {FORMATS[name].trainer}: {LOADING[name]}" for name in job.formats)
    yield "\n## How it was made\n"
    yield f"- Words: prompt pack `{job.pack.name}`, digest `{job.pack.digest}`."
    yield from (
        f"- {number:,} runs with {maker.replace(' ', ' `', 1)}`." for maker, number in sorted(makers.items())
    )
    yield f"- Validation: {job.validation:.1%} of the requests, by hash; all rows of a request go one way."
    if job.pictures is PictureForm.EMBEDDED:
        yield "- Pictures: held here, in the parquet files or in `images/` beside the rows."
    else:
        yield "- Pictures: named by absolute path; moving the collections breaks the rows."
    yield "- `<image>` and control tokens typed in texts are broken by a zero-width space."
    yield "\n## Lengths in tokens\n"
    yield f"{manifest.notes[0].capitalize()}.\n"
    yield "| rows | shortest | median | 99 % | longest | longest row |\n|---|--:|--:|--:|--:|---|"
    for kind, each in sorted(lengths.items()):
        figures = each.summary()
        cells = " | ".join(f"{figures[key]:,}" for key in ("shortest", "median", "99 %", "longest"))
        yield f"| `{kind}` | {cells} | `{each.longest_row}` |"
    yield "\n## Notes\n"
    yield from (f"- {note}" for note in manifest.notes[1:])
    yield "- Licence: that of the requests and of the models that made plans, verdicts and pictures."


def _front_matter(manifest: Manifest, job: Job) -> Iterator[str]:
    """What the Hub reads: a configuration for each parquet file."""
    yield "---\npretty_name: interleaved planning and criticism\ntags: [image-text-to-text]"
    if "trl" in job.formats:
        yield "configs:"
        for kind in sorted({name.split("/")[2] for name in _files(manifest) if name.startswith("trl/")}):
            yield f"- config_name: {kind}\n  data_files:"
            for split in ("train", "validation"):
                if (name := f"trl/{split}/{kind}") in manifest.counts:
                    yield f"  - split: {split}\n    path: {_path(name)}"
    yield "---\n"


def _files(manifest: Manifest) -> dict[str, int]:
    return {name: rows for name, rows in manifest.counts.items() if name.count("/") == 2}


def _path(name: str) -> str:
    form, split, kind = name.split("/")
    inner = "" if split == "train" else f"{split}/"
    return f"{form}/{inner}{kind}{FORMATS[form].suffix}"
