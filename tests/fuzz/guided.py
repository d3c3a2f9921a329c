"""A target searched by coverage instead of by chance, where atheris is installed (`pip install atheris`).

python tests/fuzz/guided.py replies.planner -max_total_time=60    what follows the name is libFuzzer's
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import tempfile
from pathlib import Path

import atheris

os.environ["INTERLEAVE_PROFILE"] = "dry-run"
with atheris.instrument_imports(include=["interleave"]):
    FAMILY, _, NAME = sys.argv[1].partition(".")
    importlib.import_module(f"fuzzing.{FAMILY}")

from fuzzing import TARGETS
from fuzzing.mutations import LARGEST, read_case


def main() -> None:
    target = next(each for each in TARGETS if each.name == f"{FAMILY}.{NAME}")
    logging.disable()
    with tempfile.TemporaryDirectory(prefix="fuzz-guided-") as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for number, data in enumerate((*target.seeds, *(read_case(target, case) for case in target.cases))):
            (corpus / str(number)).write_bytes(data)
        words = Path(folder) / "words"
        words.write_text("".join(f'"{quoted(word)}"\n' for word in target.words), "ascii")
        found = f"-artifact_prefix={os.getcwd()}/"
        os.chdir(folder)
        options = [f"-dict={words}", f"-max_len={LARGEST}", found, *sys.argv[2:], str(corpus)]
        atheris.Setup([sys.argv[0], *options], lambda data: bool(target.check(data)))
        atheris.Fuzz()


def quoted(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    main()
