"""A server announces its address only where what its models need is there."""

from __future__ import annotations

import sys

import pytest

from interleave.cli.main import run

POSTGRES = ["--jobs", "postgres://127.0.0.1:1/none", "--runs", "runs"]
OPENAI = ["--planner", "openai:gpt-5", "--critic", "openai:gpt-5", "--generator", "openai-images:gpt-image-1"]


@pytest.fixture(autouse=True)
def _nothing_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.parametrize(
    "command", [["studio", "--no-open"], ["serve", "documents"], ["serve", "worker", *POSTGRES]], ids=" ".join
)
def test_without_onnxruntime_the_command_that_installs_it_is_named(
    command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--profile", "mini"]) == 2
    told = capfd.readouterr()
    assert told.out == ""
    assert "needs the package 'onnxruntime', which is not installed" in told.err
    assert "pip install onnxruntime" in told.err
    assert "--profile dry-run" in told.err
    assert len(told.err.splitlines()) == 1


def test_a_generator_server_names_it_too(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "generator", "--generator", "mini"]) == 2
    told = capfd.readouterr()
    assert told.out == ""
    assert "pip install onnxruntime" in told.err


@pytest.mark.parametrize(
    "command",
    [
        ["studio", "--no-open", *OPENAI],
        ["serve", "documents", *OPENAI],
        ["work", *POSTGRES, *OPENAI],
        ["serve", "generator", *OPENAI[-2:]],
    ],
    ids=" ".join,
)
def test_a_key_that_is_not_set_is_named(command: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(command) == 2
    told = capfd.readouterr()
    assert told.out == ""
    assert "export OPENAI_API_KEY=" in told.err


def test_a_service_that_leaves_jobs_to_workers_needs_no_models(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "documents", "--profile", "mini", "--concurrency", "0", *POSTGRES]) == 2
    assert "torch" not in capfd.readouterr().err  # it got as far as the job table
