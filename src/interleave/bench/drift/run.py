"""Runs the chains of all cells in lockstep, so that partial results are comparable.

Each image is written before its line, and the line before the next image is requested, so the same command
resumes a stopped run. Images at the marks are kept, and the two latest of each chain.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL.Image import Image

from interleave import ConfigurationError, ImageGenerator, ImageRequest, Slot, read_image
from interleave.bench.drift.chains import Chain, ChainSource, Link, Protocol_
from interleave.plugin import Value, backends, config, drift, images, make_folder, read_text, write_atomic


class Cell(Value):
    """One protocol under one drift control."""

    protocol: Protocol_
    name: str
    remedies: config.DriftControl
    assets: bool = False
    """Whether prompts include the descriptions of assets."""

    @property
    def key(self) -> str:
        return f"{self.protocol}-{self.name}"


class DriftSettings(Value):
    """Settings that determine the results. A folder is resumed only with equal settings."""

    generator: str
    cells: tuple[Cell, ...]
    chains: int
    marks: tuple[int, ...]
    """Reported steps."""
    seed: int = 0
    source: str = ""
    """Source of the chains: a file, or the names of images."""


class StepLine(Value):
    """One image of one chain."""

    cell: str
    chain: str
    step: int
    right: bool | None
    mixed_up: bool = False
    """Whether one asset is in another's place."""
    drift: drift.StepDrift
    from_first: float
    """Difference from the chain's first image, in levels of 255."""
    equals_start: bool
    calls: int
    anchored: bool
    seconds: float


@dataclass
class DriftRun:
    """A measurement in a folder."""

    folder: Path
    settings: DriftSettings
    generator: ImageGenerator
    source: ChainSource
    concurrency: int = 16
    report: Callable[[int, int], object] = lambda done, total: None
    lines: list[StepLine] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._refuse_other_settings()
        self._path_of_lines = self.folder / "steps.jsonl"
        self.lines = read_lines(self._path_of_lines)
        self._images = self.folder / "pictures"
        self._retried = backends.RetriedGenerator("the generator", self.generator)

    def _refuse_other_settings(self) -> None:
        path = self.folder / "settings.json"
        if not path.exists():
            path.write_text(self.settings.model_dump_json(indent=1) + "\n", "utf-8")
            return
        stored = DriftSettings.model_validate_json(read_text(path))
        if stored != self.settings:
            raise ConfigurationError(
                f"{self.folder} holds a measurement with other settings: repeat its command, "
                "or choose another folder with --out"
            )

    async def run(self) -> list[StepLine]:
        """Draw the missing images; return a line for every image."""
        steps = max(self.settings.marks)
        protocols = {cell.protocol for cell in self.settings.cells}
        chains = {
            protocol: self.source.chains(protocol, self.settings.chains, steps, self.settings.seed)
            for protocol in sorted(protocols)
        }
        done = {(line.cell, line.chain, line.step) for line in self.lines}
        states = {
            (cell.key, chain.id): self._latest(cell, chain)
            for cell in self.settings.cells
            for chain in chains[cell.protocol]
        }
        total = sum(len(chain.links) for cell in self.settings.cells for chain in chains[cell.protocol])
        self.report(len(done), total)
        gate = asyncio.Semaphore(self.concurrency)

        async def one(cell: Cell, chain: Chain, step: int) -> None:
            if step > len(chain.links) or (cell.key, chain.id, step) in done:
                return
            async with gate:
                states[cell.key, chain.id] = await self._step(cell, chain, step, states[cell.key, chain.id])
            done.add((cell.key, chain.id, step))
            self.report(len(done), total)

        try:
            for step in range(1, steps + 1):
                async with asyncio.TaskGroup() as group:
                    for cell in self.settings.cells:
                        for chain in chains[cell.protocol]:
                            group.create_task(one(cell, chain, step))
        except ExceptionGroup as failures:  # the first failure has the cause; the others were cancelled
            raise failures.exceptions[0] from None
        return self.lines

    async def _step(self, cell: Cell, chain: Chain, step: int, before: Image) -> Image:
        link, began = chain.links[step - 1], time.monotonic()
        anchored = cell.remedies.re_anchors(step) and link.whole is not None
        if anchored:
            sources = (chain.start,) if chain.whole_starts_from_first else ()
            drawn = await self._draw(link.whole or "", sources, cell, chain, step)
        else:
            prompt = (link.with_assets if cell.assets else None) or link.prompt
            drawn = await self._draw(prompt, (before,), cell, chain, step)
            drawn = await asyncio.to_thread(drift.apply_drift_control, cell.remedies, before, drawn)
        after = images.as_rgb(drawn)
        line = await asyncio.to_thread(self._measured, cell, chain, step, before, after)
        line = line.model_copy(update={"anchored": anchored, "seconds": round(time.monotonic() - began, 3)})
        await asyncio.to_thread(self._store, cell, chain, step, after)
        self._add(line, cell, chain)
        return after

    async def _draw(
        self, prompt: str, sources: tuple[Image, ...], cell: Cell, chain: Chain, step: int
    ) -> Image:
        # the seed is independent of the cell: equal requests of two cells give equal images
        seed = int.from_bytes(
            hashlib.sha256(f"{self.settings.seed}/{chain.id}/{step}".encode()).digest()[:4], "big"
        )
        return await self._retried.generate(ImageRequest(prompt, seed >> 1, sources, Slot(step, 1)))

    def _measured(self, cell: Cell, chain: Chain, step: int, before: Image, after: Image) -> StepLine:
        link: Link = chain.links[step - 1]
        right = self.source.right([after], [link.truth]) if link.truth is not None else None
        return StepLine(
            cell=cell.key,
            chain=chain.id,
            step=step,
            right=None if right is None else right[0],
            mixed_up=link.truth is not None and self.source.mixed_up(after, link.truth),
            drift=drift.step_drift(before, after, chain.start),
            from_first=round(drift.difference(chain.start, after), 3),
            equals_start=link.equals_start,
            calls=1,
            anchored=False,
            seconds=0.0,
        )

    def _store(self, cell: Cell, chain: Chain, step: int, after: Image) -> None:
        path = self._path(cell, chain, step)
        make_folder(path.parent)
        write_atomic(path, images.encode_png(after))

    def _add(self, line: StepLine, cell: Cell, chain: Chain) -> None:
        """Write the line of a stored image. The previous image stays, in case a crash loses the line."""
        with self._path_of_lines.open("a", encoding="utf-8") as file:
            file.write(line.model_dump_json() + "\n")
        self.lines.append(line)
        if line.step - 2 not in self.settings.marks:
            self._path(cell, chain, line.step - 2).unlink(missing_ok=True)

    def _latest(self, cell: Cell, chain: Chain) -> Image:
        """Return the image of the last step that has a line."""
        steps = [line.step for line in self.lines if (line.cell, line.chain) == (cell.key, chain.id)]
        return read_image(self._path(cell, chain, max(steps))) if steps else images.as_rgb(chain.start)

    def _path(self, cell: Cell, chain: Chain, step: int) -> Path:
        return self._images / cell.key / chain.id / f"{step}.png"


def read_lines(path: Path) -> list[StepLine]:
    """Read the lines, and truncate one that a kill cut off."""
    if not path.exists():
        return []
    whole, lines = b"", []
    data = path.read_bytes()
    for line in data.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        lines.append(StepLine.model_validate(json.loads(line)))
        whole += line
    if len(whole) != len(data):
        path.write_bytes(whole)
    return lines


def by_cell(lines: Sequence[StepLine]) -> Mapping[str, Mapping[int, list[StepLine]]]:
    """Return the lines of each cell, by step."""
    found: dict[str, dict[int, list[StepLine]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        found[line.cell][line.step].append(line)
    return found
