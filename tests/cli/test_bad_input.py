"""Bad input: exit code 2, one or two lines that say what to do next, nothing half written, no traceback."""

from __future__ import annotations

import io
import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from interleave.cli.main import run

Captured = pytest.CaptureFixture[str]


def huge_png() -> bytes:
    """900 megapixels in a few bytes: the header alone must be enough to refuse it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


def prepare(folder: Path) -> None:
    (folder / "text.png").write_text("not an image")
    (folder / "drawing.png").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (folder / "folder.png").mkdir()
    (folder / "huge.png").write_bytes(huge_png())
    (folder / "empty.png").write_bytes(b"")
    os.mkfifo(folder / "pipe.png")
    (folder / "bad.toml").write_text("[planner\n")
    (folder / "odd.toml").write_text('colour = "red"\n')
    (folder / "half.toml").write_text('[planner]\nbackend = "scripted"\n')
    (folder / "typed.toml").write_text(
        'max_attempts = "many"\n[planner]\nspec = "scripted"\n[critic]\nspec = "scripted"\n'
        '[generator]\nspec = "solid"\n'
    )
    (folder / "full").mkdir()
    (folder / "full" / "thesis.tex").write_text("mine")
    (folder / "file").write_text("mine")
    (folder / "broken.json").write_text("{")
    (folder / "nosteps.json").write_text('{"steps": []}')
    (folder / "blank.json").write_text('{"steps": [{"number": 1, "prompt": " "}]}')
    (folder / "noprompt.json").write_text('{"steps": [{"instruction": "a"}]}')
    (folder / "list.json").write_text("[]")
    (folder / "twice.json").write_text('{"steps": [{"prompt": "a", "prompt": "b"}]}')
    (folder / "digits.json").write_text('{"steps": [{"prompt": "a", "number": ' + "9" * 5000 + "}]}")
    (folder / "no-steps.json").write_text('{"steps": []}')
    (folder / "later.json").write_text('{"steps": [{"number": 1, "prompt": "a", "sources": [2]}]}')
    (folder / "gone.json").write_text(
        '{"steps": [{"number": 2, "prompt": "a"}, {"number": 3, "prompt": "b", "sources": [1]}]}'
    )
    (folder / "many.json").write_text(
        json.dumps({"steps": [{"number": n, "prompt": "a"} for n in range(1, 60)]})
    )
    (folder / "web.md").write_text("![x](https://example.org/x.png)")
    (folder / "latin.md").write_bytes(b"caf\xe9")
    (folder / "script.jsonl").write_text('{"text": 1}\n')


GENERATE = ["generate", "A frog"]
CASES: dict[str, tuple[list[str], str]] = {
    "no verb": ([], ""),
    "unknown verb": (["genrate", "A frog"], "No such command 'genrate'"),
    "unknown option": ([*GENERATE, "--max-atempts", "3"], "--max-atempts"),
    "no request": (["generate"], "the request is empty"),
    "empty request": (["generate", ""], "the request is empty"),
    "blank request": (["generate", " \n\t "], "the request is empty"),
    "5 MB request": (["generate", "x" * 5_000_000], "5,000,000 characters"),
    "request that is no Unicode": (["generate", "caf\udce9"], "not valid Unicode"),
    "missing image": ([*GENERATE, "--image", "no.png"], "no.png: no such file"),
    "text image": ([*GENERATE, "--image", "text.png"], "not a PNG, JPEG or WebP"),
    "disguised SVG": ([*GENERATE, "--image", "drawing.png"], "SVG"),
    "directory image": ([*GENERATE, "--image", "folder.png"], "is a folder"),
    "900-megapixel image": ([*GENERATE, "--image", "huge.png"], "too large"),
    "empty image": ([*GENERATE, "--image", "empty.png"], "empty"),
    "named pipe": ([*GENERATE, "--image", "pipe.png"], "not a regular file"),
    "unknown profile": ([*GENERATE, "--profile", "dryrun"], "Did you mean 'dry-run'?"),
    "missing profile file": ([*GENERATE, "--profile", "./no.toml"], "does not exist"),
    "invalid TOML": ([*GENERATE, "--profile", "./bad.toml"], "not valid TOML"),
    "unknown key in a profile": ([*GENERATE, "--profile", "./odd.toml"], "odd.toml"),
    "half a profile": ([*GENERATE, "--profile", "./half.toml"], "critic"),
    "wrong type in a profile": ([*GENERATE, "--profile", "./typed.toml"], "max_attempts"),
    "unknown generator": ([*GENERATE, "--generator", "sold"], "Did you mean 'solid'?"),
    "unknown planner": ([*GENERATE, "--planner", "gpt"], "no planner named 'gpt'"),
    "a generator as critic": ([*GENERATE, "--critic", "solid"], "no critic named 'solid'"),
    "empty spec": ([*GENERATE, "--generator", ""], "not a backend spec"),
    "spec with an empty model": ([*GENERATE, "--planner", "scripted:"], "no model after it"),
    "spec with an unknown key": ([*GENERATE, "--generator", "solid?dely=1"], "Did you mean 'delay'?"),
    "spec with a bad value": ([*GENERATE, "--generator", "solid?delay=soon"], "delay"),
    "missing script": ([*GENERATE, "--planner", "scripted:./no.jsonl"], "does not exist"),
    "bad script": ([*GENERATE, "--planner", "scripted:./script.jsonl"], "script.jsonl:1"),
    "unknown prompt pack": ([*GENERATE, "--prompts", "defualt"], "Did you mean 'default'?"),
    "no attempts": ([*GENERATE, "--max-attempts", "0"], "--max-attempts 0"),
    "attempts in words": ([*GENERATE, "--max-attempts", "five"], "--max-attempts"),
    "no calls": ([*GENERATE, "--max-calls", "0"], "--max-calls"),
    "no time": ([*GENERATE, "--max-seconds", "0"], "--max-seconds"),
    "unknown sources": ([*GENERATE, "--sources", "all"], "--sources"),
    "too many steps asked for": (["generate", "Show it in 70 steps"], "--max-steps 70"),
    "a folder with other content": ([*GENERATE, "--out", "full"], "thesis.tex"),
    "a file as folder": ([*GENERATE, "--out", "file"], "is a file"),
    "a folder under a file": ([*GENERATE, "--out", "file/run"], "file/run"),
    "dry run of another profile": ([*GENERATE, "--dry-run", "--profile", "klein"], "drop one"),
    "missing plan": ([*GENERATE, "--plan", "no.json"], "no.json: no such file"),
    "broken plan": ([*GENERATE, "--plan", "broken.json"], "broken.json, line 1: not JSON"),
    "plan without steps": ([*GENERATE, "--plan", "nosteps.json"], "nosteps.json"),
    "plan with a blank prompt": ([*GENERATE, "--plan", "blank.json"], "blank prompt"),
    "plan without prompts": ([*GENERATE, "--plan", "noprompt.json"], 'step 1 has no "prompt"'),
    "plan with an empty list": ([*GENERATE, "--plan", "no-steps.json"], 'its list of "steps" is empty'),
    "I07 plan with a key twice": ([*GENERATE, "--plan", "twice.json"], "the key 'prompt' occurs twice"),
    "I07 plan with a number of 5,000 digits": ([*GENERATE, "--plan", "digits.json"], "digits.json: not JSON"),
    "plan that is a list": ([*GENERATE, "--plan", "list.json"], 'no list of "steps"'),
    "requests for one run only": ([*GENERATE, "--concurrency", "2"], "--requests"),
    "request without quotes": (["generate", "A", "frog"], "put the request in quotes"),
    "D24 plan that starts from a later step": ([*GENERATE, "--plan", "later.json"], "step 2"),
    "D24 plan that starts from a deleted step": (
        [*GENERATE, "--plan", "gone.json"],
        "which is not in the plan",
    ),
    "plan that is too long": ([*GENERATE, "--plan", "many.json"], "--max-steps 59"),
    "missing document": (["generate", "--from", "no.md"], "no.md: no such file"),
    "picture from the web": (["generate", "--from", "web.md"], "nothing is fetched from the web"),
    "document that is no UTF-8": (["generate", "--from", "latin.md"], "not UTF-8"),
    "show without a run": (["show", "nowhere"], "not a run folder"),
    "show a file": (["show", "file"], "not a run folder"),
    "show in two forms": (["show", "nowhere", "--json", "--markdown"], "cannot be combined"),
    "resume without a run": (["resume", "full"], "not a run folder"),
    "unknown prompt": (["prompts", "show", "default", "critc"], "Did you mean 'critic'?"),
    "import from nowhere": (["models", "prompts", "import", "nowhere"], "not a folder"),
    "import from another project": (["models", "prompts", "import", "full"], "is it a checkout"),
    "import under a bad name": (
        ["prompts", "import", "full", "--name", "../x"],
        "is not a valid name of a prompt pack",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused(case: str, capsys: Captured, tmp_path: Path) -> None:
    prepare(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    arguments, expected = CASES[case]
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    if case != "no verb":  # without a verb the help is what helps
        assert out == "" or ("--json" in arguments and json.loads(out)["exit_code"] == 2)
        complaint = [line for line in err.splitlines() if line != "loading models…"]
        assert 1 <= len(complaint) <= 2
        assert expected in err
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before


def test_I07_a_request_piped_in_that_is_no_text_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    piped = io.TextIOWrapper(io.BytesIO(b"caf\xe9"), encoding="utf-8", errors="strict")
    monkeypatch.setattr("sys.stdin", piped)
    assert run(["generate", "-"]) == 2
    assert "not UTF-8" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", None)
    assert run(["generate", "-"]) == 2
    assert "is closed" in capsys.readouterr().err


def test_I05_no_more_is_read_from_a_pipe_than_a_request_may_have(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    class Endless(io.TextIOBase):
        taken = 0

        def read(self, size: int | None = -1, /) -> str:
            assert size is not None and 0 < size < 100_000
            self.taken += size
            return "x" * size

    monkeypatch.setattr("sys.stdin", endless := Endless())
    assert run(["generate", "-"]) == 2
    assert "more than the 65,536 allowed" in capsys.readouterr().err
    assert endless.taken == 65_537


def test_debug_shows_where_an_error_came_from(capsys: Captured) -> None:
    assert run(["generate", "A frog", "--profile", "none", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="does not apply: root may read and write everything")
def test_unreadable_files_are_refused(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"x")
    (tmp_path / "secret.png").chmod(0)
    assert run(["generate", "A frog", "--image", "secret.png"]) == 2
    assert "cannot be opened" in capsys.readouterr().err


def test_a_complaint_cannot_steer_the_terminal(capsys: Captured) -> None:
    assert run(["generate", "A frog", "--profile", "\x1b[31m\u202ered"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert "\u202e" not in err


@pytest.mark.parametrize(
    "variables", [{"LC_ALL": "C"}, {"TZ": "Nowhere/Odd"}, {"TMPDIR": "/nowhere"}], ids=str
)
def test_I10_odd_environments_do_not_matter(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert run(["generate", "ضفدع in 1 picture", "--out", "run"]) == 0


def test_I10_no_home_is_needed(monkeypatch: pytest.MonkeyPatch, without_home: Callable[[], None]) -> None:
    without_home()
    assert run(["generate", "A frog in 1 picture", "--out", "run"]) == 0


@pytest.fixture
def without_home(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def remove() -> None:
        for name in ("HOME", "INTERLEAVE_CONFIG", "XDG_CONFIG_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(Path, "home", _no_home)

    return remove


def _no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")
