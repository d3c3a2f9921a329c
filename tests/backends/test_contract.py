"""Every backend against the contract of its kind. A new one joins by a line in one of the two lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract import GeneratorContract, VlmContract

from interleave.backends.protocols import ImageGenerator, VisionLanguageModel
from interleave.backends.registry import load_generator, load_vlm

GENERATORS = {
    # spec: the side of its pictures
    "solid": 512,
    "solid?size=256": 256,
    "solid?size=64&delay=0.001": 64,
}

VLMS = [
    # spec, role
    ("scripted", "planner"),
    ("scripted", "critic"),
    ("scripted", "scorer"),
    ("scripted:./script.jsonl", "planner"),
    ("scripted:./script.jsonl", "critic"),
]

SCRIPT = """\
{"text": "yes, and no", "tokens": [["yes", 0.9], [", and ", 1.0], ["no", 0.0]]}
{"text": "no"}
"""


@pytest.mark.parametrize(("spec", "size"), GENERATORS.items(), ids=GENERATORS)
class TestImageGenerator(GeneratorContract):
    @pytest.fixture
    def generator(self, spec: str, size: int) -> ImageGenerator:
        return load_generator(spec)


@pytest.mark.parametrize(("spec", "role"), VLMS)
class TestVisionLanguageModel(VlmContract):
    @pytest.fixture
    def vlm(self, spec: str, role: str) -> VisionLanguageModel:
        Path("script.jsonl").write_text(SCRIPT, "utf-8")
        return load_vlm(spec, role)
