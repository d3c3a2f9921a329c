"""The content credentials of a file as values: who signed it, what they state, and what was changed since."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from interleave import InputError
from interleave.plugin import files
from interleave.provenance.claims import RUN_LABEL, SOURCE_TYPE
from interleave.provenance.keys import require_c2pa
from interleave.provenance.signing import ANY_FILE, SIDECAR, context

MOST_BYTES = 2_000_000_000
DEEPEST = 50
"""Longest chain of ingredients to follow; a file may state any number."""
State = Literal["none", "altered", "intact"]
Signer = Literal["trusted", "unknown"]
_MAGIC = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"%PDF": "application/pdf",
}
_ZIP, _EPUB = b"PK\x03\x04", b"mimetypeapplication/epub+zip"
_WITHOUT_CREDENTIALS = ("ManifestNotFound", "NotSupported")
UNTRUSTED = "signingCredential.untrusted"


@dataclass(frozen=True)
class Claim:
    """The statements of one signer about one file."""

    title: str
    signer: str
    trust: Signer
    software: str
    actions: tuple[str, ...] = ()
    """Names of the actions, such as `c2pa.created`."""
    source_types: tuple[str, ...] = ()
    """What kind of source the file has, such as `trainedAlgorithmicMedia`."""
    models: tuple[str, ...] = ()
    run: Mapping[str, Any] = field(default_factory=dict)
    ingredients: tuple[UsedFile, ...] = ()


@dataclass(frozen=True)
class UsedFile:
    """A file that another was made from."""

    title: str
    relationship: str
    claim: Claim | None
    """`None` if it had no credentials."""
    problems: tuple[str, ...] = ()
    """What was wrong with its credentials when it was used."""


@dataclass(frozen=True)
class Credentials:
    """The credentials of a file."""

    state: State
    claim: Claim | None = None
    problems: tuple[str, ...] = ()
    """Codes of C2PA for what does not match."""
    beside: Path | None = None
    """The file that holds them, if not the file itself."""


def read_credentials(path: Path, anchors: str = "") -> Credentials:
    """Return the credentials in a file or beside it. `anchors`: certificates to trust, as PEM."""
    require_c2pa()
    path = _subject(path)
    data = _read(path)
    beside = path.with_name(path.name + SIDECAR)
    manifest = _read(beside) if beside.is_file() else None
    found = credentials_of(data, manifest, anchors)
    return Credentials(found.state, found.claim, found.problems, beside if manifest is not None else None)


def credentials_of(data: bytes, manifest: bytes | None = None, anchors: str = "") -> Credentials:
    """Return the credentials of a file's bytes, with the manifest beside it if there is one."""
    import c2pa

    media_type = ANY_FILE if manifest is not None else media_type_of(data)
    if media_type is None:
        return Credentials("none")
    try:
        with c2pa.Reader(media_type, io.BytesIO(data), manifest, context=context(anchors)) as reader:
            said: dict[str, Any] = json.loads(reader.json())
    except c2pa.C2paError as error:
        if type(error).__name__.lstrip("_").removeprefix("C2pa") in _WITHOUT_CREDENTIALS:
            return Credentials("none")
        return Credentials("altered", problems=(f"unreadable: {str(error)[:200]}",))
    return _credentials(said)


def media_type_of(data: bytes) -> str | None:
    """Return the type of a file that can hold credentials, by its first bytes."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[:4] == _ZIP:
        return "application/epub+zip" if data[30:58] == _EPUB else None
    return next((kind for start, kind in _MAGIC.items() if data.startswith(start)), None)


def _subject(path: Path) -> Path:
    """Return the file that credentials are about: a sidecar is about the file it is named after."""
    return path.with_name(path.name.removesuffix(SIDECAR)) if path.name.endswith(SIDECAR) else path


def _read(path: Path) -> bytes:
    try:
        return files.read_bytes(path, most_bytes=MOST_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({files.why(error)})") from None


def _credentials(said: dict[str, Any]) -> Credentials:
    results = said.get("validation_results") or {}
    failures = [*_failures(results.get("activeManifest"))]
    for delta in results.get("ingredientDeltas") or ():
        failures += _failures(delta.get("validationDeltas"))
    problems = tuple(dict.fromkeys(code for code in failures if code != UNTRUSTED))
    intact = not problems and said.get("validation_state") in ("Valid", "Trusted")
    claim = _claim(said, said.get("active_manifest"), "trusted" if UNTRUSTED not in failures else "unknown")
    return Credentials("intact" if intact else "altered", claim, problems)


def _failures(results: Any) -> Iterator[str]:
    for each in (results or {}).get("failure") or ():
        yield str(each.get("code"))


def _claim(said: dict[str, Any], label: Any, trust: Signer, depth: int = 0) -> Claim | None:
    manifest = (said.get("manifests") or {}).get(label)
    if manifest is None or depth > DEEPEST:
        return None
    actions = [each for each in _assertions(manifest, "c2pa.actions") for each in each.get("actions") or ()]
    signature, software = manifest.get("signature_info") or {}, manifest.get("claim_generator_info") or [{}]
    return Claim(
        title=str(manifest.get("title") or ""),
        signer=str(signature.get("common_name") or signature.get("issuer") or ""),
        trust=trust,
        software=" ".join(str(software[0].get(key)) for key in ("name", "version") if software[0].get(key)),
        actions=tuple(str(each.get("action")) for each in actions),
        source_types=_once(
            str(each.get("digitalSourceType") or "").removeprefix(SOURCE_TYPE) for each in actions
        ),
        models=_once(_agent(each.get("softwareAgent")) for each in actions),
        run=next(_assertions(manifest, RUN_LABEL), {}),
        ingredients=tuple(_used(said, each, depth) for each in manifest.get("ingredients") or ()),
    )


def _used(said: dict[str, Any], ingredient: dict[str, Any], depth: int) -> UsedFile:
    failures = [*_failures((ingredient.get("validation_results") or {}).get("activeManifest"))]
    trust: Signer = "unknown" if UNTRUSTED in failures else "trusted"
    return UsedFile(
        title=str(ingredient.get("title") or ""),
        relationship=str(ingredient.get("relationship") or ""),
        claim=_claim(said, ingredient.get("active_manifest"), trust, depth + 1),
        problems=tuple(dict.fromkeys(code for code in failures if code != UNTRUSTED)),
    )


def _assertions(manifest: dict[str, Any], label: str) -> Iterator[dict[str, Any]]:
    for each in manifest.get("assertions") or ():
        if str(each.get("label")).startswith(label) and isinstance(each.get("data"), dict):
            yield each["data"]


def _agent(agent: Any) -> str:
    return str(agent.get("name") or "") if isinstance(agent, dict) else str(agent or "")


def _once(values: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))
