"""The optimizer of the exercises: orthogonal updates, a loss that falls, and parts that stay as they are."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from interleave.local.processors import load_processor  # noqa: E402
from interleave.local.qwen3_vl.batched_vision import batch_vision  # noqa: E402
from interleave.local.qwen3_vl.uint8_pixels import use_uint8_pixels  # noqa: E402
from interleave_mini.world.drawing import TorchPainter  # noqa: E402
from miniature.train.agent_model import write_fresh_agent  # noqa: E402
from miniature.train.optimizers import MuonAndAdamW, orthogonal  # noqa: E402
from miniature.train.vision_examples import sample_exercise  # noqa: E402
from miniature.train.vision_pretrain import Batch, Batches, VisionPretrainer, on_device  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, while they load
ROWS = 4


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 24, 8), (2, 8, 24)])
def test_all_singular_values_become_nearly_one(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    matrices = torch.randn(shape) * torch.logspace(-3, 3, shape[0])[:, None, None]  # any scale
    found = orthogonal(matrices)
    assert found.shape == matrices.shape
    values = torch.linalg.svdvals(found.float())
    assert values.min() > 0.5 and values.max() < 1.5
    before = torch.linalg.svdvals(matrices)
    assert (before[:, 0] / before[:, -1]).min() > 2, "they were so already"


def test_singular_vectors_stay() -> None:
    torch.manual_seed(1)
    left, right = (torch.linalg.qr(torch.randn(6, 6)).Q for _ in range(2))
    found = orthogonal((left @ torch.diag(torch.linspace(1, 3, 6)) @ right)[None])[0].float()
    turned = left.T @ found @ right.T
    assert (turned - torch.diag(turned.diagonal())).abs().max() < 0.1


def test_nothing_comes_of_nothing() -> None:
    assert not orthogonal(torch.zeros(1, 4, 4)).any()


class Trained:
    """A toy agent in training."""

    def __init__(self, folder: Path) -> None:
        from transformers import Qwen3VLForConditionalGeneration

        processor = load_processor(folder, "qwen3_vl")
        self.model = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        batch_vision(self.model)
        assert use_uint8_pixels(self.model, processor)
        self.batches = Batches(processor, ROWS, 0)
        self.trainer = VisionPretrainer(self.model, TorchPainter("cpu"), None, 16)
        self.optimizer = MuonAndAdamW(self.model, (), 1e-2, weight_decay=0.05)

    def batch(self, name: str) -> Batch:
        rng = Random(name)
        return on_device(self.batches.batch([sample_exercise(rng, (name,)) for _ in range(ROWS)]), "cpu")

    def step(self, batch: Batch, rate: float = 1e-2) -> float:
        loss = self.trainer.loss(batch)
        loss.backward()
        self.optimizer.step(rate)
        self.optimizer.zero_grad()
        return float(loss)

    def weights(self) -> dict[str, Any]:
        return {name: weight.detach().clone() for name, weight in self.model.named_parameters()}

    def changed(self, before: dict[str, Any]) -> set[str]:
        return {name for name, weight in self.weights().items() if not torch.equal(weight, before[name])}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fresh_agent(tmp_path_factory.mktemp("optimizers") / "toy", "toy")


@pytest.mark.slow
def test_a_toys_loss_falls(fresh: Path) -> None:
    agent = Trained(fresh)
    batch = agent.batch("look")
    losses = [agent.step(batch) for _ in range(15)]
    assert losses[-1] < 0.6 * losses[0]


def test_a_batch_without_images_leaves_the_vision_tower_as_it_is(fresh: Path) -> None:
    """Momentum and weight decay too, after batches with images."""
    agent = Trained(fresh)
    seen, unseen = agent.batch("look"), agent.batch("plan-know")
    assert len(seen.codes) and not len(unseen.codes)
    before = agent.weights()
    agent.step(seen)
    visual = {name for name in before if "visual" in name}
    assert visual & agent.changed(before)
    before = agent.weights()
    agent.step(unseen)
    changed = agent.changed(before)
    assert changed and not visual & changed
    momenta = [momentum.clone() for momentum in agent.optimizer.momenta]
    agent.step(unseen)
    moved = [not torch.equal(a, b) for a, b in zip(momenta, agent.optimizer.momenta, strict=True)]
    assert any(moved) and not all(moved)


def test_every_weight_is_updated_by_one_of_the_two(fresh: Path) -> None:
    agent = Trained(fresh)
    by_adamw = [weight for group in agent.optimizer.rest.param_groups for weight in group["params"]]
    by_muon = [weight for group in agent.optimizer.groups for weight in group]
    assert sorted(map(id, (*by_adamw, *by_muon))) == sorted(map(id, agent.model.parameters()))
    names = {id(weight): name for name, weight in agent.model.named_parameters()}
    assert all(weight.ndim == 2 and "embed" not in names[id(weight)] for weight in by_muon)


def test_a_rate_of_zero_changes_nothing(fresh: Path) -> None:
    agent = Trained(fresh)
    before = agent.weights()
    agent.step(agent.batch("look"), rate=0)
    assert not agent.changed(before)
