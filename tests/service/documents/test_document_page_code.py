"""The code of the page on the document service runs as printed, against a service."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from running import Service

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "document-service.md"


def test_the_python_of_the_page_runs(
    running: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        code = code.replace("http://127.0.0.1:8020", running.url).replace("time.sleep(1)", "time.sleep(0.01)")
        exec(compile(code, "page.py", "exec"), names)
    assert len(list(tmp_path.glob("*.png"))) == 4
    assert "response.completed" in capsys.readouterr().out
    assert names["facts"]["seed"] == 7  # type: ignore[index]
    for client in ("client", "google"):
        names[client].close()  # type: ignore[attr-defined]


def test_every_option_of_the_command_is_on_the_page() -> None:
    import typer

    from interleave.service.cli.serve import app

    command = typer.main.get_command(app).commands["documents"]  # type: ignore[attr-defined]
    page = PAGE.read_text("utf-8")
    own = [option for each in command.params for option in each.opts if each.name != "debug"]
    assert [option for option in own if f"`{option}" not in page] == []
