"""Names to backends: what is found, what is refused, and what the refusal says to do."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import distributions
from pathlib import Path

import pytest

from interleave import entry_points
from interleave.backends import registry
from interleave.backends.protocols import ImageGenerator, ImageRequest, VisionLanguageModel
from interleave.backends.registry import BackendInfo, known_backends, load_generator, load_vlm, note_for
from interleave.config.specs import Spec
from interleave.errors import ConfigurationError, MissingDependency

Install = Callable[..., None]

PLUGIN = """
from PIL import Image
from pydantic import BaseModel
from interleave.backends.protocols import GeneratorCapabilities

class Crayon:
    class Options(BaseModel):
        colour: str = "red"

    def __init__(self, *, spec, role, options):
        self.options = options
        self.capabilities = GeneratorCapabilities(max_sources=0)

    async def generate(self, request):
        return Image.new("RGB", (8, 8), self.options.colour)

class NotABackend:
    pass
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a package with one module and one entry point on the path, as an installer would."""

    def install_package(name: str, target: str, group: str = "interleave.generators") -> None:
        site = tmp_path / f"site-{name}"
        info = site / f"{name}_box-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-box\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")
        (site / f"{name}s.py").write_text(PLUGIN)
        monkeypatch.syspath_prepend(site)

    yield install_package
    for module in ("crayons", "chalks", "solids"):
        sys.modules.pop(module, None)


def test_packages_are_looked_through_once_and_again_when_one_has_come(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[str] = []

    def noted() -> object:
        scans.append("scan")
        return distributions()

    monkeypatch.setattr(entry_points, "distributions", noted)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a new __pycache__ would look like a new package
    install("crayon", "crayons:Crayon")
    for _ in range(3):
        assert "crayon" in known_backends("generator") and "chalk" not in known_backends("generator")
    assert len(scans) == 1
    site = tmp_path / "site-crayon"
    shutil.copytree(site / "crayon_box-1.0.dist-info", site / "chalk_box-1.0.dist-info")
    declared = site / "chalk_box-1.0.dist-info" / "entry_points.txt"
    declared.write_text("[interleave.generators]\nchalk = crayons:Crayon\n")
    assert {"crayon", "chalk"} <= known_backends("generator").keys()
    assert len(scans) == 2


def test_a_name_gives_a_generator_or_a_model() -> None:
    assert isinstance(load_generator("solid?size=64"), ImageGenerator)
    assert isinstance(load_vlm("scripted", "planner"), VisionLanguageModel)
    assert isinstance(load_generator(Spec("solid", options={"size": "64"})), ImageGenerator)


def test_an_unknown_name_is_refused_with_what_is_known_and_what_was_meant() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        load_generator("sollid?delay=1")
    assert str(refusal.value).startswith("no image generator named 'sollid' (from 'sollid?delay=1'). Known: ")
    assert str(refusal.value).endswith("Did you mean 'solid'?")


def test_a_generator_is_no_vision_language_model() -> None:
    with pytest.raises(ConfigurationError, match="no vision-language model named 'solid'"):
        load_vlm("solid", "planner")


def test_an_unknown_option_is_refused_by_its_key() -> None:
    with pytest.raises(ConfigurationError, match=r"'solid' has no option 'dealy'.*Did you mean 'delay'\?"):
        load_generator("solid?dealy=0.2")


def test_every_backend_can_be_told_how_many_calls_it_takes_and_nothing_unknown() -> None:
    with pytest.raises(
        ConfigurationError, match=r"'scripted' has no option 'x'. Known: concurrency, timeout\."
    ):
        load_vlm("scripted?x=1", "planner")
    assert load_vlm("scripted?concurrency=3", "planner").capabilities.concurrency == 3
    assert load_generator("solid?concurrency=2").capabilities.concurrency == 2


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        ("solid?size=big", "size"),
        ("solid?size=63", "size"),
        ("solid?size=256.5", "size"),
        ("solid?size=1e9", "size"),
        ("solid?size=", "size"),
        ("solid?delay=-1", "delay"),
        ("solid?delay=nan", "delay"),
        ("solid?delay=inf", "delay"),
        ("solid?delay=soon", "delay"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused_with_its_key_and_value(spec: str, key: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"option '{key}' of '{spec}'")):
        load_generator(spec)


def test_a_missing_package_is_refused_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = BackendInfo("no_such_module:Thing", "needs much", needs=("json", "no_such_package"), extra="local")
    monkeypatch.setitem(registry.GENERATORS, "heavy", row)
    with pytest.raises(MissingDependency) as refusal:
        load_generator("heavy")
    assert "needs the package 'no_such_package', which is not installed" in str(refusal.value)
    assert str(refusal.value).endswith('Install it with: pip install "interleavethinker[local]"')


def test_a_missing_package_outside_our_extras_is_named_in_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(registry.VLMS, "odd", BackendInfo("nowhere:Thing", "", needs=("no_such_package",)))
    with pytest.raises(MissingDependency, match="Install it with: pip install no_such_package"):
        load_vlm("odd", "critic")


def test_nothing_is_imported_to_list_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.GENERATORS, "heavy", BackendInfo("no_such_module:Thing", "needs much"))
    assert {"heavy", "solid"} <= set(known_backends("generator"))


def test_a_backend_of_another_package_draws(install: Install) -> None:
    install("crayon", "crayons:Crayon")
    generator = load_generator("crayon?colour=blue")
    image = asyncio.run(generator.generate(ImageRequest("a line", 1)))
    assert image.getpixel((0, 0)) == (0, 0, 255)


def test_a_backend_of_another_package_is_listed_with_the_packages_name(install: Install) -> None:
    install("crayon", "crayons:Crayon")
    install("chalk", "chalks:Crayon", group="interleave.vlms")
    assert known_backends("generator")["crayon"].summary == "from the package crayon-box"
    assert known_backends("vlm")["chalk"].summary == "from the package chalk-box"


def test_an_entry_point_may_name_its_extras(install: Install) -> None:
    install("crayon", "crayons:Crayon [drawing]")
    assert isinstance(load_generator("crayon"), ImageGenerator)


def test_options_of_another_packages_backend_are_checked_too(install: Install) -> None:
    install("crayon", "crayons:Crayon")
    with pytest.raises(ConfigurationError, match=r"'crayon' has no option 'color'.*Did you mean 'colour'"):
        load_generator("crayon?color=blue")


def test_another_package_cannot_take_a_name_of_ours(install: Install) -> None:
    install("solid", "solids:Crayon")
    assert type(load_generator("solid?size=64")).__name__ == "SolidGenerator"
    assert note_for("solid", role="generator") is not None


@pytest.mark.parametrize(
    "target",
    ["no_such_module:Crayon", "crayons:Missing", "crayons", "crayons:NotABackend", "not a target", ":"],
)
def test_a_broken_package_is_refused_by_name_and_leaves_the_others_alone(
    install: Install, target: str
) -> None:
    install("crayon", target)
    with pytest.raises(ConfigurationError, match="the image generator 'crayon'"):
        load_generator("crayon")
    assert isinstance(load_generator("solid?size=64"), ImageGenerator)


def test_readers_are_told_about_doubles_and_only_about_them(install: Install) -> None:
    install("crayon", "crayons:Crayon")
    assert "no image model took part" in (note_for("solid?delay=1", role="generator") or "")
    assert "no language model took part" in (note_for("scripted", role="planner") or "")
    assert note_for("crayon", role="generator") is None
    assert note_for("unknown", role="critic") is None


def test_only_models_in_this_process_import_torch() -> None:
    remote = [
        info.target.partition(":")[0]
        for table in (registry.GENERATORS, registry.VLMS)
        for info in table.values()
        if "torch" not in info.needs
    ]
    script = f"import sys, {', '.join(remote)}; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
