"""A taxonomy of requests as data: domains, sub-categories, vocabulary banks and templates.

A folder contains one TOML file per domain. Banks and templates are texts with one entry per line, easy to
read and correct. A template names banks in braces: `{action}`, or `{Action}` for a capital; `{n}` is a number
of images, in words. Sub-categories share the domain's templates and banks; their own banks take precedence.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from interleave import ConfigurationError
from interleave.plugin import Value, files, first_problem, read_text, text

OUR_WORLD = Path(__file__).parent / "world"
NUMBERS = ("three", "four", "five", "six", "seven", "eight")
NUMBER = "n"
SLOT = re.compile(r"\{([A-Za-z_]+)\}")
_BRACES = re.compile(r"[{}]")

Key = tuple[str, str]
"""A domain and one of its sub-categories."""


def _lines(text: Any) -> Any:
    """Split a text into entries, one per line, without blank lines."""
    return tuple(line.strip() for line in text.split("\n") if line.strip()) if isinstance(text, str) else text


def _usable(entries: tuple[str, ...]) -> tuple[str, ...]:
    for entry in entries:
        if problem := text.unusable(entry):
            raise ValueError(f"{entry!r} cannot be used: {problem}")
    if len(set(entries)) < len(entries):
        [(twice, _)] = Counter(entries).most_common(1)
        raise ValueError(f"{twice!r} is listed twice")
    return entries


def _phrases(entries: tuple[str, ...]) -> tuple[str, ...]:
    for entry in entries:
        if problem := unfit_phrase(entry):
            raise ValueError(f"{entry!r} {problem}")
    return entries


def unfit_phrase(entry: str) -> str | None:
    """Return why an entry cannot be part of a sentence, or None."""
    if _BRACES.search(entry):
        return "has a brace, which only templates may have"
    if entry[-1:] in ".,;:!?":
        return "ends with a punctuation mark, which belongs in the template"
    return None


Entries = Annotated[tuple[str, ...], BeforeValidator(_lines), Field(min_length=1), AfterValidator(_usable)]
Bank = Annotated[Entries, AfterValidator(_phrases)]


class _SubCategory(Value):
    name: str = Field(min_length=1)
    templates: Entries | None = None
    banks: dict[str, Bank] = Field(default_factory=dict)


class _Domain(Value):
    """The content of a TOML file."""

    name: str = Field(min_length=1)
    templates: Entries | None = None
    banks: dict[str, Bank] = Field(default_factory=dict)
    subcategory: tuple[_SubCategory, ...] = Field(min_length=1)


@dataclass(frozen=True)
class SubCategory:
    """One kind of request: its templates and the words that fill them."""

    domain: str
    name: str
    templates: tuple[str, ...]
    banks: Mapping[str, tuple[str, ...]]
    own: tuple[str, ...] = ()
    """Banks of this sub-category only."""

    @property
    def key(self) -> Key:
        return self.domain, self.name

    def with_words(self, words: Mapping[str, tuple[str, ...]]) -> SubCategory:
        """Return a copy with more words in its banks."""
        banks = {
            slot: tuple(dict.fromkeys((*bank, *words.get(slot, ())))) for slot, bank in self.banks.items()
        }
        return replace(self, banks=banks)


@dataclass(frozen=True)
class Taxonomy:
    """All sub-categories."""

    subcategories: tuple[SubCategory, ...]

    @property
    def templates(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for each in self.subcategories for text in each.templates))

    @property
    def domains(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.domain for each in self.subcategories))


def read_taxonomy(folder: Path = OUR_WORLD) -> Taxonomy:
    """Read a taxonomy; raises `ConfigurationError` with the file and position of a problem."""
    files = sorted(folder.glob("*.toml"))
    if not files:
        raise ConfigurationError(
            f"{folder} contains no taxonomy: it needs one TOML file per domain, such as those in {OUR_WORLD}"
        )
    found: dict[Key, Path] = {}
    subcategories: list[SubCategory] = []
    for file in files:
        for each in _read_domain(file):
            if each.key in found:
                raise ConfigurationError(
                    f"{file}: {each.domain} / {each.name} is already defined in {found[each.key].name}"
                )
            found[each.key] = file
            subcategories.append(each)
    return Taxonomy(tuple(subcategories))


def _read_domain(file: Path) -> list[SubCategory]:
    try:
        domain = _Domain.model_validate(files.parse_toml(read_text(file)))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: not TOML ({error})") from None
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read ({files.why(error)})") from None
    except ValidationError as error:
        raise ConfigurationError(f"{file}: {first_problem(error)}") from None
    return [_subcategory(domain, each, file) for each in domain.subcategory]


def _subcategory(domain: _Domain, each: _SubCategory, file: Path) -> SubCategory:
    templates = tuple(dict.fromkeys((*(domain.templates or ()), *(each.templates or ()))))
    banks = domain.banks | each.banks
    where = f"{file}: {each.name!r}"
    if not templates:
        raise ConfigurationError(f"{where} has no templates")
    for template in templates:
        for slot in SLOT.findall(template):
            if (name := bank_of(slot)) != NUMBER and name not in banks:
                raise ConfigurationError(f"{where} has no bank {name!r}, which {template!r} needs")
        if _BRACES.search(SLOT.sub("", template)):
            raise ConfigurationError(f"{where}: {template!r} has a brace that does not name a bank")
    return SubCategory(domain.name, each.name, templates, banks, tuple(each.banks))


def bank_of(slot: str) -> str:
    """Return the bank of a slot: `{Action}` and `{action}` use the same one."""
    return slot[:1].lower() + slot[1:]


def fill(template: str, words: Mapping[str, str]) -> str:
    """Fill the slots of a template and capitalize the first letter."""

    def word(slot: re.Match[str]) -> str:
        chosen = words[bank_of(slot[1])]
        return capital(chosen) if slot[1][:1].isupper() else chosen

    return capital(SLOT.sub(word, template))


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
