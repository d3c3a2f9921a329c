"""The generator's training at toy size: real classes, and the promises the long run rests on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")

from clocks import ticking  # noqa: E402
from interleave.cli.main import run  # noqa: E402
from interleave_mini.bench.splits import is_held_out_pair  # noqa: E402
from interleave_mini.language.prompts import parse_prompt  # noqa: E402
from interleave_mini.reader import shared_reader  # noqa: E402
from interleave_mini.world.drawing import (  # noqa: E402
    TorchPainter,
    draw,
    draw_many,
    scene_of,
)
from interleave_mini.world.scene import Scene, Thing  # noqa: E402
from miniature.train.autoencoder import LatentSpace, RandomScenes, VaeTraining, patchify, unpatchify  # noqa: E402
from miniature.train.evaluation import QuickEval  # noqa: E402
from miniature.train.examples import sample_example  # noqa: E402
from miniature.train.flow import Examples, Flow, FlowTraining, encode_prompts, train_flow  # noqa: E402
from miniature.train.generator import GeneratorTraining, train_generator  # noqa: E402
from miniature.train.generator_model import (  # noqa: E402
    TOY,
    GeneratorShape,
    build_pipeline,
    build_text_encoder,
    build_transformer,
    build_vae,
    text_layers,
)
from miniature.train.tokenizers import generator_tokenizer  # noqa: E402
from miniature.train.training_loop import Log, TimedSchedule, learning_rate  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, at import and at saving
SECOND = 1 / 60
"""In minutes. Tests of trainings have a clock on which every look is one later."""
TINY_VAE = VaeTraining(batch=2, measured_on=16)
TINY_FLOW = FlowTraining(text_batch=2, edit_batch=2, history_batch=2, log_every=1)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return generator_tokenizer(samples=400)


def test_examples_are_understood_and_hold_nothing_out_of_the_test_split() -> None:
    rng = Random(0)
    for example in (sample_example(rng) for _ in range(400)):
        assert parse_prompt(example.prompt, example.before) == example.after
        assert not any(is_held_out_pair(thing) for thing in example.after.things.values())


def test_random_scenes_for_the_vae_are_scenes_without_held_out_pairs() -> None:
    for row in RandomScenes("cpu").codes(200).numpy():
        assert not any(is_held_out_pair(thing) for thing in scene_of(row).things.values())


def test_every_prompt_fits_and_a_word_is_a_token(tokenizer: Any) -> None:
    rng = Random(1)
    lengths = [len(tokenizer(sample_example(rng).prompt)["input_ids"]) for _ in range(300)]
    assert max(lengths) <= GeneratorShape().sequence
    assert len(tokenizer("Paint the red cat blue.")["input_ids"]) == 6
    assert tokenizer.decode(tokenizer("Größe ≠ 3 😀")["input_ids"]) == "Größe ≠ 3 😀"


def test_what_is_shipped_fits_into_the_package(tokenizer: Any) -> None:
    shape = GeneratorShape()
    parts = (build_vae(shape), build_text_encoder(shape, 1728), build_transformer(shape))
    sizes = [2 * sum(parameter.numel() for parameter in part.parameters()) for part in parts]
    assert sum(sizes) <= 22e6
    assert max(sizes) < 16 * 2**20


def test_patches_are_the_pipelines(tokenizer: Any) -> None:
    from diffusers import Flux2KleinPipeline

    latents = torch.randn(2, 4, 8, 8)
    assert torch.equal(patchify(latents), Flux2KleinPipeline._patchify_latents(latents))
    assert torch.equal(unpatchify(patchify(latents)), latents)


@pytest.fixture(scope="module")
def lively(tokenizer: Any) -> Flow:
    """A toy whose images depend visibly on everything it is given, as fresh weights do not."""
    torch.manual_seed(0)
    vae = build_vae(TOY).eval()
    vae.bn.running_mean.normal_()
    vae.bn.running_var.uniform_(0.3, 3)
    text_encoder, transformer = build_text_encoder(TOY, len(tokenizer)).eval(), build_transformer(TOY).eval()
    for name, weight in transformer.named_parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.3)
        elif "norm_q" in name or "norm_k" in name:  # attention that looks at some places more than at others
            torch.nn.init.constant_(weight, 4.0)
    return Flow(TOY, LatentSpace(vae), text_encoder, transformer, tokenizer.pad_token_id)


SOURCES = [draw(Scene("night")), draw(Scene.of("meadow", {4: Thing("cat", "red")}))]


def by_training(flow: Flow, tokenizer: Any, prompt: str, sources: Any) -> Any:
    tokens = torch.as_tensor(encode_prompts(tokenizer, [prompt], TOY))
    given = [torch.as_tensor(np.array(source))[None] for source in sources]
    return flow.draw(tokens, given, seed=7)[0].numpy().astype(int)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_training_draws_as_the_pipeline_does(lively: Flow, tokenizer: Any, count: int) -> None:
    pipeline = build_pipeline(lively.space.vae, lively.text_encoder, tokenizer, lively.transformer)
    pipeline.set_progress_bar_config(disable=True)
    prompt, sources = "Paint the red cat blue.", SOURCES[:count]
    noise = torch.randn((1, 256, 16), generator=torch.Generator().manual_seed(7))
    drawn = pipeline(
        prompt=prompt,
        latents=noise.transpose(1, 2).reshape(1, 16, 16, 16),
        num_inference_steps=TOY.steps,
        guidance_scale=1.0,
        height=256,
        width=256,
        max_sequence_length=TOY.sequence,
        text_encoder_out_layers=text_layers(TOY),
        **({"image": sources} if sources else {}),
    ).images[0]
    ours = by_training(lively, tokenizer, prompt, sources)
    assert np.abs(ours - np.asarray(drawn).astype(int)).max() <= 1


def test_the_toy_would_show_a_difference(lively: Flow, tokenizer: Any) -> None:
    night, meadow = SOURCES
    usual = by_training(lively, tokenizer, "Paint the red cat blue.", [night, meadow])
    for prompt, sources in (
        ("Remove the dog.", [night, meadow]),
        ("Paint the red cat blue.", [meadow, night]),
        ("Paint the red cat blue.", [meadow]),
        ("Paint the red cat blue.", []),
    ):
        assert (
            np.abs(usual - by_training(lively, tokenizer, prompt, sources)).max() > 1
        )  # what the test above lets pass


def test_a_batch_without_a_finite_gradient_changes_no_weight(
    lively: Flow, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Flow, "loss", lambda self, batch, painter: next(self.transformer.parameters()).sum() * float("nan")
    )
    monkeypatch.setattr("miniature.train.flow.MAX_SKIPPED", 2)
    before = [weight.detach().clone() for weight in lively.transformer.parameters()]
    log, examples = Log(tmp_path / "log.jsonl"), Examples(tokenizer, TOY, TINY_FLOW, seed=0)
    with pytest.raises(RuntimeError, match="diverged"):
        train_flow(lively, examples, TorchPainter(), TimedSchedule(1), log, TINY_FLOW, tmp_path / "flow.pt")
    after = list(lively.transformer.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert not (tmp_path / "flow.pt").exists()


def test_a_quick_evaluation_uses_the_averaged_weights_and_leaves_the_others_in_place(
    lively: Flow, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("miniature.train.flow.SAVE_EVERY", 0.0)
    ticking(monkeypatch, "miniature.train.training_loop")
    seen: list[Any] = []

    def quick_eval() -> dict[str, float]:
        seen.append([weight.detach().clone() for weight in lively.transformer.parameters()])
        return {"text": 0.5}

    log, examples = Log(tmp_path / "log.jsonl"), Examples(tokenizer, TOY, TINY_FLOW, seed=0)
    schedule = TimedSchedule(100 * SECOND, stop_after=20 * SECOND)
    average = train_flow(
        lively, examples, TorchPainter(), schedule, log, TINY_FLOW, tmp_path / "flow.pt", quick_eval
    )
    assert 2 <= len(seen) <= 5
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text("utf-8").splitlines()]
    assert {"text": 0.5}.items() <= next(line for line in lines if line["stage"] == "glance").items()
    averaged = average.mean[len(list(lively.text_encoder.parameters())) :]
    assert all(map(torch.equal, seen[-1], averaged))
    assert not all(map(torch.equal, seen[-1], lively.transformer.parameters()))


def test_a_quick_evaluation_draws_counts_and_saves_samples(tmp_path: Path) -> None:
    asked: list[tuple[int, int]] = []
    reader = shared_reader()

    def by_the_world(prompts: Any, sources: Any, seed: int) -> Any:
        asked.append((len(prompts), len(sources)))
        starts: Any = [reading.scene for reading in reader.read_many(sources[0])] if sources else [None] * 8
        return draw_many([parse_prompt(prompt, start) for prompt, start in zip(prompts, starts, strict=True)])

    found = QuickEval(by_the_world, reader, tmp_path / "samples", images=8)()
    assert found == {"text": 1.0, "short": 1.0, "exact": 1.0}
    assert asked == [(8, 0), (8, 1), (8, 1)]
    assert Image.open(tmp_path / "samples" / "000.png").size == (8 * 256, 4 * 256)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tokenizer: Any) -> None:
    """Trainings of a few steps, whatever the machine, with a tokenizer that has not read as much."""
    ticking(monkeypatch, "miniature.train.training_loop")
    monkeypatch.setattr("miniature.train.generator.generator_tokenizer", lambda: tokenizer)


@pytest.mark.slow
def test_a_vae_is_trained_further_but_not_under_a_flow_that_knows_it(tmp_path: Path, counted: None) -> None:
    settings = GeneratorTraining(
        tmp_path,
        "toy",
        vae_minutes=9 * SECOND,
        flow_minutes=1000 * SECOND,
        stop_after=SECOND,
        device="cpu",
        evaluate=1,
        vae=TINY_VAE,
        flow=TINY_FLOW,
    )
    weights = tmp_path / "vae" / "diffusion_pytorch_model.safetensors"
    train_generator(settings)
    first = weights.read_bytes()
    train_generator(replace(settings, vae_minutes=20 * SECOND))
    assert weights.read_bytes() == first
    (tmp_path / "flow.pt").unlink()
    (tmp_path / "vae.json").write_text('{"seconds": 0}', "utf-8")
    train_generator(settings)
    assert weights.read_bytes() != first


def weights_of(out: Path) -> bytes:
    [weights] = (out / "pipeline" / "transformer").glob("*.safetensors")
    return weights.read_bytes()


@pytest.mark.slow
def test_a_training_is_stopped_goes_on_and_ends_in_a_pipeline_that_a_backend_loads(
    tmp_path: Path, counted: None
) -> None:
    settings = GeneratorTraining(
        tmp_path,
        "toy",
        vae_minutes=5 * SECOND,
        flow_minutes=20 * SECOND,
        stop_after=5 * SECOND,
        device="cpu",
        evaluate=1,
        vae=TINY_VAE,
        flow=TINY_FLOW,
    )
    assert train_generator(settings) == {}
    vae = (tmp_path / "vae" / "diffusion_pytorch_model.safetensors").read_bytes()
    found = train_generator(replace(settings, stop_after=None))
    assert (tmp_path / "vae" / "diffusion_pytorch_model.safetensors").read_bytes() == vae
    assert {"text, 1 things", "edit, all, short", "chain of 10, all right"} <= found.keys()
    seconds = [
        line["seconds"]
        for line in map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
        if line["stage"] == "flow"
    ]
    assert seconds == sorted(seconds)

    again = replace(settings, out=tmp_path / "again", stop_after=None, start=tmp_path / "pipeline")
    assert train_generator(again).keys() == found.keys()
    for kept in (tmp_path / "again" / "pipeline").rglob("*.json"):
        assert str(tmp_path) not in kept.read_text(), "where it went on from is not written into it"
    assert weights_of(tmp_path / "again") != weights_of(tmp_path)

    from interleave.backends.registry import load_generator
    from interleave.diagnostics.contract import Known, Status, checks_for

    backend = load_generator(f"diffusers:{tmp_path / 'pipeline'}?device=cpu")
    first = [check for check in checks_for("generator") if str(check) in ("generates an image",)]
    assert first
    import asyncio

    for check in first:
        result = asyncio.run(check.on(backend, Known(size=(256, 256))))
        assert result.status is Status.PASSED, result.reason


def test_the_schedule_and_the_rate() -> None:
    assert TimedSchedule(0).is_over
    assert not TimedSchedule(1).is_over
    assert TimedSchedule(1, spent=61).is_over
    rates = [learning_rate(1.0, share / 100) for share in range(101)]
    assert max(rates) == pytest.approx(1.0, abs=0.01)
    assert rates[0] < 0.1
    assert rates[2:] == sorted(rates[2:], reverse=True)


def test_an_unknown_shape_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mini", "train", "generator", "--out", str(tmp_path), "--shape", "huge"]) == 2
    assert "mini, toy" in capsys.readouterr().err
