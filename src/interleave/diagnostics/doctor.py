"""`interleave doctor`: the installed and missing parts, and the commands that install them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from interleave import InterleaveError, MissingDependency, __version__
from interleave.books.fonts import installed_fonts
from interleave.plugin import backends, config, entry_points, locks, options, redaction

DISTRIBUTION = "interleavethinker"
DEVELOPERS = {"dev", "docs", "strict"}
"""Extras for developers of this project."""
PURPOSES = {
    "api": "OpenAI, Gemini, ComfyUI, HTTP services",
    "books": "PDF, CBZ and PPTX",
    "local": "models in this process",
    "mcp": "documents in assistants",
    "ocr": "finding unasked writing in images",
    "postgres": "jobs on many machines",
    "provenance": "content credentials",
    "ray": "collecting and serving on a Ray cluster",
    "robots": "LeRobot data sets and their videos",
    "serve": "the generator server, the document service",
    "studio": "the studio in the browser",
    "train": "SFT and GRPO",
}
"""The purpose of each extra."""
LEAST_FREE_GIB = 5
PROGRAMS = {
    "chromium": (
        ("chromium", "chromium-browser", "google-chrome"),
        "browser tests",
        "apt-get install chromium",
    ),
    "nginx": (("nginx", "/usr/sbin/nginx"), "serve balancer", "apt-get install nginx-light"),
    "postgres": (("psql", "postgres"), "jobs on many machines", "apt-get install postgresql"),
}

_ADDRESS = re.compile(r"https?://[^\s'\"\\]+")
Status = Literal["ok", "missing", "warning", "not set"]


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    group: str
    name: str
    status: Status
    detail: str = ""
    fix: str = ""
    """The command or the instruction that fixes a problem."""


def doctor(
    profile: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE.toml", help="The models to look for. [default: the default profile]"),
    ] = None,
    json_output: options.Json = False,
) -> int:
    """Report what is installed, what is missing and how to get it; holds no keys, names or addresses.

    Paste the report into a bug report as it is. It loads no model and makes no network call.
    """
    findings = list(examine(profile))
    if json_output:
        report = {**machine(), "findings": [asdict(each) for each in findings]}
        typer.echo(anonymous(json.dumps(report, ensure_ascii=False)))
    else:
        typer.echo(anonymous("\n".join(_lines(findings))))
    return 0


def examine(profile: str | None = None) -> Iterator[Finding]:
    """Yield findings about everything that a command may need."""
    yield from _models(profile)
    yield from _extras()
    yield from _keys()
    yield from _plugins()
    yield from _gpus()
    yield from _disk()
    yield from _programs()
    yield _fonts()


def machine() -> dict[str, Any]:
    """Return the versions and the platform."""
    return {
        "interleave": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": os.cpu_count(),
        "locks": locks.has_locks(),
    }


def _models(name: str | None) -> Iterator[Finding]:
    """Yield whether the models of a profile can be loaded, without loading them."""
    try:
        profile = config.load_profile(name or config.default_profile())
    except InterleaveError as error:
        if name is not None:  # a missing profile that the user named is an error
            raise
        yield _problem("models", f"profile {config.default_profile()}", error)
        return
    for role in ("planner", "critic", "generator"):
        try:
            spec = getattr(profile, role).as_spec(role)
            backends.require_backend(spec, role)
        except InterleaveError as error:
            yield _problem("models", role, error)
        else:
            yield _downloaded(role, spec)


def _problem(group: str, name: str, error: InterleaveError) -> Finding:
    """Return an error as a finding; the command in its message is the fix."""
    said, _, command = str(error).partition("Install it with: ")
    status: Status = "missing" if isinstance(error, MissingDependency) else "warning"
    return Finding(group, name, status, said.strip(), command.partition(" (or ")[0])


def _downloaded(role: str, spec: Any) -> Finding:
    """Return whether the weights of a model from the Hub are on this disk."""
    model = spec.model or ""
    shown = f"{spec.name}:{model}".rstrip(":") + (" at a custom address" if spec.base_url else "")
    if spec.name not in ("transformers", "diffusers") or model.startswith(("/", ".")):
        return Finding("models", role, "ok", shown)
    cache = os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME", "~/.cache/huggingface"), "hub")
    if Path(cache, "models--" + model.replace("/", "--"), "snapshots").expanduser().is_dir():
        return Finding("models", role, "ok", f"{shown}, on this disk")
    return Finding(
        "models", role, "missing", f"{shown}: downloaded from the Hub at first use", f"hf download {model}"
    )


def _extras() -> Iterator[Finding]:
    """Yield the extras of this distribution, with the missing packages of each."""
    from packaging.requirements import Requirement

    try:
        described = importlib.metadata.metadata(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        yield Finding("extras", "all", "warning", "not installed as a package", "pip install -e .")
        return
    needs = [Requirement(each) for each in importlib.metadata.requires(DISTRIBUTION) or ()]
    for extra in described.get_all("Provides-Extra") or ():
        if extra in DEVELOPERS:
            continue
        lacking = [each for need in needs if _belongs(need, extra) for each in _lacking(need, needs)]
        use = PURPOSES.get(extra, "")
        if lacking:
            detail = f"{use} (needs {', '.join(sorted(set(lacking)))})"
            yield Finding("extras", extra, "missing", detail, f'pip install "{DISTRIBUTION}[{extra}]"')
        else:
            yield Finding("extras", extra, "ok", use)


def _belongs(need: Any, extra: str) -> bool:
    """Return whether a requirement comes only with this extra."""
    marker = need.marker
    return marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})


def _lacking(need: Any, needs: list[Any]) -> list[str]:
    """Return the missing or outdated packages of a requirement, following extras that name others."""
    if need.name == DISTRIBUTION:
        return [
            each
            for more in need.extras
            for other in needs
            if _belongs(other, more)
            for each in _lacking(other, needs)
        ]
    try:
        version = importlib.metadata.version(need.name)
    except importlib.metadata.PackageNotFoundError:
        return [need.name]
    return (
        []
        if need.specifier.contains(version, prereleases=True)
        else [f"{need.name}{need.specifier} ({version})"]
    )


def _keys() -> Iterator[Finding]:
    """Yield whether the key of each service is set, without its value."""
    users: dict[str, list[str]] = {}
    for kind in backends.GROUPS:
        for name, info in backends.known_backends(kind).items():
            if info.key and name not in users.setdefault(info.key, []):
                users[info.key].append(name)
    for key, names in users.items():
        is_set = bool(os.environ.get(key))
        yield Finding(
            "keys",
            key,
            "ok" if is_set else "not set",
            f"for {', '.join(names)}",
            "" if is_set else f"export {key}=…",
        )


def _plugins() -> Iterator[Finding]:
    """Yield the plugins of other packages, and whether they can be imported."""
    for group, points in sorted(entry_points.everything().items()):
        for name, point in points.items():
            package = entry_points.package_of(point)
            if package == DISTRIBUTION:
                continue
            try:
                entry_points.load(point, repr(name))
            except InterleaveError as error:
                yield Finding(
                    "plugins", f"{group}: {name}", "warning", str(error), f"pip install --upgrade {package}"
                )
            else:
                yield Finding("plugins", f"{group}: {name}", "ok", f"from {package}")


def gpus() -> list[str]:
    """Return the names of the GPUs."""
    return [each.detail for each in _gpus() if each.name.startswith(("cuda:", "mps"))]


def _gpus() -> Iterator[Finding]:
    try:
        import torch
    except Exception as error:  # a build for another machine may raise any type
        yield Finding(
            "gpu",
            "torch",
            "missing",
            f"{type(error).__name__}: {error}",
            f'pip install "{DISTRIBUTION}[local]"',
        )
        return
    yield Finding("gpu", "torch", "ok", str(torch.__version__))
    for number in range(torch.cuda.device_count()):
        memory = torch.cuda.get_device_properties(number).total_memory / 2**30
        yield Finding(
            "gpu", f"cuda:{number}", "ok", f"{torch.cuda.get_device_name(number)}, {memory:.0f} GiB"
        )
    if torch.backends.mps.is_available():
        yield Finding("gpu", "mps", "ok", "Apple GPU")
    elif not torch.cuda.device_count():
        yield Finding("gpu", "gpu", "missing", "not needed for the miniature and remote models")


def _disk() -> Iterator[Finding]:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    detail = f"{free:.0f} GiB free for runs in the current folder"
    if not os.access(Path.cwd(), os.W_OK):
        yield Finding(
            "disk", "runs", "warning", "the current folder is not writable", "choose one with --out"
        )
    else:
        yield Finding("disk", "runs", "ok" if free >= LEAST_FREE_GIB else "warning", detail)


def _programs() -> Iterator[Finding]:
    for name, (commands, use, install) in PROGRAMS.items():
        found = next(filter(None, map(shutil.which, commands)), None)
        if found:
            yield Finding("programs", name, "ok", f"for {use}")
        else:
            yield Finding("programs", name, "missing", f"for {use}", install)


def _fonts() -> Finding:
    if not entry_points.is_importable("typst"):
        return Finding("fonts", "fonts", "missing", "for PDF", 'pip install "interleavethinker[books]"')
    families = len(installed_fonts().families())
    return Finding("fonts", "fonts", "ok", f"{families} families, for PDF")


def _lines(findings: list[Finding]) -> Iterator[str]:
    host = machine()
    yield f"interleave {host['interleave']} · Python {host['python']} · {host['platform']}"
    if not host["locks"]:
        yield "this platform has no fcntl: runs need Linux or macOS (on Windows: WSL)"
    width = max(len(each.name) for each in findings)
    for group in dict.fromkeys(each.group for each in findings):
        yield f"\n{group}"
        for each in (each for each in findings if each.group == group):
            fix = f"  →  {each.fix}" if each.fix else ""
            yield f"  {each.status:8} {each.name:{width}}  {each.detail}{fix}".rstrip()


def anonymous(text: str) -> str:
    """Return the report without keys, addresses and the user's name."""
    redaction.keep_environment_secret()
    with suppress(RuntimeError):  # no home
        text = text.replace(str(Path.home()), "~")
    return redaction.redacted(_ADDRESS.sub("http://…", text), message=True)
