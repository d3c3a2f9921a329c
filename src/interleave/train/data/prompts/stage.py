"""`data prompts`: makes a corpus of requests with its manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import Field

from interleave import ConfigurationError
from interleave.plugin import Value, entry_points
from interleave.train.data.manifest import Manifest, file_digest, manifest_path, read_manifest
from interleave.train.data.prompts.corpus import RequestRow, is_there_already, make_folder, write_corpus
from interleave.train.data.prompts.near_duplicates import DEFAULT_THRESHOLD
from interleave.train.data.prompts.taxonomy import OUR_WORLD, Key, Taxonomy, read_taxonomy

STAGE = "prompts"
SOURCES = "request_sources"
"""The entry point group of plugins that make requests."""
NOTED = 1000
"""Maximum number of skipped lines listed in a manifest; it counts them all."""

Progress = Callable[[int], None]


class Settings(Value):
    """Inputs and options of a corpus."""

    source: str
    """`world`, `files`, or the name of a plugin's source."""
    items: int = Field(default=0, ge=0)
    """Number of requests; 0 for all requests of the files."""
    seed: int = 0
    near: float | None = Field(default=None, gt=0, le=1)
    """Similarity from which requests count as duplicates; None: only equal ones do."""
    suites: tuple[str, ...] = ()
    split: str = "train"
    taxonomy: Path = OUR_WORLD
    expand: str | None = None
    files: tuple[Path, ...] = ()
    skip_bad: bool = False


@dataclass(frozen=True)
class CorpusResult:
    """A corpus on disk; `new` if this command made it."""

    path: Path
    manifest: Manifest
    coverage: dict[Key, int]
    new: bool


def make_corpus(settings: Settings, out: Path, progress: Progress = lambda done: None) -> CorpusResult:
    """Make and write the corpus, unless the same corpus already exists."""
    plan = Manifest(stage=STAGE, options=_options(settings), inputs=_inputs(settings))
    if is_there_already(out, plan):
        manifest = read_manifest(manifest_path(out))
        return CorpusResult(out, manifest, _coverage_in(manifest), new=False)
    rows, counts, notes = _BUILT_IN_SOURCES.get(settings.source, _from_plugin)(settings, out, progress)
    coverage = coverage_of(rows)
    counts = {"requests": len(rows), **counts, **{f"{d} / {s}": n for (d, s), n in coverage.items()}}
    manifest = plan.model_copy(update={"counts": counts, "notes": tuple(notes)})
    write_corpus(out, rows, manifest)
    return CorpusResult(out, manifest, coverage, new=True)


SourceResult = tuple[list[RequestRow], dict[str, int], list[str]]
"""Rows, counts and notes."""


@dataclass(frozen=True)
class RequestSource:
    """A plugin's source of requests, for `data prompts --source NAME`."""

    make: MakeRequests
    items: int = 1_000
    """Default number of requests."""


class MakeRequests(Protocol):
    def __call__(
        self,
        folder: Path,
        items: int,
        *,
        suites: Sequence[str],
        split: str,
        seed: int,
        progress: Progress,
    ) -> list[RequestRow]:
        """Make distinct requests; images are written below the folder. An empty list of suites means all."""
        ...


def request_sources() -> list[str]:
    """Return the names of the plugins' sources."""
    return sorted(entry_points.installed(SOURCES))


def load_source(name: str) -> RequestSource:
    point = entry_points.installed(SOURCES)[name]
    source = entry_points.load(point, f"the request source {name!r}")
    if not isinstance(source, RequestSource):
        package = entry_points.package_of(point)
        raise ConfigurationError(f"{point.value!r} of {package} is not a RequestSource")
    return source


def _from_plugin(settings: Settings, out: Path, progress: Progress) -> SourceResult:
    source = load_source(settings.source)
    make_folder(out.parent)
    rows = source.make(
        out.parent,
        settings.items,
        suites=settings.suites,
        split=settings.split,
        seed=settings.seed,
        progress=progress,
    )
    return rows, {}, []


def _from_world(settings: Settings, out: Path, progress: Progress) -> SourceResult:
    from interleave.train.data.prompts.sampler import RequestSampler

    taxonomy = read_taxonomy(settings.taxonomy)
    counts, notes, offered = {}, [], {}
    if settings.expand:
        expansion = _expand(taxonomy, settings.expand, out)
        taxonomy, offered = expansion.apply_to(taxonomy), expansion.requests
        counts = {
            "words from the model": expansion.word_count,
            "requests from the model": expansion.request_count,
            "entries of the model left out": len(expansion.refused),
            "unreadable replies": len(expansion.unreadable),
        }
        notes = [*expansion.unreadable, *expansion.refused[:NOTED]]
    sampler = RequestSampler(taxonomy, settings.seed, settings.near, offered)
    rows = sampler.sample(settings.items, progress)
    counts |= {
        "equal drafts left out": sampler.duplicates.exact,
        "near drafts left out": sampler.duplicates.near,
    }
    return rows, counts, notes


def _expand(taxonomy: Taxonomy, spec: str, out: Path) -> Any:
    from interleave import load_vlm
    from interleave.plugin import RetriedVlm, load_pack
    from interleave.train.data.prompts.expand import expand

    vlm = RetriedVlm("the model asked for words", load_vlm(spec, "writer"))
    return expand(taxonomy, vlm, expansion_journal(out), pack=load_pack("default"))


def expansion_journal(out: Path) -> Path:
    """Return the path of the journal of model replies, next to the corpus."""
    return out.with_name(f"{out.stem}.expansion.jsonl")


def _from_files(settings: Settings, out: Path, progress: Progress) -> SourceResult:
    from interleave.train.data.prompts.corpus import copy_images, read_corpora, refuse_bad

    corpus, images = read_corpora(list(settings.files), threshold=settings.near, progress=progress)
    if not settings.skip_bad:
        refuse_bad(corpus)
    if not corpus.rows:
        raise ConfigurationError(f"no requests in {', '.join(map(str, settings.files))}")
    rows = _balanced(corpus.rows, settings.items) if settings.items else corpus.rows
    make_folder(out.parent)
    copy_images(images, out.parent)
    counts = {
        "bad lines left out": len(corpus.bad),
        "lines that stood there twice": len(corpus.repeated),
        "near requests left out": len(corpus.near),
        "requests without an id of their own": corpus.without_id,
    }
    return rows, counts, [*corpus.bad, *corpus.repeated, *corpus.near][:NOTED]


def _balanced(rows: list[RequestRow], items: int) -> list[RequestRow]:
    """Take `items` rows, evenly over the sub-categories, in their original order."""
    if items > len(rows):
        raise ConfigurationError(f"the corpus has {len(rows):,} requests, not {items:,}: lower --items")
    by_key: dict[Key, list[int]] = {}
    for position, row in enumerate(rows):
        by_key.setdefault(_key(row), []).append(position)
    rounds = sorted(
        (turn, key, position)
        for key, positions in enumerate(by_key.values())
        for turn, position in enumerate(positions)
    )
    return [rows[position] for position in sorted(position for _, _, position in rounds[:items])]


_BUILT_IN_SOURCES: dict[str, Callable[[Settings, Path, Progress], SourceResult]] = {
    "world": _from_world,
    "files": _from_files,
}


def _options(settings: Settings) -> dict[str, Any]:
    """Return the settings that determine the corpus; the inputs identify files by their digests."""
    used = {
        "world": ("items", "seed", "near", "expand"),
        "files": ("items", "near", "skip_bad"),
    }.get(settings.source, ("items", "seed", "suites", "split"))
    return {"source": settings.source, **settings.model_dump(mode="json", include=set(used))}


def _inputs(settings: Settings) -> dict[str, str]:
    if settings.source == "world":
        files = sorted(settings.taxonomy.glob("*.toml"))
        digest = hashlib.sha256("".join(file_digest(file) for file in files).encode()).hexdigest()
        return {"taxonomy": digest}
    if settings.source == "files":
        return {
            f"{position} {file.name}": file_digest(file) for position, file in enumerate(settings.files, 1)
        }
    return {}


def _key(row: RequestRow) -> Key:
    return row.domain or "", row.subcategory or ""


def coverage_of(rows: list[RequestRow]) -> dict[Key, int]:
    """Return the number of requests of each sub-category."""
    found: dict[Key, int] = {}
    for row in rows:
        if row.domain or row.subcategory:
            found[_key(row)] = found.get(_key(row), 0) + 1
    return dict(sorted(found.items()))


def _coverage_in(manifest: Manifest) -> dict[Key, int]:
    split = ((name.split(" / ", 1), number) for name, number in manifest.counts.items() if " / " in name)
    return {(domain, sub): number for (domain, sub), number in split}


def default_near(source: str) -> float | None:
    """Return the default similarity; None for plugins, whose requests may differ in meaning by one word."""
    return DEFAULT_THRESHOLD if source in _BUILT_IN_SOURCES else None
