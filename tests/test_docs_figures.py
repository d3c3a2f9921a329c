"""Measured figures on the pages: those of committed files are equal to them, all have a date and a source."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from interleave.bench.statistics import wilson

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *DOCS.rglob("*.md")]
RESULTS = ROOT / "perf" / "results"
FLOAT8 = "drawn in float8, generator compiled from the start"
COMPILED = "generator compiled from the start"
ALONE = "{draw:.2f} s | {judge:.2f} s, {milliseconds_per_token:.1f} ms"
HOURLY = "{attempts_per_hour:,.0f}, ×{times_reference:.1f}; {gigabytes:.0f}"
TOKENS = "{tokens:.0f} | {tokens_until_decided:.0f} | {tokens_per_step_with_drafts_of_3:.2f}"
STEP = "{seconds:.2f} | {tokens_a_second:,.0f} | {share_of_peak:.1%}"
DATE = re.compile(r"\b2\d{3}-\d{2}-\d{2}\b")
MEASURED = [
    *(
        "how-to/robots.md",
        "serving.md",
        "many-machines.md",
        "long-documents.md",
        "collecting.md",
    ),
    *("exporting.md", "requests.md", "real-models.md", "performance.md", "miniature.md", "training-costs.md"),
    *("miniature-results.md", "tried-and-failed.md"),
]
FILE = re.compile(r"`(?:python )?((?:perf|docs/miniature)/[\w/.-]+\.\w+)")

FIGURES: list[tuple[str, str, str, dict[str, Any], str]] = [
    # page, what it says, file of perf/results, the first row with these values, what the row makes of it
    ("README.md", "[{} attempts an hour]", "h200", {"trajectories": 32}, "{attempts_per_hour:,.0f}"),
    ("README.md", "{} times the libraries", "h200", {"trajectories": 32}, "{times_reference:.0f}"),
    ("many-machines.md", "measured {} attempts", "h200", {"trajectories": 32}, "{attempts_per_hour:,.0f}"),
    ("many-machines.md", "limit of {}", "h200", {"trajectories": 32}, "{limit_per_hour:,.0f}"),
    ("real-models.md", "libraries alone took {}",
     "h200", {"what": "reference"}, "{milliseconds_per_token:.0f} ms"),
    ("real-models.md", "ours take {}", "h200", {"what": "alone"}, "{milliseconds_per_token:.1f}"),
    ("real-models.md", "and {} once the generator", "h200", {"what": "alone"}, "{attempt:.1f} s"),
    ("real-models.md", "32 concurrent requests {} each",
     "h200", {"trajectories": 32}, "{seconds_per_attempt:.1f} s"),
    ("real-models.md", "draws an image in {} instead", "h200-fp8", {"remark": FLOAT8}, "{draw:.1f} s"),
    ("real-models.md", "instead of {}; [what", "h200-fp8", {"remark": COMPILED}, "{draw:.1f}"),
    ("training.md", "and {} a step",
     "h200-training", {"what": "sft, LoRA", "run": "second"}, "{seconds:.1f} s"),
    ("training.md", "instead of {} ([fig",
     "h200-training", {"what": "sft, LoRA", "checkpointing": True}, "{seconds:.1f} s"),
    ("training.md", "takes {} instead of", "h200-training", {"what": "sft, LoRA"}, "{gigabytes:.0f} GB"),
    ("training.md", "instead of {}, and",
     "h200-training", {"what": "sft, LoRA", "checkpointing": True}, "{gigabytes:.0f} GB"),
    ("training.md", "each](../explanation/performance.md#a-step-of-grpo): {} instead",
     "h200-training", {"during_rollout": True}, "{reward:.1f} s"),
    ("reproduce-the-paper.md", "seconds of an image ({})",
     "h200", {"what": "drawing", "together": 4}, "{each:.2f}"),
    ("performance.md", "| the reference path | {} |", "h200-fp8", {"what": "reference"}, "{draw:.2f} s"),
    ("performance.md", "| bfloat16, compiled | {} |", "h200-fp8", {"what": "alone"}, "{draw:.2f} s"),
    ("performance.md", "| float8 | {} |", "h200-fp8", {"what": "alone", "remark": FLOAT8}, "{draw:.2f} s"),
    ("performance.md", "each of four together | {} |",
     "h200-fp8", {"what": "drawing", "together": 4}, "{each:.2f} s"),
    ("performance.md", "bfloat16, first attempt at a step | {} a token |",
     "h200-vllm", {"what": "alone"}, ALONE),
    ("performance.md", "float8, first attempt at a step | {} a token |",
     "h200-vllm", {"what": "alone", "remark": FLOAT8}, ALONE),
    ("performance.md", "| bfloat16 | {} GB |",
     "h200-vllm", {"trajectories": 32, "remark": COMPILED}, HOURLY),
    ("performance.md", "| float8 | {} GB |",
     "h200-vllm", {"trajectories": 32, "remark": FLOAT8}, HOURLY),
    ("performance.md", "| alone | 1.38 s | {} |",
     "h200-vllm", {"what": "vllm", "together": 1}, "{each:.2f} s"),
    ("performance.md", "| the reference path | {} (drawing",
     "h200-again", {"what": "reference"}, "{attempt:.1f} s"),
    ("performance.md", "| an attempt alone, bfloat16 | {} (drawing",
     "h200-again", {"what": "alone"}, "{attempt:.2f} s"),
    ("performance.md", "| an attempt alone, float8 | {} (drawing",
     "h200-again", {"what": "alone", "remark": FLOAT8}, "{attempt:.2f} s"),
    ("performance.md", "| 32 trajectories, bfloat16 | {} an hour",
     "h200-again", {"trajectories": 32}, "{attempts_per_hour:,.0f}"),
    ("performance.md", "| drawn in float8 | {} |",
     "h200-critic8", {"what": "alone", "remark": FLOAT8}, "{attempt:.2f} s"),
    ("performance.md", "| drawn and judged in float8 | {} |",
     "h200-critic8", {"what": "alone", "remark": FLOAT8.replace(", gen", ", judged in float8, gen")},
     "{attempt:.2f} s"),
    ("performance.md", "edits with short prompts | {} (",
     "fp8-quality", {"sort": "edit"}, "{plain[mean]:.1%}"),
    ("performance.md", "| 106 acceptances | {} |",
     "verdict-tokens", {"verdicts": "accepted"}, TOKENS),
    ("performance.md", "| 8 refusals | {} |",
     "verdict-tokens", {"verdicts": "refused"}, TOKENS),
    ("performance.md", "activations kept, first run | {} of 795 |",
     "h200-training", {"what": "sft, LoRA"}, STEP),
    ("performance.md", "| the same, second run | {} of 787 |",
     "h200-training", {"what": "sft, LoRA", "run": "second"}, STEP),
    ("performance.md", "activations recomputed, second run | {} |",
     "h200-training", {"what": "sft, LoRA", "checkpointing": True}, STEP),
    ("performance.md", "| `interleave --help` | {} |",
     "startup", {"what": "interleave --help"}, "{seconds:.2f} s"),
    ("performance.md", "| {} for an empty Python |",
     "startup", {"what": "python -c pass"}, "{seconds:.3f} s"),
    ("performance.md", "last row was measured {}", "startup", {"what": "date"}, "{date}"),
]  # fmt: skip


def read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def page_of(name: str) -> str:
    (path,) = [each for each in PAGES if str(each).endswith(f"/{name}")]
    return path.read_text("utf-8")


@pytest.mark.parametrize(("page", "says", "file", "where", "form"), FIGURES)
def test_a_figure_is_that_of_its_file(
    page: str, says: str, file: str, where: dict[str, Any], form: str
) -> None:
    row = next(each for each in read(file) if where.items() <= each.items())
    assert says.format(form.format(**row).replace("%", " %")) in page_of(page)


def test_a_step_of_grpo_is_that_of_its_file() -> None:
    steps = [row for row in read("h200-training") if row["what"] == "grpo step" and row["answers"] == 32]
    for part in ("rollout", "reward", "drawing", "scoring", "update"):
        pairs = zip(steps[::2], steps[1::2], strict=True)
        assert " | ".join(f"{second[part]:.1f} ({first[part]:.1f})" for first, second in pairs) in page_of(
            "performance.md"
        )


def test_tables_are_as_their_programs_print_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "perf"))
    monkeypatch.syspath_prepend(str(DOCS / "miniature"))
    import gpu_table

    assert gpu_table.table(read("h200")) in page_of("performance.md")
    generator_page = runpy.run_path(str(DOCS / "miniature" / "generator.py"))
    assert generator_page["table"]() in page_of("miniature-results.md")


def test_the_papers_table_is_that_of_its_file() -> None:
    page, short = page_of("miniature-results.md"), page_of("miniature.md")
    found = read("trainings")
    for name, row in [*found["rows"].items(), *found["attempts"].items()]:
        each = ", ".join(f"{100 * one:.1f}" for one in row["trainings"])
        single = len(row["trainings"]) == 1
        low, high = wilson(row["mean"], row["tasks"]) if single else (row["low"], row["high"])
        share = f"{100 * row['mean']:.1f} ({100 * low:.1f}–{100 * high:.1f})"
        assert f"{share} | |" in page if single else f"{share} | {each} |" in page, name
        if name.split("/")[0] in ("planner", "critic-sft", "full"):
            assert share in short, name
    for name, row in found["differences"].items():
        mean, low, high = (f"{100 * row[key]:+.1f}".replace("-", "−") for key in ("mean", "low", "high"))
        assert f"{mean} ({low} to {high})" in page, name


def test_generators_never_seen_are_those_of_their_file() -> None:
    for row in read("transfer")["rows"]:
        shares = [row["strict"][system] for system in ("base", "plan", "full")]
        said = [f"{100 * e['mean']:.1f} ({100 * e['low']:.1f}–{100 * e['high']:.1f})" for e in shares]
        assert " | ".join(said) in page_of("miniature-results.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_programs_and_files_that_a_page_names_exist(page: Path) -> None:
    assert [name for name in FILE.findall(page.read_text("utf-8")) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", MEASURED)
def test_a_page_with_measurements_of_its_own_has_their_date(page: str) -> None:
    assert re.search(rf"[Mm]easured (?:on )?{DATE.pattern}", page_of(page))
