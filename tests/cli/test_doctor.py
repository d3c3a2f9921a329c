"""`interleave doctor`: a report that names what is missing, and gives nothing away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interleave.cli.main import run
from interleave.diagnostics.doctor import PURPOSES

SECRET = "sk-a-secret-of-somebody-0123456789"


def findings(capsys: pytest.CaptureFixture[str], *words: str) -> dict[tuple[str, str], dict[str, str]]:
    assert run(["doctor", "--json", *words]) == 0
    report = json.loads(capsys.readouterr().out)
    return {(each["group"], each["name"]): each for each in report["findings"]}


def test_the_report_has_no_secret_and_no_name_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    profile = tmp_path / "own.toml"
    profile.write_text(
        f'planner = "openai:{SECRET}@http://user:{SECRET}@10.1.2.3/v1"\ncritic = "none"\n'
        f'generator = "diffusers:{tmp_path}/models/mine"\n'
    )
    for form in ([], ["--json"]):
        assert run(["doctor", "--profile", str(profile), *form]) == 0
        printed = capsys.readouterr().out
        assert SECRET not in printed and str(tmp_path) not in printed and "10.1.2.3" not in printed
        assert "OPENAI_API_KEY" in printed


def test_keys_are_set_or_not_set(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    found = findings(capsys)
    assert found["keys", "OPENAI_API_KEY"]["status"] == "ok"
    assert found["keys", "GEMINI_API_KEY"]["status"] == "not set"


def test_every_extra_is_listed_with_its_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    listed = {name: each["detail"] for (group, name), each in findings(capsys).items() if group == "extras"}
    assert listed.keys() == PURPOSES.keys() and all(listed.values())


def test_a_package_that_is_too_old_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    version = __import__("importlib.metadata").metadata.version
    monkeypatch.setattr(
        "importlib.metadata.version", lambda name: "0.1" if name == "openai" else version(name)
    )
    api = findings(capsys)["extras", "api"]
    assert api["status"] == "missing" and "openai>=" in api["detail"] and "(0.1)" in api["detail"]
    assert api["fix"] == 'pip install "interleavethinker[api]"'


def test_a_model_that_is_not_on_the_disk_comes_with_the_command_that_fetches_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("diffusers")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    generator = "models", "generator"
    assert findings(capsys, "--profile", "klein")[generator]["fix"].startswith("hf download ")
    (tmp_path / "models--black-forest-labs--FLUX.2-klein-9B" / "snapshots").mkdir(parents=True)
    assert findings(capsys, "--profile", "klein")[generator]["status"] == "ok"


def test_a_profile_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--profile", "nobody"]) == 2
    assert "no profile named 'nobody'" in capsys.readouterr().err


def test_a_model_without_its_key_is_not_ok(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("openai")
    planner = findings(capsys, "--profile", "openai")["models", "planner"]
    assert planner["status"] == "warning" and "OPENAI_API_KEY is not set" in planner["detail"]


def test_programs_and_fonts_come_with_their_installation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    found = findings(capsys)
    for program in ("chromium", "nginx", "postgres"):
        assert found["programs", program]["fix"].startswith("apt-get install ")
