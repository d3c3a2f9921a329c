"""Write a CycloneDX list of what a distribution needs: `NAME-VERSION.cdx.json` beside its wheel.

    python deploy/sbom.py . dist        # release.py does this for every distribution

It names each package that `pip install` may bring, the extra that asks for it, and the version that the tests
last passed with (constraints.txt). The studio's page has no package of npm in it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import tomllib
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
DEVELOPERS = {"dev", "docs", "strict"}


def sbom(project: Path) -> dict[str, Any]:
    """Return the list of a distribution; the same bytes for the same commit."""
    described = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
    name, version = described["name"], _version(described)
    components = [_component(need, asked) for need, asked in sorted(_needs(described).items())]
    own = f"pkg:pypi/{name}@{version}"
    seed = json.dumps([own, components], sort_keys=True)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, seed).urn,
        "version": 1,
        "metadata": {
            "timestamp": time.strftime(
                "%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))
            ),
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": name,
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": components,
        "dependencies": [
            {"ref": own, "dependsOn": [each["bom-ref"] for each in components]},
            *({"ref": each["bom-ref"]} for each in components),
        ],
    }


def _version(described: dict[str, Any]) -> str:
    if "version" in described:
        return str(described["version"])
    return re.findall(r'__version__ = "(.+)"', (ROOT / "src/interleave/version.py").read_text("utf-8"))[0]


def _needs(described: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Return the range and the extra of every requirement, by the name of its package."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    extras = described.get("optional-dependencies", {})
    for extra, lines in {"": described.get("dependencies", []), **extras}.items():
        for line in lines if extra not in DEVELOPERS else ():
            need = Requirement(line)
            if canonicalize_name(need.name) != canonicalize_name(described["name"]):
                found[canonicalize_name(need.name)].append((str(need.specifier), extra))
    return found


def _component(name: str, asked: list[tuple[str, str]]) -> dict[str, Any]:
    pinned = _pins().get(name)
    purl = f"pkg:pypi/{name}" + (f"@{pinned}" if pinned else "")
    properties = [{"name": "interleave:range", "value": range_} for range_, _ in asked if range_]
    properties += [{"name": "interleave:extra", "value": extra} for _, extra in asked if extra]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        **({"version": pinned} if pinned else {}),
        "scope": "required" if any(not extra for _, extra in asked) else "optional",
        "purl": purl,
        "properties": sorted(properties, key=lambda each: (each["name"], each["value"])),
    }


def _pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = (line.split(";")[0].partition("==") for line in lines if "==" in line and not line.startswith("#"))
    return {canonicalize_name(name.strip()): version.strip() for name, _, version in pins}


def write_sbom(project: Path, folder: Path) -> Path:
    made = sbom(project)
    own = made["metadata"]["component"]
    path = folder / f"{own['name'].replace('-', '_')}-{own['version']}.cdx.json"
    path.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    return path


if __name__ == "__main__":
    os.environ.setdefault("SOURCE_DATE_EPOCH", "0")
    print(write_sbom(Path(sys.argv[1]).resolve(), Path(sys.argv[2])))
