"""Build a release into dist/, and fail unless a fresh clone builds the same bytes.

    make release                 # builds dist/: wheels, archives, lists, provenance.json and SHA256SUMS
    git tag v0.2.0               # then tag

    pip install sigstore         # then attest, which asks who you are: one bundle beside each file
    python -m sigstore attest --predicate dist/provenance.json \\
        --predicate-type https://slsa.dev/provenance/v1 dist/*.whl dist/*.tar.gz
    python -m twine upload dist/*.whl dist/*.tar.gz

Upload the lists, the sums and the bundles (*.sigstore.json) with the release. Anybody checks a file by
`python -m sigstore verify identity --cert-identity PUBLISHER --cert-oidc-issuer ISSUER FILE`, and by building
the commit that provenance.json names.

A release is refused if the working tree has changes, or if the version has no dated section in CHANGELOG.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sbom import write_sbom

ROOT = Path(__file__).resolve().parent.parent
PROJECTS = (".", "mini")


def main() -> int:
    if problems := [*_uncommitted(), *_unreleasable()]:
        print(*problems, sep="\n", file=sys.stderr)
        return 1
    dist = ROOT / "dist"
    first = build(ROOT, dist)
    with tempfile.TemporaryDirectory() as scratch:
        clone = Path(scratch, "clone")
        _git("clone", "--quiet", "--depth=1", f"file://{ROOT}", str(clone))
        second = build(clone, Path(scratch, "dist"))
    if first != second:
        differing = sorted(name for name in first | second if first.get(name) != second.get(name))
        print(f"two builds differ: {', '.join(differing)}", file=sys.stderr)
        return 1
    (dist / "provenance.json").write_text(json.dumps(provenance(), indent=1) + "\n", "utf-8")
    (dist / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(first.items())))
    print(*(f"{digest}  {name}" for name, digest in sorted(first.items())), sep="\n")
    return 0


def build(root: Path, folder: Path) -> dict[str, str]:
    """Build every distribution into an emptied folder; return the SHA-256 of each file by its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    # Archives carry this time instead of that of the build.
    os.environ["SOURCE_DATE_EPOCH"] = _git("log", "-1", "--format=%ct")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder)]
    for project in PROJECTS:
        subprocess.run(command, cwd=root / project, check=True, capture_output=True)
        write_sbom(root / project, folder)
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def provenance() -> dict[str, Any]:
    """Return the predicate of an attestation (SLSA 1.0): from which commit, with which tools."""
    tools = {"python": sys.version.split()[0], "hatchling": version("hatchling")}
    return {
        "buildDefinition": {
            "buildType": "make release",
            "externalParameters": {"source_date_epoch": _git("log", "-1", "--format=%ct")},
            "internalParameters": tools,
            "resolvedDependencies": [{"digest": {"gitCommit": _git("rev-parse", "HEAD")}}],
        },
        "runDetails": {"builder": {"id": "make release"}},
    }


def _uncommitted() -> list[str]:
    return ["commit or remove these first:", changes] if (changes := _git("status", "--porcelain")) else []


def _unreleasable() -> list[str]:
    """Versions that differ between the distributions, and a changelog without this version's date."""
    (ours,) = re.findall(r'__version__ = "(.+)"', (ROOT / "src/interleave/version.py").read_text("utf-8"))
    mini = tomllib.loads((ROOT / "mini/pyproject.toml").read_text("utf-8"))["project"]["version"]
    problems = [] if mini == ours else [f"mini/pyproject.toml has version {mini}, not {ours}"]
    if not re.search(rf"^## {re.escape(ours)} \(\d{{4}}-\d\d-\d\d\)$", _changelog(), re.MULTILINE):
        problems.append(f"CHANGELOG.md has no section '## {ours} (YYYY-MM-DD)'")
    return problems


def _changelog() -> str:
    return (ROOT / "CHANGELOG.md").read_text("utf-8")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
