"""Every spec in the docs of remote backends is one: it loads, and its options exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from interleave.backends.registry import known_backends, load_agent, load_generator

DOCS = (Path(__file__).parent.parent / "docs" / "how-to" / "remote-backends.md").read_text("utf-8")
SPECS = re.findall(r'--(planner|critic|generator) ("[^"]+"|[^\s`]+)', DOCS)
WORKFLOW = {
    "3": {"class_type": "KSampler", "inputs": {"seed": 1, "positive": ["6", 0]}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a cat"}},
}
LOADER = {"10": {"class_type": "LoadImage", "inputs": {"image": "x.png"}}}


@pytest.mark.parametrize(("role", "spec"), SPECS)
def test_a_spec_in_the_docs_loads(role: str, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("OPENAI", "GEMINI", "AZURE_OPENAI", "OPENROUTER"):
        monkeypatch.setenv(f"{key}_API_KEY", "x")
    for variable in ("INTERLEAVE_SERVER_TOKEN", "PAINT_TOKEN"):
        monkeypatch.setenv(variable, "x")
    Path("servers.txt").write_text("10.0.0.7\n", "utf-8")
    Path("text.json").write_text(json.dumps(WORKFLOW), "utf-8")
    Path("edit.json").write_text(json.dumps(WORKFLOW | LOADER), "utf-8")
    (paint,) = re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)
    Path("paint.toml").write_text(paint, "utf-8")
    named = spec.strip('"')
    assert load_generator(named) if role == "generator" else load_agent(named, role)


def test_every_remote_backend_is_in_the_docs() -> None:
    remote = {
        name
        for name, row in (known_backends("generator") | known_backends("vlm")).items()
        if row.extra == "api"
    }
    assert len(SPECS) > 10
    assert {name for name in remote if f"`{name}:" not in DOCS} == set()
