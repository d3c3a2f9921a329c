"""Read weights from safetensors files straight to a device, with several threads.

The libraries copy one tensor at a time from a mapped file, in memory that the GPU cannot read directly, at a
few gigabytes per second. Here each thread reads parts of a file into pinned memory while the previous part is
copied to the device.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import torch
from torch import Tensor

from interleave import ConfigurationError
from interleave.local.checkpoints import Source, read_header

PART_BYTES = 32 * 2**20
THREADS = 8
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


@dataclass(frozen=True)
class Part:
    """Some bytes of a file, and their destination."""

    path: Path
    offset: int
    destination: Tensor


def read_tensors(paths: Iterable[Path], source: Source, device: torch.device) -> dict[str, Tensor]:
    """Read the tensors of safetensors files to a device."""
    tensors: dict[str, Tensor] = {}
    parts: SimpleQueue[Part] = SimpleQueue()
    for path in paths:
        header = read_header(path, source)
        ends = max((entry["data_offsets"][1] for entry in header.values()), default=0)
        begins = path.stat().st_size - ends
        for name, entry in header.items():
            tensors[name] = _empty(path, name, entry, device)
            for part in _parts(path, begins + entry["data_offsets"][0], tensors[name]):
                parts.put(part)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="interleave-weights") as pool:
        for done in [pool.submit(_read, parts, device) for _ in range(THREADS)]:
            done.result()
    return tensors


def _empty(path: Path, name: str, entry: dict[str, Any], device: torch.device) -> Tensor:
    if entry["dtype"] not in DTYPES:
        raise ConfigurationError(f"{path}: {name!r} has the unsupported type {entry['dtype']}")
    made = torch.empty(entry["shape"], dtype=DTYPES[entry["dtype"]], device=device)
    first, last = entry["data_offsets"]
    if made.nbytes != last - first:
        raise ConfigurationError(f"{path}: {name!r} has {last - first:,} bytes instead of {made.nbytes:,}")
    return made


def _parts(path: Path, offset: int, tensor: Tensor) -> Iterator[Part]:
    flat = tensor.view(-1).view(torch.uint8)
    for start in range(0, len(flat), PART_BYTES):
        yield Part(path, offset + start, flat[start : start + PART_BYTES])


def _read(parts: SimpleQueue[Part], device: torch.device) -> None:
    """Read all parts; while one is copied to the device, the next is read."""
    on_gpu = device.type == "cuda"
    stream = torch.cuda.Stream(device) if on_gpu else None
    if stream is not None:  # earlier uses of the memory must have ended
        stream.wait_stream(torch.cuda.default_stream(device))
    buffers = [torch.empty(PART_BYTES, dtype=torch.uint8, pin_memory=on_gpu) for _ in range(2)]
    copied: list[Any] = [None, None]
    with ExitStack() as files:
        opened: dict[Path, int] = {}
        turn = 0
        while (part := _next(parts)) is not None:
            if part.path not in opened:
                opened[part.path] = files.enter_context(_opened(part.path))
            if copied[turn] is not None:
                copied[turn].synchronize()
            filled = buffers[turn][: len(part.destination)]
            _fill(filled, opened[part.path], part)
            with torch.cuda.stream(stream) if stream is not None else nullcontext():
                part.destination.copy_(filled, non_blocking=on_gpu)
                copied[turn] = stream.record_event() if stream is not None else None
            turn = 1 - turn
    if stream is not None:
        stream.synchronize()


def _next(parts: SimpleQueue[Part]) -> Part | None:
    try:
        return parts.get_nowait()
    except Empty:
        return None


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDONLY)
    try:
        yield file
    finally:
        os.close(file)


def _fill(buffer: Tensor, file: int, part: Part) -> None:
    view, done = memoryview(buffer.numpy()), 0
    while done < len(view):
        count = os.preadv(file, [view[done:]], part.offset + done)
        if count == 0:
            raise ConfigurationError(f"{part.path} ends too early: it changed while it was read")
        done += count
