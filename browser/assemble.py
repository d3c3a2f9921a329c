"""Put the miniature's models and words beside the built page, so that `browser/dist` is the whole site.

    python browser/assemble.py            # after `npm run build`; `make site` does both

Graphs, weights and tables come from the installed package `interleave_mini`, never from this folder.
Templates, prompts and regular expressions of Python are written out as data: TypeScript repeats none.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

from interleave import step_counts
from interleave.agents import prompts
from interleave_mini import WEIGHTS
from interleave_mini.language import vocabulary
from interleave_mini.language.words import plural
from interleave_mini.requests import EXAMPLES
from interleave_mini.world.wider import ALL_NOUNS

ROOT = Path(__file__).resolve().parent
DIST = ROOT / "dist"
AGENT_FILES = ("config.json", "tokenizer.json", "decoder.onnx", "model.safetensors")
GENERATOR_FILES = (
    "interleave.json",
    "scheduler/scheduler_config.json",
    "tokenizer/tokenizer.json",
    "transformer/config.json",
    "transformer/transformer.onnx",
    "transformer/*.safetensors",
    "text_encoder/text_encoder.onnx",
    "text_encoder/model.safetensors",
    "vae/*.onnx",
    "vae/*.safetensors",
)
LETTER = (
    "A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02c1\u0370-\u03ff\u0400-\u1fff\u2c00-\ud7ff"
)
"""Letters in a class of a JavaScript expression without the flag `u`, which would refuse Python's escapes."""
PROMPTS = ("planner_text", "critic", "reask")
SPLIT = "\ufdd0"
"""A character that no template and no text has."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--dist", type=Path, default=DIST, help="folder with the built page")
    dist: Path = arguments.parse_args().dist
    if not (dist / "index.html").exists():
        raise SystemExit(f"{dist} holds no built page: run `npm run build` in browser/ first, or `make site`")
    total = assemble(dist)
    print(f"{dist}/index.html: {total / 1e6:.1f} MB, {len(list(dist.rglob('*')))} files")


def assemble(dist: Path) -> int:
    """Write the models, `models.json` and the list of the service worker; return the bytes of all files."""
    shutil.rmtree(dist / "models", ignore_errors=True)
    (dist / "models.json").unlink(missing_ok=True)
    files = {group: [*paths] for group, paths in model_files().items()}
    words = json.dumps(reading_tables(), ensure_ascii=False, separators=(",", ":")).encode()
    digest = hashlib.sha256(words)
    for path in (each for group in files.values() for each in group):
        digest.update(f"{path.relative_to(WEIGHTS)}\0".encode() + path.read_bytes())
    folder = f"models/{digest.hexdigest()[:12]}"
    for path in (each for group in files.values() for each in group):
        target = dist / folder / path.relative_to(WEIGHTS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    (dist / folder / "words.json").write_bytes(words)
    shutil.copyfile(vocabulary.ENGLISH.with_name("english.LICENSE"), dist / folder / "words.LICENSE")
    facts = model_facts() | {
        "folder": folder,
        "bytes": bytes_of(dist),
        "files": {
            "planner": [*described(files["planner"]), {"name": "words.json", "bytes": len(words)}],
            "critic": described(files["critic"]),
            "generator": described(files["generator"]),
        },
    }
    (dist / "models.json").write_text(json.dumps(facts, ensure_ascii=False, separators=(",", ":")), "utf-8")
    list_for_service_worker(dist)
    return bytes_of(dist)


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def model_files() -> dict[str, Iterable[Path]]:
    """Return the files of each model that the page loads."""
    return {
        # The planner reads text alone, so it needs no graph for images.
        "planner": [WEIGHTS / "planner" / name for name in AGENT_FILES],
        "critic": [WEIGHTS / "critic" / name for name in (*AGENT_FILES, "vision.onnx")],
        "generator": [
            path for name in GENERATOR_FILES for path in sorted((WEIGHTS / "generator").glob(name))
        ],
    }


def described(paths: Iterable[Path]) -> list[dict[str, Any]]:
    return [
        {"name": path.relative_to(WEIGHTS).as_posix(), "bytes": path.stat().st_size}
        for path in paths
        if path.is_file()
    ]


def model_facts() -> dict[str, Any]:
    """Return what the page needs besides the files of the models, as data."""
    pack = prompts.load_pack("mini")
    return {
        "characters": json.loads((WEIGHTS / "characters.json").read_bytes()),
        "planner": agent_facts("planner"),
        "critic": agent_facts("critic"),
        "generator": generator_facts(),
        "pack": {name: prompt_pieces(pack.texts[name]) for name in PROMPTS},
        "steps": step_count_tables(),
        "examples": list(EXAMPLES),
        "version": project_version(),
    }


def project_version() -> str:
    return str(tomllib.loads((ROOT.parent / "mini" / "pyproject.toml").read_text())["project"]["version"])


def agent_facts(name: str) -> dict[str, Any]:
    """Return the template, the cut of images and the end tokens of a planner or critic."""
    folder = WEIGHTS / name
    image = json.loads((folder / "processor_config.json").read_bytes())["image_processor"]
    generation = json.loads((folder / "generation_config.json").read_bytes())["eos_token_id"]
    ids = {token["content"]: token["id"] for token in tokenizer_of(folder)["added_tokens"]}
    eos = ids[json.loads((folder / "tokenizer_config.json").read_bytes())["eos_token"]]
    ends = {eos, *(generation if isinstance(generation, list) else [generation])}
    return {
        "folder": name,
        "template": chat_template((folder / "chat_template.jinja").read_text("utf-8")),
        "layout": {
            "patch": image["patch_size"],
            "merge": image["merge_size"],
            "least": image["size"]["shortest_edge"],
            "most": image["size"]["longest_edge"],
        },
        "vision": name == "critic",
        "eos": sorted(ends),
    }


def generator_facts() -> dict[str, Any]:
    folder = WEIGHTS / "generator"
    tokenizer = folder / "tokenizer"
    template = template_of((tokenizer / "chat_template.jinja").read_text("utf-8"))
    written = template.render(messages=[{"role": "user", "content": SPLIT}], add_generation_prompt=True)
    pad = json.loads((tokenizer / "tokenizer_config.json").read_bytes())["pad_token"]
    ids = {token["content"]: token["id"] for token in tokenizer_of(tokenizer)["added_tokens"]}
    return {
        "folder": "generator",
        "transformer": [path.name for path in sorted((folder / "transformer").glob("*.safetensors"))],
        "template": written.split(SPLIT),
        "pad": ids[pad],
    }


def tokenizer_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "tokenizer.json").read_bytes())
    return content


def template_of(text: str) -> Any:
    return ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(text)


def chat_template(text: str) -> dict[str, Any]:
    """Return the texts that a template writes around the parts of a message."""
    template = template_of(text)

    def written(role: str, *parts: dict[str, str], prompt: bool = False) -> str:
        messages = [{"role": role, "content": list(parts)}] if role else []
        return str(template.render(messages=messages, add_generation_prompt=prompt))

    said = {"type": "text", "text": SPLIT}
    around = {role: written(role, said).split(SPLIT) for role in ("system", "user", "assistant")}
    return {
        "before": {role: before for role, (before, _) in around.items()},
        "after": {role: after for role, (_, after) in around.items()},
        "image": written("user", said, {"type": "image"}, said).split(SPLIT)[1],
        "reply": written("", prompt=True),
    }


def prompt_pieces(text: str) -> list[dict[str, Any]]:
    """Return the messages of a prompt, each split at its slots."""
    return [{"role": role, "pieces": list(pieces)} for role, pieces in prompts._template(text)]


def in_javascript(pattern: re.Pattern[str] | str) -> str:
    """Return a regular expression of Python in the syntax of JavaScript, without the flag `u`."""
    text = pattern if isinstance(pattern, str) else pattern.pattern
    return text.replace(r"[^\W\d_]", f"[{LETTER}]").replace("(?P<", "(?<").replace(r"\Z", "$")


def step_count_tables() -> dict[str, Any]:
    """Return the expressions of `interleave.step_counts`, by which a request names its number of steps."""
    said = step_counts
    return {
        "named": [in_javascript(each) for each in said._NAMED],
        "notMeant": in_javascript(said._NOT_MEANT),
        "bounded": in_javascript(said._BOUNDED),
        "unsure": in_javascript(said._UNSURE),
        "asMaterial": in_javascript(said._AS_MATERIAL),
        "moreIsAsked": in_javascript(said._MORE_IS_ASKED),
        "instructions": in_javascript(said._INSTRUCTIONS),
        "instructionsAnd": in_javascript(said._INSTRUCTIONS_AND),
        "mentioned": in_javascript(said._MENTIONED),
        "given": in_javascript(said._GIVEN),
        "window": said._WINDOW,
        "years": [said._YEARS.start, said._YEARS.stop],
        "words": said._NUMBER_WORDS,
    }


def reading_tables() -> dict[str, Any]:
    """Return the words and expressions of `interleave_mini.language.vocabulary`."""
    said = vocabulary.language()
    words = gzip.decompress(vocabulary.ENGLISH.read_bytes()).decode().split()
    drawable, trained = vocabulary._meant_words()
    return {
        "everyday": " ".join(sorted(said.english)),
        "english": " ".join(sorted({*words} - said.english)),
        "trained": " ".join(sorted(said.trained)),
        "things": sorted(said.things),
        "kinds": kinds_of_nouns(said.nouns),
        "meant": {"drawable": list(drawable), "trained": " ".join(trained)},
        "singular": {**{plural(word): word for word in said.neighbours}, **vocabulary._singular_things()},
        "lackingSingular": said.singulars,
        "neighbours": {word: list(near) for word, near in said.neighbours.items()},
        "misspelt": said.misspelt,
        "harmless": " ".join(sorted(said.harmless)),
        "spokenOf": [list(each) for each in sorted(said.spoken_of)],
        "riddleContexts": sorted(said.riddle_contexts),
        "foreign": {name: " ".join(sorted(each)) for name, each in said.foreign.items()},
        "knownPhrases": in_javascript(said.known_phrases),
        "askedFor": in_javascript(said.asked_for),
        "wantedColour": in_javascript(said.wanted_colour),
        "named": in_javascript(vocabulary._NAMED),
        "speaker": in_javascript(vocabulary._SPEAKER),
        "pronouns": sorted(vocabulary._PRONOUNS),
        "determiners": sorted(vocabulary._DETERMINERS),
        "variants": sorted(vocabulary._VARIANTS),
        "shortestTypo": vocabulary._SHORTEST_TYPO,
        "longWord": vocabulary._LONG_WORD,
        "mostTypos": vocabulary._MOST_TYPOS,
        "longestWord": vocabulary._LONGEST_WORD,
        "foreignShare": vocabulary._FOREIGN_SHARE,
    }


def kinds_of_nouns(synonyms: dict[str, str]) -> dict[str, str]:
    """Return the kind of thing that each noun of a request means, singular and plural."""
    nouns = {**{noun: noun for noun in ALL_NOUNS}, **synonyms}
    kinds = {word: ALL_NOUNS[noun][0] for word, noun in nouns.items() if noun in ALL_NOUNS}
    return {form: kind for word, kind in kinds.items() for form in (word, plural(word))}


def shell_files(dist: Path) -> Iterator[Path]:
    """Yield the files of the page itself, which the service worker keeps as soon as it is installed."""
    for path in sorted(dist.rglob("*")):
        inner = path.relative_to(dist)
        if path.is_file() and inner.parts[0] != "models" and inner.name != "sw.js":
            yield path


def list_for_service_worker(dist: Path) -> None:
    """Write the names of the page's files, and a digest of their bytes, into the service worker."""
    worker = dist / "sw.js"
    text = worker.read_text("utf-8")
    shell = [*shell_files(dist)]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in shell)).hexdigest()[:12]
    names = json.dumps([path.relative_to(dist).as_posix() for path in shell])
    for placeholder, value in (("__VERSION__", json.dumps(digest)), ("__SHELL__", names)):
        text, count = re.subn(rf"\b{placeholder}\b", lambda _, value=value: value, text)
        if count != 1:
            raise SystemExit(f"{worker} has {placeholder} {count} times: run `npm run build` again")
    worker.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
