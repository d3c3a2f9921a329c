"""What a generator says it draws with is what clients may name: whatever form it says it in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from interleave.backends.protocols import GeneratorCapabilities
from interleave.service.generator.messages import GeneratorInfo
from interleave.service.generator.parameters import (
    MAX_SEED,
    Parameters,
    check_sources,
    known_size,
    settings_of,
)
from interleave.service.http.refusals import Refusal


class Options(BaseModel):
    steps: int | None = None
    guidance: float | None = 2.5
    size: int | None = None


@dataclass
class Settled:
    steps: int = 28
    size: tuple[int, int] = (1024, 768)
    more: dict[str, int] | None = None


class Generator:
    def __init__(self, options: object = None, settings: object = None) -> None:
        self.options, self.settings = options, settings


SETTINGS: dict[str, tuple[object, dict[str, Any]]] = {
    "nothing": (Generator(), {}),
    "options of its spec": (Generator(Options(size=64)), {"guidance": 2.5, "size": 64}),
    "what it settled on": (
        Generator(Options(), Settled()),
        {"guidance": 2.5, "steps": 28, "size": "1024x768"},
    ),
    "a mapping": (Generator(None, {"steps": 4, "pipeline": object()}), {"steps": 4}),
    "a class by mistake": (Generator(None, Settled), {}),
}


@pytest.mark.parametrize(("generator", "settings"), SETTINGS.values(), ids=SETTINGS)
def test_settings_are_read_from_the_generator(generator: object, settings: dict[str, Any]) -> None:
    assert settings_of(generator) == settings


SIZES: dict[str, tuple[dict[str, Any], tuple[int, int] | None]] = {
    "one side": ({"size": 512}, (512, 512)),
    "both sides": ({"width": 640, "height": 480}, (640, 480)),
    "words": ({"size": "1024x768"}, (1024, 768)),
    "nothing": ({}, None),
    "auto": ({"size": "auto"}, None),
    "that of its source": ({"size": 512, "shape": "source"}, None),
}


@pytest.mark.parametrize(("settings", "size"), SIZES.values(), ids=SIZES)
def test_the_size_is_known_where_it_is_fixed(settings: dict[str, Any], size: tuple[int, int] | None) -> None:
    assert known_size(settings) == size


def parameters(values: dict[str, Any], **capabilities: Any) -> Parameters:
    facts = GeneratorInfo(GeneratorCapabilities(**capabilities), {"steps": 4, "negative_prompt": "ugly"})
    return Parameters(values, facts, known=("prompt", "seed"))


def test_a_seed_is_refused_where_it_would_mean_nothing() -> None:
    assert parameters({"seed": 5}).seed() == 5
    assert parameters({}, seeds=False).seed() >= 0
    with pytest.raises(Refusal, match=r"does not take seeds.*--ignore seed"):
        parameters({"seed": 5}, seeds=False).seed()


def test_numbers_of_forms_are_numbers() -> None:
    taken = parameters({"seed": "7", "num_inference_steps": "4", "n": "2"})
    assert taken.seed() == 7
    taken.generation_settings("num_inference_steps")
    assert taken.integer("n", 1, 10) == 2
    taken.refuse_unknown()


WHOLE = {"1.0": 1, "1e3": 1000, " 7 ": 7, "0.5e1": 5, str(MAX_SEED): MAX_SEED, f"{MAX_SEED}.0": MAX_SEED}


@pytest.mark.parametrize(("text", "number"), WHOLE.items())
def test_a_whole_number_may_be_written_in_any_way(text: str, number: int) -> None:
    assert parameters({"seed": text}).seed() == number
    assert parameters({"n": float(text)}).integer("n", 0, 2**70) == int(float(text))


def test_a_number_of_a_million_digits_is_refused_and_never_computed() -> None:
    for text in ("1e999999999", "9" * 1_000_000, f"{MAX_SEED + 1}", f"{MAX_SEED + 1}.0", "1e-999999999"):
        with pytest.raises(Refusal, match="must be a whole number"):
            parameters({"seed": text}).seed()


@pytest.mark.parametrize(
    "value", ["", "x", "1.5", "nan", "inf", "1e3000", [1], {}, 1.5, "٣٤٥٦٧٨٩٠١٢٣٤٥٦٧٨٩٠١٢"]
)
def test_what_is_no_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(Refusal, match="must be a whole number"):
        parameters({"n": value}).integer("n", 1, 10)


def test_the_negative_prompt_of_the_generator_may_be_named() -> None:
    parameters({"negative_prompt": "ugly"}).negative_prompt()
    with pytest.raises(Refusal, match="requests cannot set it here"):
        parameters({"negative_prompt": "blurry"}).negative_prompt()


def test_images_are_counted_against_what_the_generator_takes() -> None:
    editor = GeneratorInfo(GeneratorCapabilities(max_sources=1, text_to_image=False))
    painter = GeneratorInfo(GeneratorCapabilities(max_sources=0))
    check_sources(1, editor)
    check_sources(0, painter)
    for number, facts, words in (
        (0, editor, "only edits"),
        (2, editor, "at most 1"),
        (1, painter, "takes none"),
    ):
        with pytest.raises(Refusal, match=words):
            check_sources(number, facts)
