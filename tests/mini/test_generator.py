"""The generator that ships with the package, with its real weights."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("diffusers")

from tokenizers import Tokenizer

from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator
from interleave.errors import ConfigurationError
from interleave_mini import WEIGHTS
from interleave_mini.bench.random_scenes import random_operations, random_scene
from interleave_mini.language.prompts import edit_prompt, scene_prompt
from interleave_mini.reader import shared_reader
from interleave_mini.reader.scores import shows
from interleave_mini.world.drawing import draw
from interleave_mini.world.operations import apply_all
from interleave_mini.world.scene import Scene, Thing
from miniature.train.examples import sample_example

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, while they load


@pytest.fixture(scope="module")
def mini() -> Any:
    return load_generator("mini?device=cpu")


def drawn_right(generator: Any, prompt: str, sources: tuple[Scene, ...], wanted: Scene) -> bool:
    images = tuple(draw(scene) for scene in sources)
    image = asyncio.run(generator.generate(ImageRequest(prompt, 7, images)))
    return shows(shared_reader().read(image), wanted)


def test_it_draws_and_edits_what_it_is_told(mini: Any) -> None:
    """Measured: 99.9 % of exact edits, 99.9 % from text. Of four, one may fail."""
    rng = Random("smoke")
    right = []
    for things in (1, 6):
        scene = random_scene(rng, things)
        right.append(drawn_right(mini, scene_prompt(scene), (), scene))
    while len(right) < 4:
        scene = random_scene(rng, 3)
        if operations := random_operations(scene, rng):
            prompt = edit_prompt(operations, scene, exact=True)
            right.append(drawn_right(mini, prompt, (scene,), apply_all(operations, scene)))
    assert sum(right) >= 3


def test_words_with_a_hyphen_are_one_word_when_it_is_loaded_too(mini: Any) -> None:
    before = Scene.of("kitchen", {4: Thing("cup", "brown")})
    after = Scene.of("kitchen", {4: Thing("cup", "brown", state=1)})
    assert drawn_right(mini, "Turn the brown cup into a brown half-full cup.", (before,), after)


def test_it_reads_prompts_as_it_did_in_training(mini: Any) -> None:
    """The class that loads the tokenizer has no ideas of its own: its file says how words are split."""
    rng, trained = Random(5), Tokenizer.from_file(str(WEIGHTS / "generator" / "tokenizer" / "tokenizer.json"))
    loaded = mini.backend.model.tokenizer
    for prompt in (sample_example(rng).prompt for _ in range(300)):
        assert loaded.encode(prompt) == trained.encode(prompt).ids
        assert len(trained.encode(prompt).ids) <= 2 * len(re.findall(r"\w+|[^\w\s]", prompt)), prompt


def test_it_starts_from_two_images(mini: Any) -> None:
    assert mini.capabilities.max_sources == 2
    earlier = Scene.of("meadow", {4: Thing("cat", "red")})
    before = Scene.of("meadow", {4: Thing("cat", "red"), 3: Thing("ball", "blue")})
    after = Scene.of("meadow", {4: Thing("cat", "green"), 3: Thing("ball", "blue")})
    assert drawn_right(mini, "Paint the red cat green.", (earlier, before), after)


def test_its_files_are_small_enough_to_ship() -> None:
    sizes = [file.stat().st_size for file in (WEIGHTS / "generator").rglob("*") if file.is_file()]
    assert max(sizes) <= 16_000_000
    assert sum(sizes) <= 22_500_000


def test_its_files_say_nothing_of_the_machine_that_made_them() -> None:
    for file in (WEIGHTS / "generator").rglob("*.json"):
        assert not re.search(r'"_name_or_path": *"[^"]', file.read_text("utf-8")), file


@pytest.mark.parametrize("spec", ["mini:other", "mini@http://host"])
def test_it_takes_no_name_and_no_address(spec: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="the model in this package"):
        load_generator(spec)
