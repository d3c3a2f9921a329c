"""What installed packages add through entry points, and the product without any of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from interleave import entry_points
from interleave.agents.prompts import load_pack
from interleave.backends.registry import find_backend, note_for
from interleave.cli.main import run
from interleave.config.profiles import load_profile
from interleave.errors import ConfigurationError, MissingDependency
from interleave.train.recipes import shipped_recipes

SOURCE = Path(__file__).parent.parent / "src" / "interleave"

ENTRY_POINTS = """
[interleave.generators]
crayon = crayon_box.plugin:CRAYON
[interleave.vlms]
parrot = crayon_box.plugin:Parrot
openai = crayon_box.plugin:Parrot
[interleave.agents]
abacus = crayon_box.plugin:Abacus
[interleave.profiles]
crayon = crayon_box.profiles
[interleave.prompt_packs]
crayon = crayon_box.packs
[interleave.recipes]
crayon = crayon_box.recipes
[interleave.request_sources]
crayon = crayon_box.plugin:REQUESTS
broken = crayon_box.plugin:CRAYON
[interleave.benchmarks]
doodle = crayon_box.plugin:doodle
scribble = crayon_box.plugin:Scribble
[interleave.exporters]
wax = crayon_box.plugin:WAX
[interleave.safety]
wax = crayon_box.plugin:Rules
[interleave.signers]
wax = crayon_box.plugin:seal
[interleave.readers]
crayon = crayon_box.plugin:Eye
[interleave.executors]
hand = crayon_box.plugin:by_hand
[interleave.commands]
sharpen = crayon_box.plugin:app
[interleave.routes]
"""
PLUGIN = """
from contextlib import contextmanager

import typer
from PIL import Image
from pydantic import BaseModel
from interleave import BackendInfo, GeneratorCapabilities, Outcome, Plan, PlanStep, Reply, Verdict
from interleave import VlmCapabilities
from interleave.bench.benchmarks.ueval import UEval
from interleave.train.data.prompts.stage import RequestSource
from interleave.render.exports import Exported, Format
from interleave.train.data.prompts.corpus import RequestRow

class Crayon:
    class Options(BaseModel):
        colour: str = "red"

    def __init__(self, *, spec, role, options):
        self.options = options
        self.capabilities = GeneratorCapabilities(max_sources=1)

    async def generate(self, request):
        return Image.new("RGB", (64, 64), self.options.colour)

class Parrot:
    class Options(BaseModel):
        pass

    def __init__(self, *, spec, options):
        self.capabilities = VlmCapabilities()

    async def complete(self, messages, sampling):
        return Reply("squawk")

class Abacus:
    class Options(BaseModel):
        pass

    def __init__(self, *, spec, options): ...

    async def plan(self, request):
        return Plan(steps=(PlanStep(number=1, prompt=request.text),))

    async def judge(self, seen):
        return Verdict(outcome=Outcome.ACCEPTED)

WAX = Format("wax", "Wax", "text/wax", "crayon_box.plugin:melt")

def melt(folder, record, options):
    return Exported(record.title.encode())

class Eye:
    @staticmethod
    def describe(image):
        return "a wax line"

    @staticmethod
    def point(image, phrase):
        return None

@contextmanager
def by_hand(work, folder, options):
    yield work.worker(folder)

CRAYON = BackendInfo("crayon_box.plugin:Crayon", "draws with wax", note="{} from a crayon.")

def requests(folder, items, *, suites, split, seed, progress):
    return [RequestRow(id=f"wax-{n}", request=f"A line in {n + 1} images") for n in range(items)]

REQUESTS = RequestSource(requests, items=3)

class Scribble(UEval):
    name = "scribble"
    asks_as = "ueval"

def doodle(items: int = 2) -> int:
    "Doodles, counted."
    print(f"{items} doodles")
    return 0

app = typer.Typer()

@app.command()
def pencil() -> int:
    "Sharpen a pencil."
    print("sharp")
    return 0

@app.callback()
def sharpen() -> None:
    "Sharpen things."
"""
PROFILE = """
description = "wax on paper"
prompts = "wax"
planner = "scripted"
critic = "scripted"
generator = "crayon?colour=blue"
"""


@pytest.fixture
def crayons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with one entry in every group, put on the path as an installer would."""
    site = tmp_path / "site"
    files = {
        "crayon_box-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: crayon-box\nVersion: 1.0\n",
        "crayon_box-1.0.dist-info/entry_points.txt": ENTRY_POINTS,
        "crayon_box/__init__.py": "",
        "crayon_box/plugin.py": PLUGIN,
        "crayon_box/profiles/__init__.py": "",
        "crayon_box/profiles/crayons.toml": PROFILE,
        "crayon_box/packs/__init__.py": "",
        "crayon_box/packs/wax/pack.toml": 'name = "wax"\nversion = "1"\nextends = "default"\n',
        "crayon_box/recipes/__init__.py": "",
        "crayon_box/recipes/wax-sft.toml": 'description = "learn to draw"\ntask = "sft"\n',
    }
    for name, text in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    monkeypatch.syspath_prepend(site)
    monkeypatch.chdir(tmp_path)
    for module in [name for name in sys.modules if name.startswith("crayon_box")]:
        monkeypatch.delitem(sys.modules, module)


@pytest.mark.usefixtures("crayons")
def test_a_profile_a_pack_and_a_backend_of_a_package_make_a_document(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert load_profile("crayons").description == "wax on paper"
    assert load_pack("wax").name == "wax"
    info = find_backend("crayon", "generator")
    assert info is not None and info.summary == "draws with wax"
    assert note_for("crayon", role="generator") == "The images come from a crayon."
    assert run(["generate", "A line in 2 pictures", "--profile", "crayons", "--out", "run", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["status"], len(made["steps"])) == ("done", 2)


@pytest.mark.usefixtures("crayons")
def test_commands_and_benchmarks_of_a_package_are_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sharpen", "pencil"]) == 0
    assert run(["bench", "doodle", "--items", "5"]) == 0
    assert capsys.readouterr().out == "sharp\n5 doodles\n"
    assert run(["--help"]) == 0
    assert "sharpen   Sharpen things." in capsys.readouterr().out
    assert run(["bench", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[-1]["name"] == "scribble"


@pytest.mark.usefixtures("crayons")
def test_a_benchmark_of_a_package_has_all_stages(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"id": 1, "task": "art", "prompt": "A line", "text_rubrics": ["it is one"], "image_rubrics": []}
    Path("data.json").write_text(json.dumps([row]))
    doubles = ["--planner", "scripted", "--generator", "solid?size=64", "--system", "plan"]
    assert run(["bench", "scribble", "run", "--data", "data.json", "--out", "out", *doubles]) == 0
    assert json.loads(Path("out/bench.json").read_text())["benchmark"] == "scribble"
    assert run(["bench", "scribble", "export", "--data", "data.json", "--out", "out"]) == 0
    assert json.loads(Path(capsys.readouterr().out.split()[-1], "outputs.json").read_text())[0]["id"] == "1"


@pytest.mark.usefixtures("crayons")
def test_requests_of_a_package_become_a_corpus(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "prompts", "--source", "crayon", "--out", "corpus.jsonl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["requests"] == 3
    assert run(["data", "prompts", "--source", "crayons", "--out", "other.jsonl"]) == 2
    assert "Did you mean 'crayon'?" in capsys.readouterr().err
    assert run(["data", "prompts", "--source", "broken", "--out", "other.jsonl"]) == 2
    assert "is not a RequestSource" in capsys.readouterr().err


@pytest.mark.usefixtures("crayons")
def test_no_package_takes_the_name_of_a_backend_of_ours() -> None:
    ours = find_backend("openai", "vlm")
    assert ours is not None
    assert ours.target.startswith("interleave.remote.")


@pytest.mark.usefixtures("crayons")
def test_an_executor_of_a_package_carries_out_requests(capsys: pytest.CaptureFixture[str]) -> None:
    Path("requests.jsonl").write_text('{"id": "one", "request": "A line"}\n')
    collect = ["data", "collect", "requests.jsonl", "--profile", "dry-run", "--out", "runs"]
    assert run([*collect, "--engine", "hands"]) == 2
    assert "no engine named 'hands'. Known: hand, local, ray. Did you mean 'hand'?" in capsys.readouterr().err
    assert run([*collect, "--engine", "hand", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] == 1


@pytest.mark.usefixtures("crayons")
def test_recipes_of_a_package_are_listed() -> None:
    assert "wax-sft" in shipped_recipes()


def test_the_package_of_these_tests_has_an_entry_in_every_group_that_is_documented() -> None:
    documented = re.findall(r"^\| (interleave\.\w+)", entry_points.__doc__ or "", re.MULTILINE)
    assert re.findall(r"^\[(.*)\]", ENTRY_POINTS, re.MULTILINE) == documented


@pytest.mark.usefixtures("crayons")
def test_an_agent_a_critic_and_an_exporter_of_a_package_are_used(capsys: pytest.CaptureFixture[str]) -> None:
    models = ["--planner", "abacus", "--critic", "parrot", "--generator", "crayon", "--max-attempts", "1"]
    assert run(["generate", "A line", *models, "--out", "run"]) == 0
    assert "the critic's reply could not be read" in capsys.readouterr().err
    assert run(["export", "run", "--to", "wax"]) == 0
    assert Path("run/document.wax").read_text() == "A line"
    assert run(["book", "look", "run"]) == 0  # with the reader of the generator's package
    assert 'alt="a wax line"' in Path("run/document.html").read_text("utf-8")


BROKEN = "\n".join(
    f"[interleave.{group}]\nbroken = broken_box.{group}"
    for group in ("profiles", "prompt_packs", "recipes", "generators", "vlms", "agents", "exporters")
)


def test_a_package_that_cannot_be_imported_stops_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    about = tmp_path / "site" / "broken_box-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-box\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(BROKEN)
    (about.parent / "broken_box").mkdir()
    (about.parent / "broken_box" / "__init__.py").write_text('raise RuntimeError("no GPU here")')
    monkeypatch.syspath_prepend(about.parent)
    assert run(["generate", "A line in 1 picture", "--dry-run", "--out", "run"]) == 0
    for command in (
        ["export", "run", "--to", "html"],
        ["prompts", "list"],
        ["train", "recipes"],
        ["backends"],
    ):
        assert run(command) == 0, command
    assert run(["export", "run", "--to", "broken"]) == 2
    assert "'broken' of the package broken-box cannot be loaded" in capsys.readouterr().err


def test_nothing_in_the_product_names_the_miniatures_package() -> None:
    naming = [
        path for path in SOURCE.rglob("*") if path.is_file() and b"interleave_mini" in path.read_bytes()
    ]
    assert [path for path in naming if path.suffix != ".pyc"] == []


DOUBLES = {"planner": "scripted", "critic": "scripted", "generator": "solid"}
WITHOUT_PLUGINS = """
import sys
from interleave import entry_points
entry_points.installed = lambda group: {}
sys.modules["interleave_mini"] = None
from interleave.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def without_plugins(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_PLUGINS, *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "INTERLEAVE_PROFILE"}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=600)


def test_without_the_miniature_other_models_work_and_the_default_says_what_to_install(tmp_path: Path) -> None:
    ended = without_plugins("generate", "A lake in 2 pictures", "--dry-run", "--out", "run", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    refused = without_plugins("generate", "A lake in 2 pictures", "--out", "other", folder=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.strip().endswith("Install it with: pip install . ./mini")
    named = [f"--{role}={double}" for role, double in DOUBLES.items()]
    ended = without_plugins("generate", "A lake in 2 pictures", *named, "--out", "named", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    helped = without_plugins("--help", folder=tmp_path)
    assert helped.returncode == 0 and "mini" not in helped.stdout


def test_the_missing_default_is_a_missing_dependency(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interleave.entry_points.installed", lambda group: {})
    with pytest.raises(MissingDependency, match="which is not installed"):
        load_profile("mini")
    with pytest.raises(ConfigurationError, match="no profile named 'oracle'"):
        load_profile("oracle")
