"""`interleave data prompts`: write a corpus of requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave.plugin import options

if TYPE_CHECKING:
    from rich.console import Console

    from interleave.train.data.prompts.stage import CorpusResult

DEFAULT_ITEMS = {"world": 40_000, "files": 0}


def prompts(
    out: Annotated[Path, typer.Option("--out", metavar="FILE.jsonl", help="The file to write.")],
    source: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="world (our taxonomy), mini (the miniature's grammar) or a plugin's."
        ),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="FILE.jsonl", help="A corpus made elsewhere. Repeatable."),
    ] = None,
    items: Annotated[
        int | None,
        typer.Option(min=1, help="Number of requests. [default: world 40,000, mini 1,000, files all]"),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="The random seed.")] = 0,
    suite: Annotated[
        list[str] | None,
        typer.Option(help="mini: story, continue, know, edit, plain or annotate. Repeatable. [default: all]"),
    ] = None,
    split: Annotated[str, typer.Option(help="mini: train, validation or test.")] = "train",
    taxonomy: Annotated[
        Path | None, typer.Option(metavar="DIR", help="world: your own TOML files instead of ours.")
    ] = None,
    expand: Annotated[
        str | None, typer.Option(metavar="SPEC", help="world: ask this model for more words and requests.")
    ] = None,
    near: Annotated[
        float | None,
        typer.Option(
            min=0.3, max=1.0, help="Skip requests this similar; 1 for equal ones only. [default: 0.8]"
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="With --from: skip lines that cannot be used.")
    ] = False,
    json_output: options.Json = False,
) -> int:
    """Write a corpus of requests as JSONL, with a manifest of its settings."""
    from interleave import ConfigurationError
    from interleave.plugin import make_console, progress_bar
    from interleave.train.data.prompts.stage import Settings, default_near, load_source, make_corpus
    from interleave.train.data.prompts.taxonomy import OUR_WORLD

    chosen = _source(source, files)
    _refuse_unused(chosen, suite=suite, taxonomy=taxonomy, expand=expand, skip_bad=skip_bad)
    if chosen not in DEFAULT_ITEMS and near is not None:
        raise ConfigurationError("--near goes with --source world or --from")
    if out.suffix != ".jsonl":
        raise ConfigurationError(f"--out {str(out)!r} must be a file that ends with .jsonl")
    settings = Settings(
        source=chosen,
        items=items or (DEFAULT_ITEMS[chosen] if chosen in DEFAULT_ITEMS else load_source(chosen).items),
        seed=seed,
        near=default_near(chosen) if near is None else near if near < 1 else None,
        suites=tuple(suite or ()),
        split=split,
        taxonomy=taxonomy or OUR_WORLD,
        expand=expand,
        files=tuple(files or ()),
        skip_bad=skip_bad,
    )
    with progress_bar("requests") as progress:
        made = make_corpus(settings, out, lambda done: progress(done, settings.items or done))
    _print_summary(made, make_console())
    if json_output:
        print(json.dumps({"corpus": str(made.path), "counts": made.manifest.counts}, ensure_ascii=False))
    else:
        print(made.path)
    return 0


def _source(source: str | None, files: list[Path] | None) -> str:
    from interleave import ConfigurationError
    from interleave.plugin import did_you_mean
    from interleave.train.data.prompts.stage import request_sources

    known = [*request_sources(), "world"]
    if (source is None) == (not files):
        named = ", ".join(f"--source {name}" for name in known)
        raise ConfigurationError(f"say where the requests come from: {named} or --from FILE")
    if source is not None and source not in known:
        raise ConfigurationError(f"no source named {source!r}. {did_you_mean(source, known)}")
    return source or "files"


def _refuse_unused(source: str, **given: object) -> None:
    """Raise for an option that would have no effect."""
    from interleave import ConfigurationError

    belongs = {"taxonomy": "world", "expand": "world", "skip_bad": "files"}
    for name, value in given.items():
        if value and (source in DEFAULT_ITEMS if name == "suite" else belongs[name] != source):
            where = "--from" if name == "skip_bad" else f"--source {belongs.get(name, 'mini')}"
            raise ConfigurationError(f"--{name.replace('_', '-')} goes with {where}")


def _print_summary(made: CorpusResult, console: Console) -> None:
    from rich.table import Table

    if not made.new:
        console.print(f"{made.path} is there already, made with the same settings")
    by_domain: dict[str, list[int]] = {}
    for (domain, _), number in made.coverage.items():
        by_domain.setdefault(domain, []).append(number)
    if by_domain:
        table = Table("domain", "sub-categories", "requests", "fewest", "most")
        for domain, numbers in by_domain.items():
            table.add_row(
                domain, str(len(numbers)), f"{sum(numbers):,}", f"{min(numbers):,}", f"{max(numbers):,}"
            )
        console.print(table)
    for name, number in made.manifest.counts.items():
        if " / " not in name and (number or name == "requests"):
            console.print(f"{name}: {number:,}")
    for note in made.manifest.notes[:5]:
        console.print(f"left out: {note}", soft_wrap=True)
    if len(made.manifest.notes) > 5:
        console.print(f"… and {len(made.manifest.notes) - 5:,} more, all in the manifest")
