"""What a run folder may have only with its user's word.

A run is continued with the models that its folder names, and a folder may come from anybody. A spec that a
person types is that person's word; one that is read from a folder is not. Without a word such a spec may name
any model and any address, but

    NAME@https://host    no key goes to an address, but for the usual key of a well-known service
    FILE@https://host    no file of this machine goes to another one (a workflow for ComfyUI)
    addresses@FILE       no file of this machine is read as a list of servers
    code@MODEL           no code that comes with a model is run
    price=0@https://host no price is taken from it for a service that is paid with the usual key
    SPEC                 no backend of an installed package is given an address, for we do not know its keys

The word is one of these on the left, letter for letter, with `--allow` or in INTERLEAVE_ALLOW.
"""

from __future__ import annotations

import ipaddress
import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from interleave.backends.registry import GENERATORS, VLMS
from interleave.backends.remote.keys import GEMINI_URL, OPENAI_URL, origin_of, usual_variable
from interleave.config.run_config import OBJECT, RunConfig
from interleave.config.specs import Spec, parse_spec
from interleave.errors import ConfigurationError, InputError, RunError
from interleave.redaction import secret_in
from interleave.types import Request

VARIABLE = "INTERLEAVE_ALLOW"
HOMES = {"openai": OPENAI_URL, "openai-images": OPENAI_URL, "gemini": GEMINI_URL}
"""Where a backend goes whose spec names no address."""
PRICES = ("price", "price_in", "price_out")
_NO = {"false", "0", "no", "off", "n", "f"}


@dataclass(frozen=True)
class Need:
    """Something that needs the user's word."""

    word: str
    """What the user says to allow it."""
    meaning: str


def needs_of(config: RunConfig) -> tuple[Need, ...]:
    """All that the specs of a configuration need a word for, each thing once."""
    roles = (*(() if config.plan else (config.planner,)), config.critic, config.generator)
    specs = [parse_spec(role.spec) for role in roles if not role.spec.startswith(OBJECT)]
    return tuple(dict.fromkeys(need for spec in specs for need in _needs(spec)))


def refuse_unallowed(folder: Path, config: RunConfig, allowed: Iterable[str]) -> None:
    """Refuse what a folder asks for beyond what its user has allowed, with the command that allows it."""
    given = {*allowed, *_allowed_everywhere()}
    missing = [need for need in needs_of(config) if need.word not in given]
    if missing:
        asked = ", ".join(need.meaning for need in missing)
        raise RunError(
            f"{folder} asks to {asked}, which no folder may without your word. "
            f"If you trust it: {how_to_go_on(folder, config)}"
        )


def refuse_keys_in(request: Request, config: RunConfig) -> None:
    """Refuse a request or plan that contains a key in use: it would go to models, and into the folder."""
    if variable := secret_in(request.text) or secret_in(config.model_dump_json()):
        raise InputError(f"the request or its plan contains the key in {variable}: take it out")


def how_to_go_on(folder: Path, config: RunConfig) -> str:
    """The command that continues a run, with the word of whoever typed its specs."""
    words = [piece for need in needs_of(config) for piece in ("--allow", need.word)]
    return shlex.join(["interleave", "resume", str(folder), *words])


def _allowed_everywhere() -> list[str]:
    try:
        return shlex.split(os.environ.get(VARIABLE, ""))
    except ValueError as error:
        raise ConfigurationError(
            f"{VARIABLE} cannot be read ({error}): quote its words as in a shell"
        ) from None


def _needs(spec: Spec) -> Iterator[Need]:
    if spec.name in GENERATORS | VLMS:
        urls = [url for url in (spec.base_url or HOMES.get(spec.name, "")).split(",") if url]
        yield from _keys(spec, urls)
        yield from _files(spec, urls)
        yield from _prices(spec, urls)
    elif "://" in str(spec):
        yield Need(str(spec), f"use the backend {spec.name!r} of another package as {str(spec)!r}")
    if spec.options.get("trust_remote_code", "false").lower() not in _NO:
        model = "@".join(filter(None, [spec.model, spec.options.get("revision")]))
        yield Need(f"code@{model}", f"run code that comes with the model {model!r}")


def _keys(spec: Spec, urls: list[str]) -> Iterator[Need]:
    key = spec.options.get("key")
    if key is None:
        return
    for url in urls:
        if usual_variable(url) != key:
            yield Need(f"{key}@{origin_of(url)}", f"send {key} to {origin_of(url)}")
    if not urls:
        yield Need(f"{key}@{spec.model}", f"send {key} to the servers in {spec.model!r}")


def _files(spec: Spec, urls: list[str]) -> Iterator[Need]:
    if spec.name == "http" and not urls and "key" not in spec.options:
        yield Need(f"addresses@{spec.model}", f"take the lines of {spec.model!r} for servers")
    if spec.name == "comfyui":
        for url in urls:
            for file in filter(None, [spec.model, spec.options.get("text")]):
                if not _is_this_machine(url):
                    yield Need(f"{file}@{origin_of(url)}", f"send the file {file!r} to {origin_of(url)}")


def _prices(spec: Spec, urls: list[str]) -> Iterator[Need]:
    """A price of 0 in a folder would undo the limit that its user sets with --max-cost."""
    told = "&".join(f"{name}={spec.options[name]}" for name in PRICES if name in spec.options)
    for url in urls if told else ():
        if usual_variable(url) is not None:
            yield Need(f"{told}@{origin_of(url)}", f"count {told} as the price of {origin_of(url)}")


def _is_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
