"""The contract, tried on toys of every class that can be built; the other families by their signatures."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from interleave.backends.registry import load_generator, load_vlm
from interleave.diagnostics.contract import Check, Known, Status, checks_for
from interleave.local.families import FAMILIES, Family
from interleave.local.pipelines import CallSettings, own_class
from interleave.local.tiny.pipelines import BUILDERS, SIDE
from sampling import all_slow, one_in

INSTALLED = {
    name
    for name, family in FAMILIES.items()
    if family.own_code is None or importlib.util.find_spec(family.own_code.package)
}
OTHERS = sorted((set(BUILDERS) & INSTALLED) - {"Flux2KleinPipeline"})
OFTEN = ("Flux2Pipeline", "QwenImageEditPlusPipeline")
RARE = [name for name in OTHERS if name not in OFTEN]
VLM_OPTIONS = ["?batch=1", "?cache=static", "?dtype=bfloat16"]


def keeps(check: Check, backend: object, known: Known) -> None:
    result = asyncio.run(check.on(backend, known))
    if result.status is Status.SKIPPED:
        pytest.skip(f"does not apply: {result.reason}")
    assert result.status is Status.PASSED, result.reason


@pytest.fixture(scope="module")
def loaded() -> dict[str, object]:
    """Backends of this module by spec: each is loaded once."""
    return {}


@pytest.mark.parametrize("check", checks_for("planner"), ids=str)
def test_a_vision_language_model_keeps_its_contract(
    check: Check, toy_vlm: Callable[[str | None], Path], loaded: dict[str, object]
) -> None:
    test_a_model_keeps_its_contract_with_every_option("", check, toy_vlm, loaded)


@pytest.mark.parametrize(
    ("options", "check"), one_in(3, product(VLM_OPTIONS, checks_for("planner", quick=True))), ids=str
)
def test_a_model_keeps_its_contract_with_every_option(
    options: str, check: Check, toy_vlm: Callable[[str | None], Path], loaded: dict[str, object]
) -> None:
    spec = f"transformers:{toy_vlm('planner')}{options}"
    vlm = loaded.setdefault(spec, loaded.get(spec) or load_vlm(spec, "planner"))
    keeps(check, vlm, Known(role="planner", repeatable=True))


@pytest.mark.parametrize("check", checks_for("generator"), ids=str)
def test_klein_keeps_its_contract(check: Check, klein: Path, loaded: dict[str, object]) -> None:
    spec = f"diffusers:{klein}"
    generator = loaded.setdefault(spec, loaded.get(spec) or load_generator(spec))
    keeps(check, generator, Known(size=(SIDE, SIDE)))


@pytest.mark.usefixtures("small_references")
@pytest.mark.parametrize(
    ("pipeline", "check"),
    [
        *one_in(2, product(OFTEN, checks_for("generator", quick=True))),
        *all_slow(product(RARE, checks_for("generator", quick=True))),
    ],
    ids=str,
)
def test_every_family_keeps_its_contract(
    pipeline: str,
    check: Check,
    toy_pipeline: Callable[[str], Path],
    mask: Path,
    loaded: dict[str, object],
) -> None:
    options = f"?mask={mask}" if FAMILIES[pipeline].takes_mask else ""
    spec = f"diffusers:{toy_pipeline(pipeline)}{options}"
    generator = loaded.setdefault(spec, loaded.get(spec) or load_generator(spec))
    keeps(check, generator, Known(size=(SIDE, SIDE)))


@pytest.mark.slow
@pytest.mark.usefixtures("small_references")
@pytest.mark.parametrize("check", [each for each in checks_for("generator") if each.thorough], ids=str)
@pytest.mark.parametrize("pipeline", OTHERS)
def test_every_family_keeps_all_of_its_contract(
    pipeline: str,
    check: Check,
    toy_pipeline: Callable[[str], Path],
    mask: Path,
    loaded: dict[str, object],
) -> None:
    test_every_family_keeps_its_contract(pipeline, check, toy_pipeline, mask, loaded)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_row_calls_its_pipeline_by_names_it_has(name: str) -> None:
    import diffusers

    family: Family = FAMILIES[name]
    if name not in INSTALLED:
        pytest.skip("its own package is not installed")
    own = family.own_code
    pipeline = getattr(diffusers, name) if own is None else own_class(own.pipeline)
    parameters = inspect.signature(pipeline.__call__).parameters
    used = {"prompt", "num_inference_steps", "generator", "output_type", *family.extra_arguments}
    used |= {family.guidance_parameter} if family.guidance_parameter else set()
    used |= {family.image_guidance_parameter} if family.image_guidance is not None else set()
    used |= {family.source_parameter} if family.max_sources else set()
    used |= {"width", "height"} if family.takes_size else set()
    used |= {"mask_image"} if family.takes_mask else set()
    used |= {"negative_prompt"} if family.negative_prompt is not None else set()
    used |= {family.prompt_tokens_parameter} if family.prompt_tokens_parameter else set()
    assert used <= set(parameters)
    assert ("width" in parameters) == family.takes_size
    assert ("mask_image" in parameters) == family.takes_mask
    assert ("max_sequence_length" in parameters) == (family.prompt_tokens_parameter is not None)


def test_every_row_names_models_and_says_what_they_are() -> None:
    for family in FAMILIES.values():
        assert family.models and all("/" in model for model in family.models)
        assert family.summary
        CallSettings(width=family.side, height=family.side, num_inference_steps=family.steps)
