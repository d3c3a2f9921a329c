"""Work in several processes: in order, bounded, and no process is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from held import wait_until
from interleave.errors import RunError
from interleave.train.data.parallel_map import chunks, map_in_order


def slowly_square(number: int) -> int:
    time.sleep(0.05 if number % 3 == 0 else 0)
    return number * number


def die(number: int) -> int:
    os._exit(9)


def test_chunks_have_everything_once() -> None:
    assert list(chunks(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]


def test_tasks_are_taken_only_as_they_are_needed() -> None:
    taken = []

    def tasks():  # type: ignore[no-untyped-def]
        for number in range(100):
            taken.append(number)
            yield number

    results = map_in_order(slowly_square, tasks())
    assert next(results) == 0
    assert taken == [0]


@pytest.mark.slow
def test_results_come_in_the_order_of_the_tasks() -> None:
    assert list(map_in_order(slowly_square, range(12), workers=3)) == [number**2 for number in range(12)]


@pytest.mark.slow
def test_a_worker_that_dies_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(RunError, match="fewer --workers"):
        list(map_in_order(die, range(3), workers=2))


SCRIPT = """
import sys
sys.path += {folders!r}
from test_parallel_map import sleep_long
from interleave.train.data.parallel_map import map_in_order
if __name__ == "__main__":
    for _ in map_in_order(sleep_long, range(4), workers=2):
        pass
"""


def sleep_long(number: int) -> int:
    Path(f"worker-{os.getpid()}").touch()
    time.sleep(600)
    return number


@pytest.mark.slow
def test_workers_do_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(folders=[str(folder) for folder in Path(__file__).parents[:3]]))
    parent = subprocess.Popen([sys.executable, str(script)], cwd=tmp_path)
    wait_until(lambda: len(list(tmp_path.glob("worker-*"))) == 2)
    workers = [int(path.name.removeprefix("worker-")) for path in tmp_path.glob("worker-*")]
    parent.kill()
    parent.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
