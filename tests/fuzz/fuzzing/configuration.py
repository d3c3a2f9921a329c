"""What a user configures with: specs, profiles, prompt packs, recipes, workflows, scripts, checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

from fuzzing import answers, attempt, scratch, spare_text, target
from interleave.agents.prompts import PROMPTS, PromptPack, load_pack, read_pack
from interleave.agents.prompts.import_checkout import CRITICS, PLANNERS, import_pack
from interleave.backends.fakes import ScriptedVlm
from interleave.backends.registry import check_agent, check_generator
from interleave.config.profiles import SHIPPED as PROFILES
from interleave.config.profiles import Profile, load_profile
from interleave.config.run_config import RoleConfig
from interleave.config.specs import Spec, parse_spec, without_tuning
from interleave.errors import ConfigurationError
from interleave.remote.comfyui_workflow import Workflow, read_workflow
from interleave.remote.json_api import SHIPPED as APIS
from interleave.remote.json_api import ApiDescription, read_description, size_values
from interleave.runs.resolve import choose_pack
from interleave.text import unusable
from interleave.types import Text

SPECS = (
    "solid?delay=0.2",
    "scripted:./replies.jsonl",
    "openai:qwen3-vl@http://host:8000/v1?temperature=omit&price_in=1",
    "http://host:8011,http://host:8012?timeout=3",
    "diffusers:black-forest-labs/FLUX.2-klein?steps=4&guidance=1.0",
    "comfyui:/a/flow.json@http://host:8188?prompt=6.text",
    "gemini:gemini-3.5-flash?thinking=low",
)
SPEC_WORDS = (
    *(
        b"@http://",
        b"@https://h:1/v1",
        b"http://",
        b"?",
        b"&",
        b"=",
        b"%",
        b"%20",
        b"+",
        b":",
        b"@",
        b",",
        b"#",
        b"solid",
    ),
    *(
        b"user:pw@",
        b"http://[::1]:8011",
        b"http://[",
        b":99999",
        b":0",
        b"?size=64",
        b"concurrency=2",
        b"key=A",
        b"\xef\xbc\xa0",
    ),
)


@target([spec.encode() for spec in SPECS], words=SPEC_WORDS, examples=40)
def spec(data: bytes) -> bool:
    """A spec is refused, or says the same when it is written and read again."""
    text = spare_text(data[:3000])
    found = attempt(lambda: parse_spec(text), errors=ConfigurationError)
    if not isinstance(found, Spec):
        return False
    assert parse_spec(str(found)) == found, f"{found!r} is written {str(found)!r}"
    str(found).encode()
    assert parse_spec(str(without_tuning(found))) == without_tuning(found)
    assert RoleConfig(spec=text).identity == RoleConfig(spec=str(found)).identity
    if found.name in ("solid", "openai-images", "http", "comfyui"):
        attempt(lambda: check_generator(found), errors=ConfigurationError)
    elif found.name in ("scripted", "openai", "gemini", "oracle"):
        attempt(lambda: check_agent(found, "planner"), errors=ConfigurationError)
    return True


PROFILE = b"""description = "mine"
prompts = "default"
max_attempts = 3
sources = "history"
[planner]
spec = "scripted"
[critic]
backend = "openai"
model = "m"
base_url = "http://host:8000/v1"
logprobs = true
timeout = 3.5
[generator]
backend = "solid"
delay = 0.25
size = 64
"""
TOML_WORDS = (
    *(
        b"[",
        b"]",
        b"[[",
        b"]]",
        b"[planner]\n",
        b'spec = "',
        b'"""',
        b"'''",
        b"\n",
        b"= {",
        b"}",
        b"1979-05-27T07:32:00Z",
        b"inf",
        b"nan",
    ),
    *(
        b"a.b.c = 1\n",
        b"a." * 600 + b"b = 1\n",
        b"x = " + b"[" * 400,
        b"0x1F",
        b"true",
        b"\\u0000",
        b"\\uD800",
        b"# c\n",
        b'"?"',
        b"@http://a",
    ),
)


def profile_seeds() -> list[bytes]:
    return [PROFILE, *(path.read_bytes() for path in sorted(PROFILES.glob("*.toml")))]


@target(profile_seeds, words=TOML_WORDS, examples=48)
def profile(data: bytes) -> bool:
    with scratch() as folder:
        path = folder / "mine.toml"
        path.write_bytes(data)
        found = attempt(lambda: load_profile(str(path)), errors=ConfigurationError)
        if not isinstance(found, Profile):
            return False
        for role in ("planner", "critic", "generator"):
            named = attempt(lambda role=role: getattr(found, role).as_spec(role), errors=ConfigurationError)
            if isinstance(named, Spec):
                assert parse_spec(str(named)) == named
        attempt(lambda: choose_pack(found, prompts=None, planner=None, critic=None))
        return True


DESCRIPTION = b"""url = "http://host:9000"
size = "64x64"
[text]
path = "/a"
send = "form"
picture = ["a.0", "b"]
fetch = true
body = { prompt = "in {size}: {prompt}", seed = "{seed}", wide = "{width}" }
[edit]
path = "/b"
pictures = "data_url"
picture = "a"
max_sources = 3
body = { a = { b = ["{prompt}"] }, images = "{sources}" }
[key]
variable = "TOKEN"
[headers]
X-Project = "x"
"""


@target(
    lambda: [DESCRIPTION, *(path.read_bytes() for path in sorted(APIS.glob("*.toml")))],
    words=(*TOML_WORDS, b"{prompt}", b"{source}", b"{sources}", b"{seed}", b"{nothing}", b'path = "//h"'),
    examples=48,
)
def api_description(data: bytes) -> bool:
    """A description is refused, or a request can be made of it that is JSON and has the prompt as it is."""
    with scratch() as folder:
        path = folder / "api.toml"
        path.write_bytes(data)
        found = attempt(lambda: read_description(str(path)), errors=ConfigurationError)
    if not isinstance(found, ApiDescription):
        return False
    prompt = "{seed}{nothing}"
    values = {"prompt": prompt, "seed": 1, "source": "a", "sources": ["a"], **size_values("64x64")}
    for call in found.calls:
        assert prompt in json.dumps(call.filled(values), ensure_ascii=False, allow_nan=False)
        assert call.path.startswith("/") and not call.path.startswith("//")
    return True


def pack_seeds() -> list[bytes]:
    """Packs as JSON: the name of a file and what is in it."""
    own = {
        "pack.toml": 'name = "mine"\nversion = "1"\n',
        **{f"{n}.md": t for n, t in load_pack().texts.items()},
    }
    short = {
        "pack.toml": 'name = "mine"\nversion = "2"\nextends = "default"\ndescription = "x"\n',
        "critic.md": "=== system ===\nJudge.\n=== user ===\n{{before}}{{after}}{{planned_prompt}}|{{prompt}}",
    }
    return [json.dumps(short).encode(), json.dumps(own).encode()]


@target(
    pack_seeds,
    words=(
        b"{{request}}",
        b"{{",
        b"}}",
        b"=== system ===\\n",
        b"=== user ===",
        b"{{problem}}",
        b"extends",
        b"name = ",
    ),
    examples=24,
)
def prompt_pack(data: bytes) -> bool:
    """A pack is refused, or every prompt of it can be filled, and what is put in is never read as a slot."""
    try:
        files = json.loads(data)
    except (ValueError, RecursionError):
        return False
    known = {"pack.toml", *(f"{name}.md" for name in PROMPTS)}
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        return False
    with scratch() as folder:
        for name in known & files.keys():
            (folder / name).write_bytes(files[name].encode("utf-8", "surrogatepass"))
        pack = attempt(lambda: read_pack(folder, base=load_pack()), errors=ConfigurationError)
        if not isinstance(pack, PromptPack):
            return False
        assert len(pack.digest) == 16
        for name, slots in PROMPTS.items():
            filling = "{{request}}\x01{{problem}}"
            messages = pack.messages(name, {slot: (Text(filling),) for slot in slots})
            told = "".join(
                part.text for message in messages for part in message.parts if isinstance(part, Text)
            )
            assert told.count(filling) >= len(slots)
        return True


CONSTANTS = (*PLANNERS, *CRITICS.values())


def source_seeds() -> list[bytes]:
    texts = {c.name: "Words " + " ".join(theirs for theirs, _ in c.slots) for c in CONSTANTS}
    return [
        "\n".join(f'{name} = """{text}"""' for name, text in texts.items()).encode(),
        "\n".join(f"import os\n{name} = {text!r}\n" for name, text in texts.items()).encode(),
    ]


@target(
    source_seeds,
    words=(b'"""', b"{text_input}", b"f'''", b"(" * 300, b"\\\n", b"# coding: utf-7\n", b"=\\N{DOT}"),
    examples=16,
)
def checkout(data: bytes) -> bool:
    """Python files of a checkout are parsed and never run; a pack appears whole or not at all."""
    with scratch() as folder:
        for place in sorted({file for constant in CONSTANTS for file in constant.files}):
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_bytes(data)
        packs = Path("config") / "prompts"
        made = attempt(lambda: import_pack(folder, "official", replace=True))
        left = [path.name for path in packs.iterdir()] if packs.exists() else []
        assert set(left) <= {"official"}, left
        if not isinstance(made, tuple):
            return False
        assert not any(unusable(text) for text in made[0].texts.values())
        assert load_pack("official").digest == made[0].digest
        return True


def recipe_seeds() -> list[bytes]:
    from interleave.train.recipes import SHIPPED

    return [path.read_bytes() for path in sorted(SHIPPED.glob("*.toml"))]


@target(
    recipe_seeds,
    words=(*TOML_WORDS, b"[training]\n", b"[grpo]\n", b"updates = 0", b"samples = 2"),
    examples=24,
)
def recipe(data: bytes) -> bool:
    from interleave.train.recipes import Recipe, load_recipe, parse_changes

    with scratch() as folder:
        path = folder / "mine.toml"
        path.write_bytes(data)
        read = [attempt(lambda task=task: load_recipe(str(path), task=task)) for task in ("sft", "grpo")]
        changes = attempt(lambda: parse_changes(spare_text(data[:200]).splitlines()[:3]))
        if isinstance(changes, dict):
            attempt(lambda: load_recipe(None, task="sft", changes=changes))
        found = [each for each in read if isinstance(each, Recipe)]
        for each in found:
            assert Recipe.model_validate_json(each.model_dump_json()) == each
        return bool(found)


DEEP_CHAIN = {
    str(n): {"class_type": "Pass", "inputs": {"conditioning": [str(n + 1), 0]}} for n in range(100, 140)
}


def workflow_seeds() -> list[bytes]:
    marked = {"1": {"class_type": "X", "inputs": {"text": "so: {{prompt}}", "noise_seed": 3}}}
    edit = {**answers.WORKFLOW, "10": {"class_type": "LoadImage", "inputs": {"image": "a.png"}}}
    chain = {
        "3": {"class_type": "KSampler", "inputs": {"seed": 1, "positive": ["100", 0]}},
        **DEEP_CHAIN,
        "140": {"class_type": "CLIPTextEncode", "inputs": {"text": "a"}},
    }
    return [json.dumps(flow).encode() for flow in (answers.WORKFLOW, marked, edit, chain)]


def long_chain(data: bytes, where: int, how: int, what: int) -> bytes:
    """A prompt that stands at the end of thousands of links."""
    nodes = {
        str(n): {"class_type": "P", "inputs": {"c": [str(n + 1), 0]}} for n in range(1, 500 + what % 700)
    }
    nodes["0"] = {"class_type": "KSampler", "inputs": {"positive": ["1", 0]}}
    nodes[str(len(nodes))] = {"class_type": "T", "inputs": {"text": "a"}}
    return json.dumps(nodes, separators=(",", ":")).encode()


@target(
    workflow_seeds,
    words=(b'["3", 0]', b'"positive"', b'"LoadImage"', b"{{prompt}}", '"²"'.encode(), b'"seed"'),
    mutators={"a long chain": long_chain},
)
def workflow(data: bytes) -> bool:
    """A workflow of ComfyUI: refused, or filled without losing anything but what is put in its places."""
    with scratch() as folder:
        path = folder / "flow.json"
        path.write_bytes(data)
        places = {"prompt": None, "seed": None}
        flow = attempt(lambda: read_workflow(str(path), places, None), errors=ConfigurationError)
        attempt(lambda: read_workflow(str(path), {"prompt": "6.text", "seed": "3.seed"}, ("10",)))
        if not isinstance(flow, Workflow):
            return False
        filled = flow.filled("a {{prompt}} frog", 7, ["source.png"] if flow.loaders else [])
        assert flow.prompts and filled.keys() == flow.graph.keys()
        assert all("a {{prompt}} frog" in filled[node]["inputs"][name] for node, name in flow.prompts)
        return True


@target(
    [b'{"text": "a"}\n{"text": "b", "finish_reason": "length", "tokens": [["b", 0.5]]}\n'],
    words=(b'"text"', b'"tokens"', b'["a", 2]'),
)
def script(data: bytes) -> bool:
    with scratch() as folder:
        path = folder / "script.jsonl"
        path.write_bytes(data)
        options = ScriptedVlm.Options()
        vlm = attempt(
            lambda: ScriptedVlm(spec=Spec("scripted", str(path)), options=options, role="planner"),
            errors=ConfigurationError,
        )
        if not isinstance(vlm, ScriptedVlm):
            return False
        assert vlm.lines
        return True


def weights_seeds() -> list[bytes]:
    header = json.dumps(
        {"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}, "__metadata__": {"format": "pt"}}
    )
    return [len(header).to_bytes(8, "little") + header.encode() + bytes(16)]


@target(weights_seeds, words=(b'"data_offsets"', b"[0, 16]", b"\x00" * 8, b"\xff" * 8))
def weights(data: bytes) -> bool:
    """The head of a file of weights, which says how long the rest is."""
    from interleave.local.checkpoints import Source, read_header

    with scratch() as folder:
        path = folder / "model.safetensors"
        path.write_bytes(data)
        found = attempt(lambda: read_header(path, Source("x", "copy it again")))
        return isinstance(found, dict)
