"""The files in deploy/: every command in them is one of ours, and Kubernetes and Compose know every field."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install pyyaml")

DEPLOY = Path(__file__).parent.parent / "deploy"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
FIELDS = {
    "build", "cap_drop", "command", "depends_on", "environment", "healthcheck", "image", "mem_limit",
    "pids_limit", "ports", "read_only", "restart", "security_opt", "stop_grace_period", "tmpfs", "volumes",
}  # fmt: skip
USER = 10001
"""The user of the image, by number: also that of the shared folder."""
ANSWER_SECONDS = 5
"""Time for open responses after `--drain`."""


def objects() -> Iterator[dict[str, Any]]:
    for file in KUBERNETES:
        yield from yaml.safe_load_all(file.read_text("utf-8"))


def pods() -> Iterator[dict[str, Any]]:
    for each in objects():
        if "template" in each.get("spec", {}):
            yield each["spec"]["template"]["spec"]


def containers() -> Iterator[dict[str, Any]]:
    for pod in pods():
        yield from pod["containers"]


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
        mounted = {each.partition(":")[0] for each in service["volumes"]}
        assert {each for each in mounted if not each.startswith("./")} <= set(volumes)
    asked = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text("utf-8")))
    told = {line.partition("=")[0] for line in (DEPLOY / "env.example").read_text("utf-8").splitlines()}
    assert asked == told


def test_the_image_runs_as_a_user_with_a_number() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text("utf-8")
    assert f"USER {USER}:{USER}" in dockerfile
    for each in pods():
        assert each["securityContext"]["runAsNonRoot"]
        assert each["securityContext"]["runAsUser"] == each["securityContext"]["fsGroup"]
        assert each["securityContext"]["runAsUser"] == (
            999 if each["containers"][0]["name"] == "postgres" else USER
        )


@pytest.mark.parametrize("container", containers(), ids=lambda each: each["name"])
def test_G34_a_container_may_do_no_more_than_it_needs(container: dict[str, Any]) -> None:
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "/tmp" in {each["mountPath"] for each in container["volumeMounts"]}
    assert "memory" in container["resources"]["limits"]
    assert {"livenessProbe", "readinessProbe"} <= set(container)


@pytest.mark.parametrize("name", sorted(set(COMPOSE["services"]) - {"postgres"}))
def test_G34_so_do_containers_of_compose(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["mem_limit"]
    assert service["security_opt"] == ["no-new-privileges:true"] and service["healthcheck"]


def drain_of(command: list[str]) -> float:
    return float(command[command.index("--drain") + 1]) if "--drain" in command else 10.0


def test_a_stop_waits_for_as_long_as_the_process_drains() -> None:
    for pod in pods():
        for each in pod["containers"]:
            if "args" in each and each["args"][1] != "generator":
                assert pod["terminationGracePeriodSeconds"] >= drain_of(each["args"]) + ANSWER_SECONDS
    for service in COMPOSE["services"].values():
        if "--drain" in service.get("command", []):
            assert (
                float(service["stop_grace_period"].rstrip("s"))
                >= drain_of(service["command"]) + ANSWER_SECONDS
            )


def test_every_kind_of_pod_keeps_one_while_nodes_are_drained() -> None:
    budgets = {each["metadata"]["name"] for each in objects() if each["kind"] == "PodDisruptionBudget"}
    deployed = {each["metadata"]["name"] for each in objects() if each["kind"] == "Deployment"}
    assert budgets == deployed


def test_probes_ask_paths_that_exist() -> None:
    from interleave.service.documents.openapi import openapi

    known = set(openapi()["paths"])
    asked = {
        each[probe]["httpGet"]["path"]
        for each in containers()
        for probe in ("startupProbe", "livenessProbe", "readinessProbe")
        if "httpGet" in each.get(probe, {})
    }
    assert {"/health/live", "/health/ready"} <= asked <= known


def test_kustomize_builds_it() -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    command = [kubectl, "kustomize", str(DEPLOY / "kubernetes")]
    built = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(built)}
    assert names == {
        (each["kind"], each["metadata"]["name"]) for each in objects() if each["kind"] != "Kustomization"
    }
