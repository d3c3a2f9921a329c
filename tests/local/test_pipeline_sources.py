"""The sources of many prompts, encoded together, give the latents that each would have alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")

from interleave.local import source_images  # noqa: E402
from interleave.local.pipeline_sources import stack_sources  # noqa: E402


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    from diffusers import Flux2KleinPipeline

    from interleave.local.tiny.pipelines import build_tiny_pipeline

    folder: Path = build_tiny_pipeline(tmp_path_factory.mktemp("stacking") / "klein", "Flux2KleinPipeline")
    own, ours = (Flux2KleinPipeline.from_pretrained(folder) for _ in range(2))
    stack_sources(ours)
    return own, ours


def noise(seed: int, side: int = 64) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8))


@pytest.mark.parametrize("each", [1, 2])
def test_sources_are_encoded_as_if_alone(pipelines: Any, each: int) -> None:
    own, ours = pipelines
    sources = [noise(seed) for seed in range(3 * each)]

    def prepared(pipeline: Any, images: list[Image.Image], rows: int) -> Any:
        size = {"height": 64, "width": 64, "resize_mode": "crop"}
        return pipeline.prepare_image_latents(
            images=[pipeline.image_processor.preprocess(image, **size) for image in images],
            batch_size=rows,
            generator=[torch.Generator() for _ in range(rows)],
            device=torch.device("cpu"),
            dtype=torch.float32,
        )

    with torch.inference_mode():
        latents, position_ids = prepared(ours, sources, 3)
        for row in range(3):
            alone, alone_ids = prepared(own, sources[row * each : (row + 1) * each], 1)
            torch.testing.assert_close(latents[row : row + 1], alone, atol=1e-4, rtol=1e-4)
            assert torch.equal(position_ids[row : row + 1], alone_ids)
        single, _ = prepared(ours, sources[:each], 1)
        assert torch.equal(single, prepared(own, sources[:each], 1)[0])


def test_the_latents_of_a_source_are_kept_for_the_next_attempt(
    pipelines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, ours = pipelines
    stack_sources(ours)
    kept, encoded, encode = ours.kept_latents, [], ours._encode_vae_image

    def counted(image: Any, generator: Any) -> Any:
        encoded.append(len(image))
        return encode(image, generator)

    monkeypatch.setattr(ours, "_encode_vae_image", counted)

    def prepared(*seeds: int) -> Any:
        images = [ours.image_processor.preprocess(noise(seed), height=64, width=64) for seed in seeds]
        return ours.prepare_image_latents(
            images=images,
            batch_size=len(seeds),
            generator=None,
            device=torch.device("cpu"),
            dtype=torch.float32,
        )[0]

    with torch.inference_mode():
        first, again = prepared(1), prepared(1)
        assert torch.equal(first, again) and encoded == [1]
        together, other = prepared(1, 2), prepared(3, 2)
        assert encoded == [1, 2, 1], "a source of a batch was encoded again"
        assert torch.equal(together[1], other[1])
        monkeypatch.setattr(source_images, "MOST_KEPT", 1)
        prepared(4)
        assert len(kept._kept) == 1
