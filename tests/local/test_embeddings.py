"""Identity of assets by embeddings: tiny random models of the real classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

from interleave import GivenAsset, Request, Text, generate
from interleave.config.specs import parse_spec
from interleave.drift.control import checked_identity
from interleave.drift.measures import step_drift
from interleave.errors import ConfigurationError
from interleave.local.embeddings import EmbeddingIdentity, windows

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

IMAGE = {"size": {"height": 28, "width": 28}, "crop_size": {"height": 28, "width": 28}}


def image(colour: str, *, at: int = 8, size: int = 64) -> Image.Image:
    image = Image.new("RGB", (size, size), "white")
    ImageDraw.Draw(image).ellipse((at, at, at + 24, at + 24), fill=colour)
    return image


def save(model: Any, folder: Path, kind: str) -> str:
    import json

    model.save_pretrained(folder)
    settings = {"image_processor_type": kind, "do_resize": True, "do_center_crop": False, **IMAGE}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return f"transformers:{folder}?device=cpu"


@pytest.fixture(scope="module", params=["dinov2", "clip"])
def spec(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "dinov2":
        config = transformers.Dinov2Config(**small, image_size=28, patch_size=14)
        return save(transformers.Dinov2Model(config), folder, "BitImageProcessor")
    vision = {**small, "intermediate_size": 32, "image_size": 28, "patch_size": 14}
    text = {**small, "intermediate_size": 32, "vocab_size": 32, "max_position_embeddings": 8}
    clip = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)
    return save(transformers.CLIPModel(clip), folder, "CLIPImageProcessor")


def test_the_same_image_is_itself_and_another_is_less(spec: str) -> None:
    measure = EmbeddingIdentity(parse_spec(spec))
    fox = image("orangered")
    assert measure(fox, fox) == pytest.approx(1, abs=1e-4)
    assert measure(fox, Image.effect_noise((64, 64), 90).convert("RGB")) < measure(fox, fox)


def test_an_asset_is_found_in_a_part_of_an_image(spec: str) -> None:
    measure = EmbeddingIdentity(parse_spec(spec))
    fox = image("orangered")
    page = Image.new("RGB", (128, 128), "navy")
    page.paste(fox, (64, 64))
    assert measure(fox, page) == pytest.approx(1, abs=1e-4)


def test_the_drift_of_a_step_names_its_measure(spec: str) -> None:
    measure = EmbeddingIdentity(parse_spec(spec))
    fox = image("orangered")
    found = step_drift(None, fox, references={"fox": fox}, measure=measure)
    assert found.identity["fox"] == pytest.approx(1, abs=1e-3)
    assert found.identity_by == spec
    assert step_drift(None, fox, references={"fox": fox}).identity_by is None
    assert "identity_by" not in step_drift(None, fox).model_dump()


def test_a_run_records_the_model_that_measured(spec: str, tmp_path: Path) -> None:
    asked = Request((Text("The fox, in two pictures"),), (GivenAsset("fox", image("orangered")),))
    options: Any = {"profile": "dry-run", "generator": "solid?size=64", "identity": spec}
    run = generate(asked, out=tmp_path / "run", **options)
    assert run.record.config.identity == spec
    assert {step.drift.identity_by for step in run.record.steps if step.drift} == {spec}
    assert f"by {spec}" in run.document.read_text("utf-8")
    assert generate(asked, out=tmp_path / "run", **options).record == run.record


def test_windows_cover_the_image() -> None:
    found = windows(Image.new("L", (5, 3)))
    assert len(found) == 10
    assert {each.size for each in found[1:]} == {(2, 1)}
    assert windows(Image.new("RGB", (1, 1)))[1].size == (1, 1)


@pytest.mark.parametrize("text", ["dinov2", "openai:gpt-4", "transformers", "transformers:a/b?steps=3"])
def test_what_is_no_such_model_is_refused_before_anything_is_loaded(text: str) -> None:
    with pytest.raises(ConfigurationError):
        checked_identity(text)


def test_the_colours_are_the_default() -> None:
    assert checked_identity(None) is None
    assert checked_identity("colours") is None
