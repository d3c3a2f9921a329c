"""`interleave sign` and `interleave verify`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from interleave.plugin import lazy_command, options

HERE = "interleave.provenance.commands"
SIGN = lazy_command(f"{HERE}:sign", "Write signed copies of a run's images.")
VERIFY = lazy_command(f"{HERE}:verify", "Say who signed a file, how it was made, and whether it was changed.")
FOLDER = "signed"

Key = Annotated[
    str,
    typer.Option("--key", metavar="KEY|self", help="A PEM file with a key and its certificates, or 'self'."),
]
Prompts = Annotated[
    str, typer.Option("--prompts", metavar="no|hash|text", help="What to state of the prompts.")
]
Webp = Annotated[bool, typer.Option("--webp", help="Write lossless WebP instead of PNG.")]
Files = Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files to check.")]
Trust = Annotated[
    list[Path] | None,
    typer.Option("--trust", metavar="PEM", help="Certificates of signers to trust. Repeatable."),
]
Run = Annotated[
    Path | None,
    typer.Option("--run", metavar="RUN", help="Also check that the journal of this run was signed."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for each file.")]


def sign(run: options.RunFolder, key: Key = "self", prompts: Prompts = "no", webp: Webp = False) -> int:
    """Write signed copies of the images that a run shows into its folder `signed`. Prints their paths.

    The stored images keep their bytes.
    """
    from interleave.provenance.copies import write_signed_copies

    for path in write_signed_copies(run, run / FOLDER, key=key, prompts=prompts, webp=webp):
        print(path)
    return 0


def verify(files: Files, trust: Trust = None, run: Run = None, as_json: Json = False) -> int:
    """Say in plain words who signed a file, how it was made, and whether it was changed since.

    Exit code 0: every file is signed and unchanged. 1: one is not.
    """
    from interleave.provenance.reading import read_credentials
    from interleave.provenance.trust import read_anchors

    anchors = read_anchors(trust or [])
    fine = True
    for path in files:
        found = read_credentials(path, anchors)
        journal = _journal_note(run, found) if run else None
        fine &= found.state == "intact" and (journal is None or journal[0])
        if as_json:
            print(json.dumps(_as_json(path, found, journal), ensure_ascii=False))
        else:
            _print(path, found, journal)
    return 0 if fine else 1


def _print(path: Path, found: Any, journal: tuple[bool, str] | None) -> None:
    from interleave.provenance.wording import chain_of, verdict_on

    print(f"{path}: {verdict_on(found)}")
    for line in chain_of(found):
        print(line)
    if journal:
        print(f"  {journal[1]}")


def _journal_note(run: Path, found: Any) -> tuple[bool, str]:
    from interleave.provenance.journals import journal_matches

    stated = found.claim.run.get("journal") if found.claim else None
    if not isinstance(stated, dict):
        return False, "its statements name no journal of a run"
    if journal_matches(run, stated):
        return True, f"the journal of {run} begins as it was when this was signed"
    return False, f"the journal of {run} is another one, or was changed"


def _as_json(path: Path, found: Any, journal: tuple[bool, str] | None) -> dict[str, Any]:
    from interleave.provenance.wording import verdict_on

    said = {"file": str(path), "verdict": verdict_on(found), **asdict(found)}
    said["beside"] = str(found.beside) if found.beside else None
    return said | ({} if journal is None else {"journal_matches": journal[0]})
