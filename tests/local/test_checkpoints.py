"""Model folders that are broken or hostile: refused, with the file named, before anything in them is run."""

from __future__ import annotations

import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from interleave.backends.registry import load_generator, load_vlm
from interleave.errors import ConfigurationError

CANARY = Path("pwned")
Copy = Callable[[Path], Path]
ToyVlm = Callable[[str | None], Path]


class Malice:
    """Unpickled, it leaves a mark."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {CANARY.absolute()}",)


def write_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(Malice()))


def refused(load: Callable[[], object]) -> str:
    """The words of the refusal; nothing was run on the way to it."""
    with pytest.raises(ConfigurationError) as refusal:
        load()
    assert not CANARY.exists()
    assert len(str(refusal.value)) < 700
    return str(refusal.value)


def refused_vlm(folder: Path, options: str = "") -> str:
    return refused(lambda: load_vlm(f"transformers:{folder}{options}", "critic"))


def refused_generator(folder: Path, options: str = "") -> str:
    return refused(lambda: load_generator(f"diffusers:{folder}{options}"))


def edit_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), "utf-8")


def test_K10_weights_in_a_pickle_are_refused_unopened(toy_vlm: ToyVlm, copy_of: Copy) -> None:
    folder = copy_of(toy_vlm(None))
    (folder / "model.safetensors").unlink()
    write_pickle(folder / "pytorch_model.bin")
    assert str(folder / "pytorch_model.bin") in refused_vlm(folder)


def test_K10_a_part_of_a_pipeline_in_a_pickle_is_refused_unopened(klein: Path, copy_of: Copy) -> None:
    folder = copy_of(klein)
    (folder / "transformer" / "diffusion_pytorch_model.safetensors").unlink()
    write_pickle(folder / "transformer" / "diffusion_pytorch_model.bin")
    assert "transformer/diffusion_pytorch_model.bin is not a safetensors file" in refused_generator(folder)


def test_K10_an_adapter_in_a_pickle_is_refused_unopened(
    toy_vlm: ToyVlm, adapters: tuple[Path, Path], copy_of: Copy
) -> None:
    folder = copy_of(adapters[0])
    (folder / "adapter_model.safetensors").unlink()
    write_pickle(folder / "adapter_model.bin")
    assert "adapter_model.bin is not a safetensors file" in refused_vlm(toy_vlm(None), f"?adapter={folder}")


def test_K10_a_lora_in_a_pickle_is_refused_unopened(klein: Path, tmp_path: Path) -> None:
    write_pickle(tmp_path / "lora.pt")
    assert "lora.pt is not a safetensors file" in refused_generator(klein, f"?lora={tmp_path}/lora.pt")
    assert "lora.pt is not a safetensors file" in refused_generator(klein, f"?lora={tmp_path}")


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "processor_config.json"])
def test_K10_code_that_comes_with_a_model_is_refused(toy_vlm: ToyVlm, copy_of: Copy, file: str) -> None:
    folder = copy_of(toy_vlm(None))
    (folder / "modeling_evil.py").write_text(f"open({str(CANARY.absolute())!r}, 'w')\nclass Evil: pass\n")
    edit_json(folder / file, auto_map={"AutoModelForImageTextToText": "modeling_evil.Evil"})
    message = refused_vlm(folder)
    assert str(folder / file) in message
    assert "?trust_remote_code=true" in message


@pytest.mark.parametrize(
    "changes",
    [
        {"custom_pipeline": "evil"},
        {"_class_name": ["pipeline", "Evil"]},
        {"transformer": ["evil_transformer", "Evil"]},
    ],
    ids=["custom_pipeline", "a class in a file", "a part in a file"],
)
def test_K10_a_pipeline_with_code_of_its_own_is_refused(
    klein: Path, copy_of: Copy, changes: dict[str, object]
) -> None:
    folder = copy_of(klein)
    for name in ("pipeline.py", "transformer/evil_transformer.py"):
        (folder / name).write_text(f"open({str(CANARY.absolute())!r}, 'w')\nclass Evil: pass\n")
    edit_json(folder / "model_index.json", **changes)
    assert f"{folder / 'model_index.json'} requires" in refused_generator(folder)


def test_K10_an_index_that_points_out_of_its_folder_is_refused(toy_vlm: ToyVlm, copy_of: Copy) -> None:
    folder = copy_of(toy_vlm(None))
    index = {"weight_map": {"lm_head.weight": "../../elsewhere.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "names files outside its folder" in refused_vlm(folder)


@pytest.mark.parametrize("kept", [0, 5, 8, 100, -1])
def test_K08_a_file_that_is_cut_off_is_named(toy_vlm: ToyVlm, copy_of: Copy, kept: int) -> None:
    folder = copy_of(toy_vlm(None))
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    assert f"{weights} is" in refused_vlm(folder)


def test_K08_a_part_of_a_pipeline_that_is_cut_off_is_named(klein: Path, copy_of: Copy) -> None:
    folder = copy_of(klein)
    weights = folder / "vae" / "diffusion_pytorch_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    message = refused_generator(folder)
    assert f"{weights} is truncated" in message
    assert "copy it again" in message.lower()


@pytest.mark.parametrize(
    "header",
    [b"not json!", b"[]", b'{"a": {"data_offsets": "x"}}', b'{"a": {}}', b'{"a": 1}', b"[" * 50_000],
    ids=["no JSON", "a list", "odd offsets", "no offsets", "no tensor", "deep"],
)
def test_K08_a_file_with_a_broken_header_is_named(toy_vlm: ToyVlm, copy_of: Copy, header: bytes) -> None:
    folder = copy_of(toy_vlm(None))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    assert f"{folder / 'model.safetensors'} is not a safetensors file" in refused_vlm(folder)


def test_K08_a_shard_that_is_missing_is_named(toy_vlm: ToyVlm, copy_of: Copy) -> None:
    folder = copy_of(toy_vlm(None))
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert f"{folder / 'model-00002-of-00002.safetensors'} is missing" in refused_vlm(folder)


def test_K08_a_part_that_is_missing_is_named(klein: Path, copy_of: Copy) -> None:
    folder = copy_of(klein)
    (folder / "vae").rename(folder / "vea")
    assert f"the folder {folder / 'vae'} does not exist" in refused_generator(folder)


def test_K08_weights_of_other_shapes_are_refused_with_their_file(toy_vlm: ToyVlm, copy_of: Copy) -> None:
    folder = copy_of(toy_vlm(None))
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["intermediate_size"] = 96
    (folder / "config.json").write_text(json.dumps(config))
    message = refused_vlm(folder)
    assert f"{folder / 'model.safetensors'} does not fit its config.json" in message
    assert "64×128, but the model needs 64×96" in message


def test_K08_weights_of_a_pipeline_of_other_shapes_are_refused_with_their_file(
    klein: Path, copy_of: Copy
) -> None:
    folder = copy_of(klein)
    edit_json(folder / "transformer" / "config.json", joint_attention_dim=32)
    message = refused_generator(folder)
    assert str(folder / "transformer") in message
    assert "context_embedder.weight" in message


@pytest.mark.parametrize("part", ["transformer", "text_encoder"])
def test_K08_weights_of_another_model_are_refused(klein: Path, copy_of: Copy, part: str) -> None:
    from safetensors.torch import load_file, save_file

    folder = copy_of(klein)
    weights = next((folder / part).glob("*.safetensors"))
    tensors = load_file(weights)
    gone = sorted(tensors)[-1]
    save_file({name: tensor for name, tensor in tensors.items() if name != gone}, weights, {"format": "pt"})
    assert f"{folder / part} are incomplete: {gone!r} is missing" in refused_generator(folder)


def test_K08_an_adapter_of_another_model_is_refused(
    toy_vlm: ToyVlm, adapters: tuple[Path, Path], copy_of: Copy
) -> None:
    folder = copy_of(adapters[0])
    edit_json(folder / "adapter_config.json", r=3)
    assert str(folder) in refused_vlm(toy_vlm(None), f"?adapter={folder}")


def test_K08_a_lora_of_another_model_is_refused(
    klein: Path, toy_pipeline: Callable[[str], Path], tmp_path: Path
) -> None:
    from safetensors.torch import save_file

    from interleave.local.tiny.pipelines import build_tiny_lora

    foreign = build_tiny_lora(tmp_path / "foreign", toy_pipeline("QwenImagePipeline"))
    assert str(foreign) in refused_generator(klein, f"?lora={foreign}")
    nothing = tmp_path / "nothing.safetensors"
    import torch

    save_file({"x": torch.zeros(1)}, nothing)
    assert str(nothing) in refused_generator(klein, f"?lora={nothing}")


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path, klein: Path, toy_vlm: ToyVlm) -> None:
    assert "does not exist: check the path" in refused_vlm(tmp_path / "nowhere")
    assert "it has no config.json" in refused_vlm(tmp_path)
    assert "it has no config.json" in refused_vlm(klein)
    assert "it has no model_index.json" in refused_generator(toy_vlm(None))


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b"\xff\xfe"])
def test_a_broken_index_is_refused(klein: Path, copy_of: Copy, broken: bytes) -> None:
    folder = copy_of(klein)
    (folder / "model_index.json").write_bytes(broken)
    assert str(folder / "model_index.json") in refused_generator(folder)


@pytest.mark.parametrize("name", ["klein", "a/b/c", "ORG/", "/"])
def test_what_is_no_name_on_the_hub_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"write ORG/NAME as on the Hub|does not exist|has no"):
        load_generator(f"diffusers:{name}")


def test_a_model_that_is_not_on_disk_says_how_to_fetch_it() -> None:
    message = refused(lambda: load_vlm("transformers:Some/Model?revision=v1", "critic"))
    assert "hf download Some/Model --revision v1" in message
    assert "HF_TOKEN" in message
    message = refused(lambda: load_generator("diffusers:Some/Model"))
    assert "hf download Some/Model" in message
