"""The files in deploy/: every command in them is one of ours, and Kubernetes and Compose know every field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install pyyaml")

DEPLOY = Path(__file__).parent.parent / "deploy"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
FIELDS = {
    "command", "depends_on", "environment", "healthcheck", "image", "ports", "restart", "stop_grace_period",
    "volumes", "build",
}  # fmt: skip


def objects() -> Iterator[dict[str, Any]]:
    for file in KUBERNETES:
        yield from yaml.safe_load_all(file.read_text("utf-8"))


def containers() -> Iterator[dict[str, Any]]:
    for each in objects():
        yield from each.get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])


COMMANDS = [
    *(("kubernetes", each["name"], each["args"]) for each in containers() if "args" in each),
    *(("compose", name, each["command"]) for name, each in COMPOSE["services"].items() if "command" in each),
]


@pytest.mark.parametrize(("where", "name", "command"), COMMANDS, ids=lambda each: str(each)[:20])
def test_every_command_is_understood(
    where: str, name: str, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import typer

    from interleave.cli.main import app

    monkeypatch.setenv("INTERLEAVE_JOBS", "postgres://somewhere/jobs")
    words, parsed = list(command), typer.main.get_command(app)
    while hasattr(parsed, "commands"):
        parsed = parsed.commands[words.pop(0)]
    with parsed.make_context(name, words) as context:
        spec = context.params["generator"]
    from interleave.config.specs import parse_spec

    assert parse_spec(spec).name in ("solid", "http")


def test_all_three_kinds_of_processes_are_there() -> None:
    assert sorted({tuple(command[:2])[:2] for _, _, command in COMMANDS}) == [
        ("serve", "documents"),
        ("serve", "generator"),
        ("serve", "worker"),
    ]


def test_every_file_is_named_in_the_kustomization() -> None:
    (listed,) = (each["resources"] for each in objects() if each["kind"] == "Kustomization")
    assert sorted(listed) == [each.name for each in KUBERNETES if each.name != "kustomization.yaml"]


def test_kubernetes_knows_every_field() -> None:
    validate = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed: pip install kubernetes-validate"
    )
    for each in objects():
        if each["kind"] != "Kustomization":
            validate.validate(each, "1.31", strict=True)


def test_compose_names_only_what_it_defines() -> None:
    services, volumes = COMPOSE["services"], COMPOSE["volumes"]
    for name, service in services.items():
        assert set(service) <= FIELDS, name
        assert set(service.get("depends_on", {})) <= set(services)
        assert {each.partition(":")[0] for each in service["volumes"]} <= set(volumes)
    asked = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text("utf-8")))
    told = {line.partition("=")[0] for line in (DEPLOY / "env.example").read_text("utf-8").splitlines()}
    assert asked == told
