"""Images that the generator has drawn, as exercises for a critic: what is kept, and what is answered."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")

from interleave.agents.replies import parse_verdict  # noqa: E402
from interleave_mini.language.prompts import parse_prompt  # noqa: E402
from interleave_mini.reader import shared_reader  # noqa: E402
from interleave_mini.reader.scores import shows  # noqa: E402
from interleave_mini.world.drawing import draw_pixels, scene_codes  # noqa: E402
from interleave_mini.world.mistakes import with_mistake  # noqa: E402
from miniature.train import drawn_images  # noqa: E402
from miniature.train.agent_model import write_fresh_agent  # noqa: E402
from miniature.train.drawn_images import DRAWN, DrawnImages, make_drawn_images  # noqa: E402
from miniature.train.generator_model import TOY, build_vae  # noqa: E402
from miniature.train.vision_examples import Exercise, Shown  # noqa: E402
from miniature.train.vision_pretrain import VisionPretraining, pretrain_vision  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, at import and at loading
DRAWN_AT_ONCE, COUNT = 16, 48


class Painter:
    """In place of the learned generator, which would take a minute: every third image is wrong."""

    def __init__(self) -> None:
        self.rng = Random(0)

    def draw(self, flow: Any, tokenizer: Any, painter: Any, group: Any, seed: int) -> tuple[Any, Any]:
        befores = [draw_pixels(each.step.before) for each in group if each.step.before is not None]
        scenes = [
            with_mistake(each.step.after, self.rng) if place % 3 == 0 else each.step.after
            for place, each in enumerate(group)
        ]
        afters = torch.from_numpy(np.stack([draw_pixels(scene) for scene in scenes]))
        return (torch.from_numpy(np.stack(befores)) if befores else None), afters


@pytest.fixture(scope="module")
def some() -> DrawnImages:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawn_images, "TOGETHER", DRAWN_AT_ONCE)
        patch.setattr(drawn_images, "load_parts", lambda *_: (build_vae(TOY), None, Tokens, None))
        patch.setattr(drawn_images, "LatentSpace", lambda vae: None)
        patch.setattr(drawn_images, "TorchPainter", lambda device: None)  # paints every sprite first
        patch.setattr(drawn_images, "Flow", lambda *_: None)
        patch.setattr(drawn_images, "_draw", Painter().draw)
        return make_drawn_images(Path("pipeline"), COUNT, "cpu", seed=5)


class Tokens:
    pad_token_id = 0


def parts(each: Exercise) -> tuple[str, int, int]:
    said, before, after = each.question
    assert isinstance(said, str) and isinstance(before, Shown) and isinstance(after, Shown)
    return said.removeprefix("Judge: ").partition(" Drawn: ")[0], before.place, after.place


def test_what_is_drawn_together_is_alike_and_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn_images, "TOGETHER", 5)
    rng = Random(1)
    groups = list(
        drawn_images._alike(iter([[drawn_images._sample(rng) for _ in range(40)] for _ in range(3)]))
    )
    assert len(groups) > 10
    for group in groups:
        assert len(group) == 5
        assert len({(each.step.before is None, each.steps) for each in group}) == 1


def test_all_wrong_images_are_kept_and_some_right_ones(some: DrawnImages) -> None:
    assert some.counts["drawn"] >= COUNT
    assert some.counts["wrong"] >= some.counts["drawn"] // 4
    assert 0 < some.counts["right"] <= 1.5 * (some.counts["wrong"] + 1)
    assert len(some.exercises) == some.counts["wrong"] + some.counts["right"]


def test_every_answer_says_what_the_reader_sees(some: DrawnImages) -> None:
    reader = shared_reader()
    for each in some.exercises:
        planned, before_at, after_at = parts(each)
        is_white = bool((some.images[before_at] == 255).all())
        assert is_white == (before_at == 0)
        before = None if is_white else reader.read_many(some.images[before_at][None].numpy())[0].scene
        target = parse_prompt(planned, before)
        [seen] = reader.read_many(some.images[after_at][None].numpy())
        said = parse_verdict(each.answer)
        assert said.accepted == shows(seen, target)
        assert said.accepted or parse_prompt(str(said.refined_prompt), before) == target


@pytest.mark.slow
def test_a_model_is_trained_on_them_and_examined_on_others(
    some: DrawnImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clocks import ticking
    from miniature.train import vision_pretrain

    ticking(monkeypatch, "miniature.train.training_loop")
    monkeypatch.setattr(vision_pretrain, "make_drawn_images", lambda *_, **__: some)
    monkeypatch.setattr(vision_pretrain, "_latent_space", lambda *_: None)
    fresh = write_fresh_agent(tmp_path / "fresh", "toy")
    settings = VisionPretraining(exercises=("verdict",), batch_size=4, eval_examples=4, drawings=COUNT)
    found = pretrain_vision(fresh, tmp_path / "out", 0.3, settings=settings, generator=tmp_path, device="cpu")
    assert set(found) == {"verdict", "verdict verdicts", DRAWN, f"{DRAWN} verdicts"}
    logged = (tmp_path / "out" / "log.jsonl").read_text()
    assert f'"drawn": {some.counts["drawn"]}' in logged


def test_a_white_canvas_has_no_background_to_name() -> None:
    from interleave_mini.world.scene import Scene
    from miniature.train.vision_pretrain import IGNORED, image_codes

    codes = image_codes([None, Scene("night"), None])
    assert codes[:, 0].tolist() == [IGNORED, scene_codes([Scene("night")])[0, 0], IGNORED]
    assert not codes[:, 1:].any()
    assert image_codes([]).shape == (0, codes.shape[1])
