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
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

from interleave import step_counts
from interleave.agents import prompts
from interleave_mini import WEIGHTS, plan_audit, plan_check, plan_mending, requests
from interleave_mini.language import (
    descriptions,
    effects,
    own_sentences,
    references,
    sentences,
    vocabulary,
    words,
)
from interleave_mini.language import prompts as prompts_of_world
from interleave_mini.language.words import UNCOUNTABLE, plural
from interleave_mini.reader.scores import ACCEPTED
from interleave_mini.requests import EXAMPLES
from interleave_mini.world.scene import Relation
from interleave_mini.world.wider import ADJECTIVES, ALL_COLOURS, ALL_KINDS, ALL_NOUNS, DAY_OF, NIGHT, NIGHT_OF

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
SENTENCES = (
    *("_ABBREVIATION", "_END", "_MARK", "_INLINE_MARK", "_TO_THE_PAINTER", "_COMMAND", "_ABOUT_STORY"),
    *(
        "_BRIEFLY",
        "_TELLS",
        "_TWO_EVENTS",
        "_NO_EVENT",
        "_LOWER_CASE_START",
        "_LOWER_CASE_END",
        "_NO_LOWER_CASE_STORY",
    ),
)
CHECKS = (
    *("_THING", "_COLOUR", "COUNTED", "_COLOURED", "_COLOURED_AFTER", "_MORE_THAN_NINE", "NEGATED"),
    *("TAKEN_BACK", "_NO_THING", "_SAID_OTHERWISE", "_PUT_DOWN", "_RELATION", "_PLACE", "_NOT_HERE"),
    *("_ROBOT", "_ANIMAL", "_PLACE_NOUN"),
)
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
    tables = json.dumps(reading_tables(), ensure_ascii=False, separators=(",", ":")).encode()
    digest = hashlib.sha256(tables)
    for path in (each for group in files.values() for each in group):
        digest.update(f"{path.relative_to(WEIGHTS)}\0".encode() + path.read_bytes())
    folder = f"models/{digest.hexdigest()[:12]}"
    for path in (each for group in files.values() for each in group):
        target = dist / folder / path.relative_to(WEIGHTS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    (dist / folder / "words.json").write_bytes(tables)
    shutil.copyfile(vocabulary.ENGLISH.with_name("english.LICENSE"), dist / folder / "words.LICENSE")
    facts = model_facts() | {
        "folder": folder,
        "bytes": bytes_of(dist),
        "files": {
            # The critic reads the plan, so both are needed before anything is drawn.
            "agents": [{"name": "words.json", "bytes": len(tables)}, *described(files["agents"])],
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
        "agents": [
            *(WEIGHTS / agent / name for agent in ("planner", "critic") for name in AGENT_FILES),
            WEIGHTS / "critic" / "vision.onnx",  # the planner reads text alone
        ],
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
        "kinds": len(ALL_KINDS),
    }


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


Expression = tuple[str, str]
"""A regular expression in the syntax of JavaScript, and its flags."""


def expression(pattern: re.Pattern[str]) -> Expression:
    flags = {re.IGNORECASE: "i", re.DOTALL: "s", re.MULTILINE: "m"}
    return in_javascript(pattern), "".join(letter for flag, letter in flags.items() if pattern.flags & flag)


def expressions(module: ModuleType, *names: str) -> dict[str, Expression]:
    """Return the expressions of a module: `_MORE_THAN_NINE` is moreThanNine."""
    return {in_camel_case(name): expression(getattr(module, name)) for name in names}


def in_camel_case(name: str) -> str:
    first, *others = name.strip("_").lower().split("_")
    return first + "".join(map(str.capitalize, others))


def reading_tables() -> dict[str, Any]:
    """Return the words and expressions by which requests are read and plans are checked."""
    return {
        "vocabulary": vocabulary_tables(),
        "sentences": expressions(own_sentences, *SENTENCES),
        "requests": request_tables(),
        "world": world_tables(),
        "check": check_tables(),
        "mending": {
            "mostMends": plan_mending._MOST_MENDS,
            "expressions": expressions(plan_mending, "_SENTENCE", "_REFERENCE", "_PLACED"),
        },
    }


def vocabulary_tables() -> dict[str, Any]:
    """Return the content of `interleave_mini.language.vocabulary`."""
    said = vocabulary.language()
    english = {*gzip.decompress(vocabulary.ENGLISH.read_bytes()).decode().split()}
    drawable, trained = vocabulary._meant_words()
    return {
        "everyday": " ".join(sorted(said.english)),
        "english": " ".join(sorted(english - said.english)),
        "dictionary": " ".join(sorted(said.english & english)),
        "trained": " ".join(sorted(said.trained)),
        "things": sorted(said.things),
        "meant": {"drawable": list(drawable), "trained": " ".join(trained)},
        "oneOfThem": {word: vocabulary._one_of_them(word) for word in sorted(said.things)},
        "lackingSingular": said.singulars,
        "neighbours": {word: list(near) for word, near in said.neighbours.items()},
        "misspelt": said.misspelt,
        "harmless": " ".join(sorted(said.harmless)),
        "spokenOf": [list(each) for each in sorted(said.spoken_of)],
        "riddleContexts": sorted(said.riddle_contexts),
        "foreign": {name: " ".join(sorted(each)) for name, each in said.foreign.items()},
        "telling": {topic: " ".join(sorted(each)) for topic, each in said.telling.items()},
        "riddles": {noun: [" ".join(sorted(each)) for each in some] for noun, some in said.riddles.items()},
        "examples": json.loads(vocabulary.FILE.read_bytes())["examples"],
        "expressions": {
            "knownPhrases": expression(said.known_phrases),
            "askedFor": expression(said.asked_for),
            "wantedColour": expression(said.wanted_colour),
            **expressions(
                vocabulary, "_NAMED", "_SPEAKER", "_COMPARED", "_PHRASE_START", "_PHRASE_END", "_TITLE"
            ),
        },
        "pronouns": sorted(vocabulary._PRONOUNS),
        "beforeAdjectives": sorted(vocabulary._BEFORE_ADJECTIVES),
        "determiners": sorted(vocabulary._DETERMINERS),
        "variants": sorted(vocabulary._VARIANTS),
        "shortestTypo": vocabulary._SHORTEST_TYPO,
        "longWord": vocabulary._LONG_WORD,
        "mostTypos": vocabulary._MOST_TYPOS,
        "longestWord": vocabulary._LONGEST_WORD,
        "foreignShare": vocabulary._FOREIGN_SHARE,
    }


def request_tables() -> dict[str, Any]:
    """Return what `interleave_mini.requests` knows of words, besides the vocabulary."""
    near = {word for words in vocabulary.language().neighbours.values() for word in words}
    return {
        "colours": [*ALL_COLOURS],
        "uncountable": sorted(UNCOUNTABLE),
        "plurals": {word: plural(word) for word in sorted(near)},
        "nounOf": plan_check._NOUN_OF,
        "examples": list(EXAMPLES),
        "offers": list(requests.OFFERS),
        "companions": list(requests.COMPANIONS),
        "referring": requests._REFERRING,
        "capitals": expression(requests._CAPITALS),
        "mostSentences": own_sentences.MOST_SENTENCES,
        "longestSentence": own_sentences.LONGEST,
        "mostShown": requests.MAX_SHOWN,
        "widestWord": requests.MAX_WORD_LENGTH,
        "suggested": requests.SHOWN,
    }


def world_tables() -> dict[str, Any]:
    """Return the kinds of the world, and the sentences about its scenes."""
    return {
        "kinds": {
            name: {
                "category": kind.category,
                "colour": kind.colour,
                "usual": kind.usual % len(kind.states),
                "states": list(kind.states),
                "adjectives": list(ADJECTIVES[name]),
            }
            for name, kind in ALL_KINDS.items()
        },
        "carriers": {
            relation.value: [noun for noun in ALL_NOUNS if relation.is_possible_with(noun)]
            for relation in Relation
        },
        "night": NIGHT,
        "nightOf": NIGHT_OF,
        "dayOf": DAY_OF,
        "sizes": words.SIZES,
        "numbers": list(words.NUMBERS),
        "rows": list(words.ROWS),
        "directions": words.DIRECTIONS,
        "relations": words.RELATIONS,
        "singulars": words._SINGULARS,
        "cells": {**references._TO_CELL, **words.CELL_OF},
        "nouns": words.ALL_BACKGROUND_OF_NOUN,
        "phrases": words.ALL_BACKGROUND_OF_PHRASE,
        "bare": descriptions._BARE,
        "gaps": {name: in_javascript(gap) for name, gap in sentences.GAPS.items()},
        "speech": {
            "row": [each.text for each in sentences._ADD_ROW],
            **{name: [each.text for each in speech.patterns] for name, speech in sentences.SPEECH.items()},
        },
        "wholes": [expression(each) for each in descriptions._WHOLE],
        "expressions": {
            **expressions(words, "_PARTS", "_PLURAL_PARTS"),
            **expressions(references, "_THING_PARTS", "_REFERENCE_PARTS", "_RELATIVE_PARTS"),
            **expressions(descriptions, "_ITEM", "_MORE", "_CLOSING", "_COMMA"),
            **expressions(prompts_of_world, "_SENTENCE", "_KEEPING"),
        },
        "done": effects._DONE,
        "closed": effects.CLOSED,
        "positions": [short for short, *_ in words.POSITIONS],
        "toPositions": [words.to_position(short) for short, *_ in words.POSITIONS],
        "placeNouns": {name: place.noun for name, place in words.ALL_PLACES.items()},
        "uncountable": sorted(UNCOUNTABLE),
    }


def check_tables() -> dict[str, Any]:
    """Return the words and expressions of `interleave_mini.plan_check`."""
    said = vocabulary.language()
    return {
        "kindOf": plan_check.KIND_OF,
        "ownNouns": sorted(said.kinds_own_nouns),
        "drawnAs": sorted(said.drawn_as),
        "unmeant": sorted(said.unmeant),
        "colourOf": plan_check._COLOUR_OF,
        "places": {words: sorted(places) for words, places in plan_check._place_words().items()},
        "vaguePlaces": sorted(said.vague_places),
        "emptyPlaces": plan_check._EMPTY_PLACES,
        "related": {
            **{words: [side] for words, side in said.related.items()},
            **{
                words: [plan_check._LEFT, plan_check._RIGHT, plan_check._ABOVE, plan_check._BELOW]
                for words in plan_check._BESIDE
            },
        },
        "effects": {
            word: {"shown": sorted(each.shown), "of": sorted(each.of)} for word, each in said.effects.items()
        },
        "otherwise": sorted(said.otherwise),
        "motion": sorted(effects.MOTION),
        "riddleTopics": sorted(said.riddle_topics),
        "meantBy": {kind: expression(each) for kind, each in plan_check._MEANT_BY.items()},
        "expressions": {
            **expressions(plan_check, *CHECKS),
            "near": expression(vocabulary._NEAR),
            "notShown": expression(effects._NEGATED),
            "after": expression(effects._AFTER),
        },
        "accepted": ACCEPTED,
        "certain": plan_audit.CERTAIN,
        "auditTokens": plan_audit._MOST_TOKENS,
    }


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
