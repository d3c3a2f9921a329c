"""Image models in this process: batches, settings, LoRA, masks, progress, cancellation, refusals."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy
import pytest
import torch
from concurrent_calls import all_done, at_once, queued
from PIL import Image

from interleave.backends.protocols import ImageRequest, ImageSettings, listening
from interleave.backends.registry import load_generator
from interleave.config.specs import Spec
from interleave.errors import BackendError, ConfigurationError
from interleave.local import compile_blocks as compiling
from interleave.local.diffusers_generator import DiffusersGenerator
from interleave.local.families import FAMILIES, Family, Lightning, pipeline_of
from interleave.local.pipelines import read_settings
from interleave.local.source_images import size_like, usable_source
from interleave.local.tiny.pipelines import build_tiny_lora
from interleave.types import Slot
from work import HANGS_AFTER

ToyPipeline = Callable[[str], Path]
Copy = Callable[[Path], Path]


def load(folder: Path, options: str = "") -> DiffusersGenerator:
    generator = load_generator(f"diffusers:{folder}{options}")
    assert isinstance(generator, DiffusersGenerator)
    return generator


def canvas(colour: str, size: tuple[int, int] = (64, 64)) -> Image.Image:
    return Image.new("RGB", size, colour)


def draw(generator: DiffusersGenerator, *requests: ImageRequest) -> list[Image.Image]:
    return asyncio.run(all_done(generator.queue._executor, [generator.generate(each) for each in requests]))


def alike(one: Image.Image, other: Image.Image) -> bool:
    """Whether two images differ only as sums do that are added in another order: here and there by one."""
    difference = numpy.abs(numpy.asarray(one, int) - numpy.asarray(other, int))
    return one.size == other.size and difference.mean() < 0.02


def calls(generator: DiffusersGenerator, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """The arguments of every call of the pipeline from now on."""
    seen: list[dict[str, object]] = []
    arguments = generator._arguments

    def recorded(drawings: Sequence[object], after_step: object) -> dict[str, object]:
        seen.append(arguments(drawings, after_step))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(generator, "_arguments", recorded)
    return seen


def test_images_from_text_are_drawn_together_and_each_has_its_own_seed(
    klein: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, batched = load(klein), load(klein, "?batch=4")
    seen = calls(batched, monkeypatch)
    requests = [ImageRequest(f"cat {number}", number) for number in range(6)]
    together = draw(batched, *requests)
    assert [len(call["prompt"]) for call in seen] == [4, 2]  # type: ignore[arg-type]
    assert all(alike(*pair) for pair in zip(together, draw(alone, *requests), strict=True))
    assert not any(alike(one, other) for one, other in combinations(together, 2))


def test_an_image_is_queued_as_soon_as_it_is_asked_for_so_that_batches_are_full(
    klein: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch waits for others hardly longer than a moment: what is prepared before the queue splits it."""
    generator = load(klein, "?batch=4")
    seen, hold = calls(generator, monkeypatch), threading.Event()
    generator.queue._executor.submit(hold.wait)

    async def ask() -> int:
        requests = [ImageRequest("a cat", seed, (canvas("red"),)) for seed in range(8)]
        asked = [asyncio.ensure_future(generator.generate(request)) for request in requests]
        await asyncio.sleep(0)  # each has had one turn
        waiting = len(generator.queue._waiting)
        hold.set()
        await asyncio.gather(*asked)
        return waiting

    try:
        assert asyncio.run(ask()) == 8
    finally:
        hold.set()
    assert [len(call["prompt"]) for call in seen] == [4, 4]  # type: ignore[arg-type]


def test_edits_of_different_images_are_drawn_together_and_each_sees_its_own(
    klein: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, batched = load(klein), load(klein, "?batch=4")
    seen = calls(batched, monkeypatch)
    colours = [("red", "blue"), ("blue", "red"), ("green", "white")]
    requests = [ImageRequest("a cat", 7, (canvas(one), canvas(two))) for one, two in colours]
    together = draw(batched, *requests)
    assert len(seen) == 1
    assert all(alike(*pair) for pair in zip(together, draw(alone, *requests), strict=True))
    assert not any(alike(one, other) for one, other in combinations(together, 2))


def test_what_does_not_fit_together_is_drawn_apart(klein: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batched = load(klein, "?batch=8")
    seen = calls(batched, monkeypatch)
    wide = canvas("red", (128, 64))
    draw(
        batched,
        ImageRequest("a", 1),
        ImageRequest("b", 2, (canvas("red"),)),
        ImageRequest("c", 3, (wide,)),
        ImageRequest("d", 4, (canvas("blue"), canvas("red"))),
        ImageRequest("e", 5, (canvas("blue"),)),
    )
    assert [call["prompt"] for call in seen] == [["a"], ["b", "e"], ["c"], ["d"]]


def test_a_family_that_draws_one_at_a_time_does(
    toy_pipeline: ToyPipeline, small_references: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = load(toy_pipeline("QwenImageEditPlusPipeline"), "?batch=4")
    seen = calls(generator, monkeypatch)
    draw(generator, ImageRequest("a", 1, (canvas("red"),)), ImageRequest("b", 2, (canvas("blue"),)))
    assert [call["prompt"] for call in seen] == ["a", "b"]
    assert generator.capabilities.concurrency == 1


def test_an_editor_starts_its_first_image_on_a_white_canvas(
    toy_pipeline: ToyPipeline, small_references: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = load(toy_pipeline("QwenImageEditPlusPipeline"))
    seen = calls(generator, monkeypatch)
    (drawn,) = draw(generator, ImageRequest("a cat", 7))
    (source,) = seen[0]["image"]  # type: ignore[misc]
    assert source.getextrema() == ((255, 255),) * 3
    assert source.size == drawn.size == (64, 64)


def test_a_model_folder_says_how_it_is_called_and_a_spec_says_it_better(
    klein: Path, copy_of: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copy_of(klein)
    settings = {
        "num_inference_steps": 3,
        "guidance_scale": 1.5,
        "width": 96,
        "height": 64,
        "max_sequence_length": 32,
    }
    (folder / "interleave.json").write_text(
        json.dumps(settings | {"text_encoder_out_layers": [1, 1, 2], "max_sources": 1})
    )
    generator = load(folder)
    seen = calls(generator, monkeypatch)
    (image,) = draw(generator, ImageRequest("a cat", 7))
    assert image.size == (96, 64)
    assert {name: seen[0][name] for name in settings} == settings
    assert seen[0]["text_encoder_out_layers"] == (1, 1, 2)
    assert generator.capabilities.max_sources == 1

    told = load(folder, "?steps=1&guidance=2&size=80&height=112&prompt_tokens=16")
    seen = calls(told, monkeypatch)
    assert draw(told, ImageRequest("a cat", 7))[0].size == (80, 112)
    assert (seen[0]["num_inference_steps"], seen[0]["guidance_scale"], seen[0]["max_sequence_length"]) == (
        1,
        2,
        16,
    )


def test_a_pipeline_in_memory_is_used_as_it_is(klein: Path) -> None:
    first = load(klein)
    second = DiffusersGenerator(
        spec=Spec("diffusers", "Org/Name"),
        options=DiffusersGenerator.Options(),
        pipeline=first.pipeline,
        settings=read_settings(klein),
    )
    assert second.settings == first.settings
    request = ImageRequest("a cat", 7)
    assert draw(second, request)[0].tobytes() == draw(first, request)[0].tobytes()


def test_without_settings_the_family_decides(klein: Path, copy_of: Copy) -> None:
    folder = copy_of(klein)
    (folder / "interleave.json").unlink()
    generator = load(folder)
    assert (generator.settings.steps, generator.settings.guidance) == (4, 1.0)
    assert (generator.settings.size, generator.settings.prompt_tokens) == ((1024, 1024), 512)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "interleave.json"),
        ("[]", "interleave.json"),
        ('{"steps": 4}', "unknown key 'steps'. Known: num_inference_steps"),
        ('{"width": 100}', "width: input should be a multiple of 16"),
        ('{"num_inference_steps": "many"}', "num_inference_steps: must be a whole number, not 'many'"),
        ('{"text_encoder_out_layers": []}', "text_encoder_out_layers"),
    ],
)
def test_broken_settings_are_refused_with_their_file(
    klein: Path, copy_of: Copy, text: str, words: str
) -> None:
    folder = copy_of(klein)
    (folder / "interleave.json").write_text(text)
    with pytest.raises(ConfigurationError) as refusal:
        load(folder)
    assert str(folder / "interleave.json") in str(refusal.value)
    assert words in str(refusal.value)


def test_settings_that_the_pipeline_does_not_take_are_refused(
    toy_pipeline: ToyPipeline, copy_of: Copy
) -> None:
    folder = copy_of(toy_pipeline("QwenImagePipeline"))
    (folder / "interleave.json").write_text('{"text_encoder_out_layers": [1]}')
    with pytest.raises(
        ConfigurationError, match="QwenImagePipeline has no parameter 'text_encoder_out_layers'"
    ):
        load(folder)


def test_a_lora_changes_the_image_as_strongly_as_it_is_told_to(klein: Path, tmp_path: Path) -> None:
    lora = build_tiny_lora(tmp_path / "lora", klein)
    request = ImageRequest("a cat", 7)
    images = [
        draw(load(klein, options), request)[0].tobytes()
        for options in (
            "",
            f"?lora={lora}",
            f"?lora={lora.parent}&lora_scale=3",
            f"?lora={lora}&lora_scale=0",
        )
    ]
    assert len(set(images[:3])) == 3
    assert images[3] == images[0]


def test_a_lightning_lora_brings_its_steps_guidance_and_schedule(
    toy_pipeline: ToyPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = toy_pipeline("QwenImagePipeline")
    lora = build_tiny_lora(tmp_path, folder).rename(tmp_path / "Qwen-Image-Lightning-4steps-V1.0.safetensors")
    generator = load(folder, f"?lora={lora}")
    seen = calls(generator, monkeypatch)
    draw(generator, ImageRequest("a cat", 7))
    assert (seen[0]["num_inference_steps"], seen[0]["true_cfg_scale"]) == (4, 1.0)
    assert generator.pipeline.scheduler.config.base_shift == pytest.approx(1.0986, abs=1e-4)
    assert load(folder, f"?lora={lora}&steps=6&guidance=2").settings.steps == 6, "a spec comes first"
    assert (
        Lightning.named("lightx2v/Qwen-Image-Lightning/Qwen-Image-Lightning-8steps-V2.0.safetensors").steps
        == 8
    )  # type: ignore[union-attr]
    assert Lightning.named("somebody/watercolour") is None


def test_a_mask_says_what_is_redrawn_and_must_be_there(
    toy_pipeline: ToyPipeline, mask: Path, klein: Path
) -> None:
    fill = toy_pipeline("FluxFillPipeline")
    generator = load(fill, f"?mask={mask}")
    assert not generator.capabilities.text_to_image
    assert draw(generator, ImageRequest("a cat", 7, (canvas("red", (90, 70)),)))[0].size == (64, 64)
    with pytest.raises(BackendError, match="only edits"):
        draw(generator, ImageRequest("a cat", 7))
    with pytest.raises(ConfigurationError, match="name a mask with"):
        load(fill)
    with pytest.raises(ConfigurationError, match=r"is only for FLUX\.1 Fill"):
        load(klein, f"?mask={mask}")


def test_every_request_may_have_its_own_mask(toy_pipeline: ToyPipeline, mask: Path) -> None:
    fill = toy_pipeline("FluxFillPipeline")
    fixed, asking = load(fill, f"?mask={mask}"), load(fill, "?mask=request")
    assert (fixed.capabilities.masks, asking.capabilities.masks) == ("may", "must")
    source, left = canvas("red", (64, 64)), Image.open(mask)
    (usual,) = draw(fixed, ImageRequest("a cat", 7, (source,)))
    same, other = draw(
        asking,
        ImageRequest("a cat", 7, (source,), mask=left),
        ImageRequest("a cat", 7, (source,), mask=canvas("white")),
    )
    assert same.tobytes() == usual.tobytes() != other.tobytes()
    (told,) = draw(fixed, ImageRequest("a cat", 7, (source,), mask=canvas("white")))
    assert told.tobytes() == other.tobytes()
    with pytest.raises(BackendError, match="has no mask"):
        draw(asking, ImageRequest("a cat", 7, (source,)))
    with pytest.raises(BackendError, match="they must have the same size"):
        draw(asking, ImageRequest("a cat", 7, (source,), mask=canvas("white", (32, 32))))


def test_every_request_may_have_its_own_settings_and_shares_a_batch_only_with_its_like(
    toy_pipeline: ToyPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = load(toy_pipeline("QwenImagePipeline"), "?batch=4")
    assert generator.capabilities.request_settings == ("steps", "guidance", "size", "negative_prompt")
    seen = calls(generator, monkeypatch)
    three = ImageSettings(steps=3, guidance=2.5, size=(96, 64), negative_prompt="ugly")
    images = draw(
        generator,
        ImageRequest("a", 1),
        ImageRequest("b", 2, settings=three),
        ImageRequest("c", 3),
        ImageRequest("d", 4, settings=three),
    )
    assert [image.size for image in images] == [(64, 64), (96, 64), (64, 64), (96, 64)]
    assert [call["prompt"] for call in seen] == [["a", "c"], ["b", "d"]]
    named = ("num_inference_steps", "true_cfg_scale", "width", "negative_prompt")
    assert [seen[1][name] for name in named] == [3, 2.5, 96, ["ugly"] * 2]
    with pytest.raises(BackendError, match="multiples of 16 from 64 to 4096"):
        draw(generator, ImageRequest("a cat", 7, settings=ImageSettings(size=(100, 64))))


def test_guidance_that_a_distilled_model_ignores_is_refused(klein: Path) -> None:
    with pytest.raises(BackendError, match="takes no 'guidance' with a request"):
        draw(load(klein), ImageRequest("a cat", 7, settings=ImageSettings(guidance=4.0)))


def test_a_prompt_that_will_not_be_read_to_its_end_is_reported(
    klein: Path, caplog: pytest.LogCaptureFixture
) -> None:
    generator = load(klein, "?prompt_tokens=24")
    with caplog.at_level(logging.WARNING):
        draw(generator, ImageRequest("a cat", 7))
        assert not caplog.records
        draw(generator, ImageRequest("a cat " * 40, 7))
    assert "tokens, and the generator reads only 7" in caplog.text  # the toy's chat template takes 17


def test_a_prompt_too_long_for_longcat_is_cut_rather_than_broken(
    toy_pipeline: ToyPipeline, small_references: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = load(toy_pipeline("LongCatImageEditPipeline"))
    seen = calls(generator, monkeypatch)
    draw(generator, ImageRequest("grün " * 900, 7))
    assert 100 < len(str(seen[0]["prompt"])) < 2000


def test_numbers_that_are_none_are_no_image(klein: Path) -> None:
    import torch

    generator = load(klein)
    with torch.no_grad():
        generator.pipeline.vae.decoder.conv_out.bias.fill_(float("nan"))
    with pytest.raises(BackendError, match=r"NaN.*\?dtype=bfloat16"):
        draw(generator, ImageRequest("a cat", 7))


def test_steps_are_told_to_whoever_listens(klein: Path) -> None:
    told: list[tuple[Slot, int, int]] = []
    generator = load(klein)
    with listening(lambda *progress: told.append(progress)):
        draw(generator, ImageRequest("a cat", 7, slot=Slot(step=2, attempt=3)))
    assert told == [(Slot(step=2, attempt=3), done, 4) for done in (1, 2, 3, 4)]
    draw(generator, ImageRequest("a cat", 7))
    assert len(told) == 4


def test_a_cancelled_call_stops_the_drawing_within_a_step_and_the_next_is_drawn(klein: Path) -> None:
    generator = load(klein, "?steps=500")
    steps: list[int] = []
    started, cancelled = threading.Event(), threading.Event()

    def listener(slot: Slot, done: int, total: int) -> None:
        steps.append(done)
        started.set()
        assert cancelled.wait(HANGS_AFTER)

    async def work() -> None:
        call = asyncio.create_task(generator.generate(ImageRequest("a cat", 7)))
        assert await asyncio.to_thread(started.wait, HANGS_AFTER)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        cancelled.set()

    with listening(listener):
        asyncio.run(work())
        quick = load(klein)
        assert draw(quick, ImageRequest("a cat", 7))[0].size == (64, 64)
    assert steps == [1, *(1, 2, 3, 4)], "the first went on, or the second was not drawn to its end"


def test_a_batch_goes_on_while_somebody_waits_for_one_of_it(klein: Path) -> None:
    generator = load(klein, "?batch=2&steps=4")
    started, cancelled = threading.Event(), threading.Event()

    async def work() -> Image.Image:
        calls = [generator.generate(ImageRequest(word, 7)) for word in ("a", "b")]
        gone, wanted = await queued(generator.queue._executor, calls)
        assert await asyncio.to_thread(started.wait, HANGS_AFTER)
        gone.cancel()
        await asyncio.sleep(0)
        cancelled.set()
        return await wanted

    def listener(*_: object) -> None:
        started.set()
        assert cancelled.wait(HANGS_AFTER)

    with listening(listener):
        drawn = asyncio.run(work())
    assert alike(drawn, draw(load(klein, "?steps=4"), ImageRequest("b", 7))[0])


def test_an_edit_can_keep_the_shape_of_its_source(klein: Path) -> None:
    generator = load(klein, "?shape=source&size=96")
    (wide,) = draw(generator, ImageRequest("a cat", 7, (canvas("red", (400, 200)),)))
    assert wide.width == 2 * wide.height == 128
    assert draw(generator, ImageRequest("a cat", 7))[0].size == (96, 96)
    assert size_like(canvas("red", (5000, 1)), (1024, 1024)) == (2864, 368)


@pytest.mark.parametrize("size", [(1, 1), (1, 900), (900, 1), (3000, 20), (64, 64), (640, 480)])
def test_any_source_becomes_one_that_pipelines_take(size: tuple[int, int]) -> None:
    taken = usable_source(canvas("navy", size))
    assert min(taken.size) >= 64
    assert max(taken.size) <= 8 * min(taken.size)
    assert taken.getpixel((taken.width // 2, taken.height // 2)) == (0, 0, 128)
    assert min(size) < 64 or taken.size == size


def test_a_failing_library_is_a_backend_error_and_spares_the_rest_of_its_batch(
    klein: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = load(klein, "?batch=4")
    draw_for_real = generator.pipeline

    class Small:
        def __call__(self, **arguments: object) -> object:
            if len(arguments["prompt"]) > 1:  # type: ignore[arg-type]
                raise torch.OutOfMemoryError("too much")
            if arguments["prompt"] == ["bad"]:
                raise ValueError("bad prompt")
            return draw_for_real(**arguments)

        def __getattr__(self, name: str) -> object:
            return getattr(draw_for_real, name)

    monkeypatch.setattr(generator, "pipeline", Small())

    calls = [generator.generate(ImageRequest(word, 7)) for word in ("a", "bad", "b")]
    first, second, third = asyncio.run(at_once(generator.queue._executor, calls))
    assert isinstance(first, Image.Image) and isinstance(third, Image.Image)
    assert isinstance(second, BackendError)
    assert str(second) == "the generator failed: ValueError: bad prompt"


def test_kontext_gets_an_area_of_its_own(toy_pipeline: ToyPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = load(toy_pipeline("FluxKontextPipeline"))
    seen = calls(generator, monkeypatch)
    draw(generator, ImageRequest("a cat", 7, (canvas("red", (100, 50)),)))
    assert (seen[0]["max_area"], seen[0]["_auto_resize"]) == (64 * 64, False)


def test_an_unknown_pipeline_says_how_to_add_a_row(klein: Path, copy_of: Copy) -> None:
    folder = copy_of(klein)
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps(index | {"_class_name": "Flux3Pipeline"}))
    with pytest.raises(ConfigurationError, match=r"Did you mean 'Flux\w*Pipeline'\?.*add a row"):
        load(folder)


def test_a_new_family_is_one_row(klein: Path, copy_of: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline of diffusers that we have no row for works as soon as it has one."""
    folder = copy_of(klein)
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps(index | {"_class_name": "Flux2KleinKVPipeline"}))
    monkeypatch.delitem(FAMILIES, "Flux2KleinKVPipeline")
    with pytest.raises(ConfigurationError, match="add a row"):
        load(folder)
    row = Family("klein with a cache of its sources", {}, steps=2, guidance=1.0, guidance_parameter=None)
    monkeypatch.setitem(FAMILIES, "Flux2KleinKVPipeline", row)
    assert draw(load(folder), ImageRequest("a cat", 7))[0].size == (64, 64)


def test_a_setting_that_a_pipeline_does_not_have_is_refused(klein: Path, toy_pipeline: ToyPipeline) -> None:
    with pytest.raises(ConfigurationError, match=r"omit \?negative_prompt="):
        load(klein, "?negative_prompt=ugly")
    with pytest.raises(ConfigurationError, match=r"omit \?prompt_tokens="):
        load(toy_pipeline("LongCatImagePipeline"), "?prompt_tokens=64")
    generator = load(toy_pipeline("QwenImagePipeline"), "?negative_prompt=ugly&guidance=2")
    plain = load(toy_pipeline("QwenImagePipeline"))
    request = ImageRequest("a cat", 7)
    assert draw(generator, request)[0].tobytes() != draw(plain, request)[0].tobytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("?offload=model", "this is a CPU: omit it"),
        ("?size=100", "option 'size'.*multiple of 16"),
        ("?offload=disk", "option 'offload'"),
        ("?lora=./nowhere.safetensors", "do not exist"),
        ("?quantization=8bit", "needs a CUDA device"),
    ],
)
def test_what_cannot_be_done_is_refused(klein: Path, options: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        load(klein, options)


def test_a_spec_without_a_model_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="name a model, as in 'diffusers:black-forest-labs"):
        load_generator("diffusers")


def test_a_model_that_a_row_names_has_a_known_class() -> None:
    assert pipeline_of("black-forest-labs/FLUX.2-klein-9B") == "Flux2KleinPipeline"
    assert pipeline_of("Qwen/Qwen-Image-Edit-2511") == "QwenImageEditPlusPipeline"
    assert pipeline_of("Some/Model") is None


def test_a_generator_is_compiled_once_it_has_drawn_many(klein: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    monkeypatch.setattr(compiling, "COMPILE_AFTER", 3)
    monkeypatch.setattr(compiling, "compile_blocks", compiled.append)
    monkeypatch.setattr(DiffusersGenerator, "_may_compile_later", lambda self: True)
    generator = load(klein)
    for expected in ([], [], [generator.pipeline], [generator.pipeline]):
        draw(generator, ImageRequest("a cat", 7))
        assert compiled == expected


@pytest.mark.parametrize(
    "options, expected",
    [("", True), ("?compile=false", False), ("?batch=1", False), ("?batch=2", True)],
)
def test_only_a_large_model_on_a_gpu_may_be_compiled_later_and_never_one_that_promises_the_same_bits(
    klein: Path, monkeypatch: pytest.MonkeyPatch, options: str, expected: bool
) -> None:
    generator = load(klein, options)
    assert not generator._may_compile_later(), "neither large nor on a GPU"
    generator.device = torch.device("cuda")
    assert not generator._may_compile_later(), "not large"
    monkeypatch.setattr("interleave.local.diffusers_generator.is_large", lambda model: True)
    assert generator._may_compile_later() is expected


@pytest.mark.slow
def test_a_compiled_model_draws_the_same(klein: Path) -> None:
    request = ImageRequest("a cat", 7)
    assert alike(draw(load(klein, "?compile=true"), request)[0], draw(load(klein), request)[0])
