"""Credentials in plain words, for people who check a file."""

from __future__ import annotations

from collections.abc import Iterator

from interleave.plugin import text
from interleave.provenance.reading import Claim, Credentials, UsedFile

_KINDS = {
    "trainedAlgorithmicMedia": "made with AI",
    "compositeWithTrainedAlgorithmicMedia": "a document with parts made with AI",
    "compositeSynthetic": "composed of parts made by programs",
    "algorithmicMedia": "made by a program, not by a trained model",
    "digitalCapture": "taken with a camera",
    "computationalCapture": "taken with a camera and its programs",
    "digitalCreation": "made by a person with a program",
    "humanEdits": "edited by a person",
    "composite": "composed of several files",
}
_CHANGED = "assertion.dataHash", "assertion.collectionHash", "assertion.bmffHash", "assertion.boxesHash"
_USED = {
    "parentOf": "made from",
    "componentOf": "contains",
    "inputTo": "with, as a reference",
}
MOST_LINES = 200


def verdict_on(credentials: Credentials) -> str:
    """Return in one sentence whether a file is what its signer signed."""
    if credentials.state == "none":
        return "no content credentials: nothing in the file says who made it or how"
    if credentials.state == "altered":
        return f"ALTERED or damaged: {_reason(credentials.problems)}"
    claim = credentials.claim
    who = _shown(claim.signer) if claim else "nobody"
    if claim and claim.trust == "trusted":
        return f"unchanged since it was signed by {who}, whose certificate you trust"
    return (
        f"unchanged since it was signed by {who}. Anyone can make a certificate with such a name: "
        "ask the signer for theirs and add --trust FILE"
    )


def _reason(problems: tuple[str, ...]) -> str:
    if any(code.startswith(_CHANGED) for code in problems):
        return "its content is not what was signed"
    if any(code.startswith(("claimSignature.mismatch", "claimSignature.missing")) for code in problems):
        return "its signature does not fit its statements"
    if any(code.startswith("assertion.") for code in problems):
        return "its statements are not those that were signed"
    return _shown("; ".join(problems)) or "its credentials cannot be checked"


def chain_of(credentials: Credentials) -> Iterator[str]:
    """Yield the statements as indented lines, newest first."""
    if credentials.claim is None:
        return
    for number, line in enumerate(_lines(credentials.claim, 1)):
        if number == MOST_LINES:
            yield "  … and more"
            return
        yield line


def _lines(claim: Claim, depth: int) -> Iterator[str]:
    indent = "  " * depth
    yield f"{indent}{_shown(claim.title) or 'Untitled'}: {_how(claim)}"
    if depth > 1:
        yield f"{indent}  signed by {_shown(claim.signer) or 'nobody named'}"
    for key, shown in (("prompt", "prompt"), ("prompt_sha256", "SHA-256 of its prompt")):
        if claim.run.get(key):
            yield f"{indent}  {shown}: {_shown(str(claim.run[key]))}"
    for used in claim.ingredients:
        yield from _used(used, depth + 1)


def _used(used: UsedFile, depth: int) -> Iterator[str]:
    indent, how = "  " * depth, _USED.get(used.relationship, "with")
    if used.claim is None:
        yield f"{indent}{how}: {_shown(used.title) or 'a file'} (without credentials)"
    else:
        yield f"{indent}{how}:"
        yield from _lines(used.claim, depth + 1)
    if used.problems:
        yield f"{indent}  its credentials did not fit when it was used: {_shown('; '.join(used.problems))}"


def _how(claim: Claim) -> str:
    kinds = ", ".join(_KINDS.get(each, each) for each in claim.source_types)
    verb = (
        "edited" if "c2pa.edited" in claim.actions else "made" if "c2pa.created" in claim.actions else "kept"
    )
    models = " and ".join(each for each in claim.models if not claim.software.startswith(each))
    by = f"{verb} by {models}" if models and kinds else ""
    with_ = f"with {claim.software}" if claim.software else ""
    return _shown(", ".join(filter(None, [kinds, by, with_]))) or "nothing is said of how it was made"


def _shown(said: str) -> str:
    return text.one_line(text.visible(said), 300)
