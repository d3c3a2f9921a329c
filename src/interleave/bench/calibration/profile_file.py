"""Write a critic's strictness into a profile, leaving the rest of the file unchanged.

No dependency writes TOML with comments, so the line is edited as text. The file is then read again to verify
the result.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from interleave import ConfigurationError
from interleave.plugin import Spec, agents, config, files, make_folder, parse_spec, read_text, write_atomic

_INLINE = re.compile(r"^critic\s*=.*$", re.MULTILINE)
_TABLE = re.compile(r"^\[critic\][^\n]*\n", re.MULTILINE)
_NEXT_TABLE = re.compile(r"^\[", re.MULTILINE)
_STRICT = re.compile(r"^strict\s*=[^\n]*\n?", re.MULTILINE)


def profile_path(name: str) -> Path:
    """Return the writable file of a profile: a `.toml` path, or the user's profile of this name."""
    if name.endswith(".toml"):
        return Path(name)
    own = config.config_folder()
    if own is None:
        raise ConfigurationError(f"no configuration folder for profiles: use --profile ./{name}.toml")
    return own / "profiles" / f"{name}.toml"


def write_strictness(name: str, strict: float, critic: str | None) -> Path:
    """Set the critic's strictness in a profile; return its file.

    A missing profile is created as a copy of the shipped profile of that name, or of the default with this
    critic.
    """
    path = profile_path(name)
    base = path if path.exists() else config.profile_files().get(Path(name).stem) or _default_file()
    text = read_text(base)
    profile = config.load_profile(str(base))
    own = profile.critic.as_spec("critic")
    spec = own if critic is None else parse_spec(critic)
    # a profile's prompts fit its models: only the default's prompts work with any critic
    if _model(spec) != _model(own) and (path.exists() or profile.prompts != agents.DEFAULT_PACK):
        raise ConfigurationError(
            f"the critic of {base} is {str(own)!r}, not {str(spec)!r}: name a profile with this critic, or "
            f"edit {path} by hand"
        )
    written = _with_strictness(text, spec if _model(spec) != _model(own) else None, strict)
    found = config.Profile.model_validate(files.parse_toml(written)).critic.as_spec("critic")
    if _model(found) != _model(spec) or found.options.get("strict") != repr(strict):
        raise ConfigurationError(f"cannot edit the critic of {base}: add strict = {strict!r} to it by hand")
    make_folder(path.parent)
    write_atomic(path, written.encode())
    return path


def _default_file() -> Path:
    name = config.default_profile()
    return Path(name) if name.endswith(".toml") else config.profile_files()[name]


def _model(spec: Spec) -> tuple[str, str | None, str | None]:
    return spec.name, spec.model, spec.base_url


def _with_strictness(text: str, critic: Spec | None, strict: float) -> str:
    """Return the text with the strictness set. A new critic replaces the existing table or line."""
    if (table := _TABLE.search(text)) is not None:
        following = _NEXT_TABLE.search(text, table.end())
        end = following.start() if following else len(text)
        body = text[table.end() : end] if critic is None else f'spec = "{_plain(critic)}"\n'
        body = f"strict = {strict!r}\n" + _STRICT.sub("", body)
        gap = "\n" if following and not body.endswith("\n\n") else ""
        return text[: table.end()] + body + gap + text[end:]
    inline = _INLINE.search(text)
    if inline is None:
        return text
    spec = critic or parse_spec(_quoted(inline[0]))
    changed = replace(spec, options={**spec.options, "strict": repr(strict)})
    return f'{text[: inline.start()]}critic = "{changed}"{text[inline.end() :]}'


def _plain(spec: Spec) -> Spec:
    return replace(spec, options={key: spec.options[key] for key in spec.options if key != "strict"})


def _quoted(line: str) -> str:
    found = re.search(r"[\"']([^\"']*)[\"']", line)
    if found is None:
        raise ConfigurationError(f"cannot edit the line {line!r} of the profile: add strict by hand")
    return found[1]
