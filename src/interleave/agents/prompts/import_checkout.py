"""Prompts of the released checkpoints, read from a user's checkout of the reference repository.

Those checkpoints work best with the exact prompts they were trained with, which have no licence and are not
shipped here. The checkout's Python files are parsed, never executed: only constants that are plain strings
are read. Their slots and image markers are replaced by those of a pack; nothing else changes, not even a
line break.
"""

from __future__ import annotations

import ast
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from interleave.agents.prompts import (
    DEFAULT_PACK,
    PromptPack,
    checked_pack_name,
    load_pack,
    read_pack,
    user_packs_folder,
)
from interleave.errors import ConfigurationError, InputError, did_you_mean
from interleave.text import unusable

MAX_SOURCE_BYTES = 4_000_000
RELEASED_MODELS = (
    "InterleaveThinker/InterleaveThinker-Planner-8B",
    "InterleaveThinker/InterleaveThinker-Critic-8B",
    "InterleaveThinker/Critic-SFT-8B",
)
"""Checkpoints that were trained with these prompts."""
HOW_TO_IMPORT = (
    "the released checkpoints answer best to the prompts they were trained with: import them once, with "
    "'interleave models prompts import CHECKOUT' on your checkout of github.com/zhengdian1/InterleaveThinker"
)


@dataclass(frozen=True)
class Constant:
    """Location of one prompt in the checkout, and the names of its slots there."""

    prompt: str
    name: str | tuple[str, ...]
    """Several are joined with line breaks."""
    files: tuple[str, ...]
    slots: tuple[tuple[str, str], ...] = ()
    prefix: str = ""
    suffix: str = ""
    stripped: bool = False
    """Whether the reference strips the text before use."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,) if isinstance(self.name, str) else self.name


CRITIC_SLOTS = (("{original_instruction}", "{{planned_prompt}}"), ("{rewritten_prompt}", "{{prompt}}"))
CRITICS = {
    form: Constant(
        "critic",
        "Iterative_T2I_PROMPT_QWEN",
        ("UEval/system.py", "data_gen/system_hy.py"),
        CRITIC_SLOTS,
        prefix=prefix,  # the pair of images precedes the text
        stripped=form == "rl",
    )
    for form, prefix in (
        ("demo", "{{before}}{{after}}\n"),
        ("ueval", "{{before}}{{after}}"),
        ("rl", "{{before}}{{after}}\n"),
    )
}
"""The critic's prompt as the reference's demo, its benchmark and its reinforcement learning send it: the same
text with other line breaks around it."""
PLANNERS = (
    Constant(
        "planner_text",
        "NARRATIVE_PROMPT_JSON",
        ("UEval/system.py", "data_gen/system_hy.py"),
        (("{text_input}", "{{request}}"),),
    ),
    Constant(
        "planner_interleaved",
        "GUIDANCE_GLOBAL_PROMPT_JSON",
        ("UEval/system.py",),
        (("{text_input}", "{{request}}"),),
    ),
)
SCORER_FILES = ("train/EasyR1/viescore/vie_prompts.py",)
SCORERS = (
    Constant(
        "scorer_semantics",
        (
            "_context_no_delimit",
            "_prompts_0shot_two_image_edit_rule_ours",
            "_prompts_0shot_tie_rule_SC_ours",
        ),
        SCORER_FILES,
        (("<instruction>", "{{planned_prompt}}"),),
        suffix="{{before}}{{after}}",  # the images follow the text
    ),
    Constant(
        "scorer_quality",
        ("_context_no_delimit", "_prompts_0shot_rule_PQ_ours"),
        SCORER_FILES,
        suffix="{{after}}",
    ),
)
"""The refined VIEScore prompts of the reference's scorer. Checkouts without its training lack them."""


def import_pack(
    checkout: Path, name: str, *, replace: bool = False, critic: str = "demo"
) -> tuple[PromptPack, Path]:
    """Write a pack with the checkout's prompts to the user's configuration folder, atomically."""
    if critic not in CRITICS:
        raise ConfigurationError(f"no critic prompt {critic!r}. {did_you_mean(critic, CRITICS)}")
    packs = user_packs_folder()
    if packs is None:
        raise ConfigurationError("no configuration folder: set HOME or INTERLEAVE_CONFIG")
    if name == DEFAULT_PACK:
        raise ConfigurationError(f"{name!r} is the pack that others extend: choose another --name")
    folder = packs / checked_pack_name(name)
    if folder.exists() and not replace:
        raise ConfigurationError(
            f"a prompt pack {name!r} exists in {folder}: choose another --name, or add --replace"
        )
    scorers = SCORERS if (checkout / SCORER_FILES[0]).is_file() else ()
    constants = (*PLANNERS, CRITICS[critic], *scorers)
    texts = {constant.prompt: _read_constant(checkout, constant) for constant in constants}
    try:
        packs.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=packs, prefix=".import-") as scratch:
            pack = _write_pack(Path(scratch) / name, name, texts)
            if folder.exists():
                folder.rename(Path(scratch) / ".old")
            (Path(scratch) / name).rename(folder)
    except OSError as error:
        raise ConfigurationError(f"the prompt pack cannot be written to {folder} ({error})") from None
    return pack, folder


def _write_pack(folder: Path, name: str, texts: dict[str, str]) -> PromptPack:
    folder.mkdir()
    for prompt, text in texts.items():
        (folder / f"{prompt}.md").write_bytes(text.encode())
    (folder / "pack.toml").write_text(
        f'name = "{name}"\nversion = "1"\nextends = "{DEFAULT_PACK}"\n'
        'description = "imported from a checkout of the reference repository; not for redistribution"\n'
        f'models = {json.dumps(RELEASED_MODELS)}\nanswers = "python"\n',
        "utf-8",
    )
    return read_pack(folder, base=load_pack(DEFAULT_PACK))


def _read_constant(checkout: Path, constant: Constant) -> str:
    if not checkout.is_dir():
        raise InputError(f"{checkout} is not a folder: give the folder of your checkout")
    for relative in constant.files:
        found = [_string_constant(checkout / relative, name) for name in constant.names]
        texts = [text for text in found if text is not None]
        if len(texts) == len(found):
            text = "\n".join(texts)
            text = _with_our_slots(text.strip() if constant.stripped else text, constant, relative)
            return constant.prefix + text + constant.suffix
    raise InputError(
        f"{checkout} has no {' and '.join(constant.names)} in {' or '.join(constant.files)}: "
        "is it a checkout of the InterleaveThinker repository?"
    )


def _string_constant(path: Path, name: str) -> str | None:
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            source = file.read(MAX_SOURCE_BYTES + 1)
        if len(source) > MAX_SOURCE_BYTES:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about their backslashes
            tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = None
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                # Only a plain string can be read without running code; the last assignment counts.
                found = value.value if isinstance(value, ast.Constant) else None
    return found if isinstance(found, str) else None


def _with_our_slots(text: str, constant: Constant, where: str) -> str:
    if problem := unusable(text):
        raise InputError(f"{constant.names[-1]} in {where} cannot be used: {problem}")
    for theirs, ours in constant.slots:
        if theirs not in text:
            raise InputError(
                f"{constant.names[-1]} in {where} has no slot {theirs}: this version cannot be imported"
            )
        text = text.replace(theirs, ours)
    return text
