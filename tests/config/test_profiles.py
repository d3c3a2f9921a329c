"""Profiles: named choices of models as TOML files, and what is refused in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interleave.config.profiles import (
    DEFAULT_PROFILE,
    DRY_RUN_PROFILE,
    SHIPPED,
    Profile,
    load_profile,
    profile_files,
)
from interleave.config.run_config import SourceRule
from interleave.config.specs import Spec
from interleave.errors import ConfigurationError
from interleave.runs.resolve import Choices, choose_pack

ROLES = ("planner", "critic", "generator")


def profile(generator: str = 'spec = "solid"', head: str = "") -> Profile:
    """A profile from a file with this generator and these first lines."""
    text = f'{head}\n[planner]\nspec = "scripted"\n[critic]\nspec = "scripted"\n[generator]\n{generator}\n'
    Path("own.toml").write_text(text, "utf-8")
    return load_profile("own.toml")


@pytest.mark.parametrize("name", sorted(path.stem for path in SHIPPED.glob("*.toml")))
def test_every_shipped_profile_loads_and_names_its_models(name: str) -> None:
    loaded = load_profile(name)
    assert loaded.description
    assert all(getattr(loaded, role).as_spec(role).name for role in ROLES)


def test_the_dry_run_and_the_default_are_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {DEFAULT_PROFILE, DRY_RUN_PROFILE} <= set(profile_files())
    monkeypatch.delenv("INTERLEAVE_PROFILE")
    assert load_profile() == load_profile(DEFAULT_PROFILE)


def test_a_user_may_name_another_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLEAVE_PROFILE", "oracle")
    assert load_profile() == load_profile("oracle")
    assert Choices().profile == "oracle"


@pytest.fixture
def with_own_words(tmp_path: Path) -> Profile:
    """A profile whose models understand the pack `mini` only."""
    path = tmp_path / "own.toml"
    path.write_text(
        'prompts = "mini"\nplanner = "openai:small"\ncritic = "openai:small"\ngenerator = "mini"\n'
    )
    return load_profile(str(path))


@pytest.mark.parametrize(
    ("chosen", "pack"),
    [
        ({}, "mini"),
        ({"critic": "oracle"}, "mini"),
        ({"planner": "openai:small?concurrency=2"}, "mini"),
        ({"planner": "oracle", "critic": "openai:large@http://127.0.0.1:1/v1"}, "default"),
        ({"planner": "scripted", "critic": "scripted"}, "default"),
        ({"planner": "scripted", "critic": "scripted", "prompts": "mini"}, "mini"),
        ({"planner": object(), "critic": "oracle"}, "mini"),
    ],
)
def test_the_words_of_a_profile_go_with_its_models(
    with_own_words: Profile, chosen: dict[str, Any], pack: str
) -> None:
    words = {"prompts": None, "planner": None, "critic": None, **chosen}
    assert choose_pack(with_own_words, **words) == pack


def test_models_that_need_different_words_are_refused(with_own_words: Profile) -> None:
    with pytest.raises(ConfigurationError, match=r"the critic 'openai:small' understands .*critic=SPEC"):
        choose_pack(with_own_words, prompts=None, planner="scripted", critic=None)


@pytest.mark.parametrize(
    ("table", "spec"),
    [
        ('spec = "solid?delay=0.2"', Spec("solid", options={"delay": "0.2"})),
        ('backend = "solid"\ndelay = 0.2', Spec("solid", options={"delay": "0.2"})),
        ('spec = "solid?delay=0.2&size=64"\ndelay = 1', Spec("solid", options={"delay": "1", "size": "64"})),
        (
            'backend = "openai"\nmodel = "llama3:8b"\nbase_url = "http://h/v1"',
            Spec("openai", "llama3:8b", "http://h/v1"),
        ),
        ('spec = "openai:a@http://h"\nmodel = "b"', Spec("openai", "b", "http://h")),
        ('backend = "http"\nbase_url = "http://a:1,http://b:2"', Spec("http", None, "http://a:1,http://b:2")),
        (
            'backend = "x"\nfast = true\nslow = false\nname = "a&b=c %"',
            Spec("x", options={"fast": "true", "slow": "false", "name": "a&b=c %"}),
        ),
    ],
)
def test_a_model_is_named_by_a_spec_or_by_its_pieces(table: str, spec: Spec) -> None:
    assert profile(table).generator.as_spec("generator") == spec


def test_rules_have_defaults_and_can_be_set() -> None:
    assert profile().max_attempts == 5
    chosen = profile(head='max_attempts = 2\nmax_steps = 9\nsources = "history"\nprompts = "mine"')
    assert (chosen.max_attempts, chosen.max_steps) == (2, 9)
    assert (chosen.sources, chosen.prompts) == (SourceRule.HISTORY, "mine")


@pytest.mark.parametrize("table", ["", 'model = "m"', 'spec = "solid"\nbackend = "solid"'])
def test_a_model_needs_either_a_spec_or_a_backend(table: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"\[generator\] of a profile needs either 'spec' or 'backend'"
    ):
        profile(table).generator.as_spec("generator")


@pytest.mark.parametrize(
    "table",
    [
        'backend = "scripted"\nmodel = "./a?b.jsonl"',
        'backend = "scripted:./a.jsonl"',
        'backend = "openai"\nmodel = "m@http://h"',
        'backend = "openai"\nmodel = " m "',
        'backend = ""',
        'backend = "Solid"',
        'backend = "openai"\nmodel = "m"\nbase_url = "host:80"',
        'backend = "openai"\nmodel = "m"\nbase_url = "http://"',
        'spec = "solid?"',
    ],
)
def test_what_cannot_be_written_as_a_spec_is_refused(table: str) -> None:
    with pytest.raises(ConfigurationError):
        profile(table).generator.as_spec("generator")


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    loaded = profile('backend = "openai"\nmodel = "m"\nbase_url = "http://ann:hunter2@h"')
    with pytest.raises(ConfigurationError, match="keys come from the environment") as refusal:
        loaded.generator.as_spec("generator")
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("value", ["[1, 2]", "{a = 1}", "2024-01-01"])
def test_an_option_that_a_spec_cannot_hold_is_refused_by_its_key(value: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"\[generator\] of a profile: 'delay' must be text, a number"
    ):
        profile(f'backend = "solid"\ndelay = {value}').generator.as_spec("generator")


def test_an_unknown_key_is_refused_with_what_was_meant() -> None:
    with pytest.raises(ConfigurationError, match=r"has no key 'max_atempts'.*Did you mean 'max_attempts'\?"):
        profile(head="max_atempts = 3")


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ("max_attempts = 0", "max_attempts: input should be greater than or equal to 1"),
        ('max_attempts = "many"', "max_attempts: input should be a valid integer"),
        ('sources = "all"', "sources: input should be 'previous' or 'history'"),
        ("prompts = 3", "prompts: input should be a valid string"),
        ("max_steps = ", "is not valid TOML"),
        ("a = " + "[" * 100_000, "is not valid TOML"),
        ("!!python/object/apply:os.system ['touch executed']", "is not valid TOML"),
    ],
)
def test_a_wrong_value_is_refused_with_its_file_and_key(head: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"the profile 'own\.toml'.*{says}"):
        profile(head=head)


@pytest.mark.parametrize("role", ROLES)
def test_a_profile_without_one_of_its_models_is_refused(role: str) -> None:
    others = [other for other in ROLES if other != role]
    Path("own.toml").write_text("".join(f'{other} = "scripted"\n' for other in others), "utf-8")
    with pytest.raises(ConfigurationError, match=f"{role}: field required"):
        load_profile("own.toml")


def test_a_model_may_be_given_as_a_spec_string() -> None:
    Path("own.toml").write_text(
        'planner = "scripted"\ncritic = "scripted"\ngenerator = "solid?delay=0.5"\n', "utf-8"
    )
    assert str(load_profile("own.toml").generator.as_spec("generator")) == "solid?delay=0.5"


def test_a_typo_is_named_rather_than_what_follows_from_it() -> None:
    Path("own.toml").write_text("max_attemps = 3\n", "utf-8")
    with pytest.raises(ConfigurationError, match=r"no key 'max_attemps'.*Did you mean 'max_attempts'"):
        load_profile("own.toml")


def test_an_unknown_profile_is_refused_with_what_was_meant() -> None:
    with pytest.raises(ConfigurationError, match=r"no profile named 'dryrun'.*Did you mean 'dry-run'\?"):
        load_profile("dryrun")


def test_a_missing_file_is_refused_with_its_path() -> None:
    with pytest.raises(ConfigurationError, match=r"the profile 'no/such\.toml' does not exist"):
        load_profile("no/such.toml")


def test_a_folder_is_no_profile() -> None:
    Path("folder.toml").mkdir()
    with pytest.raises(ConfigurationError, match=r"the profile 'folder\.toml' cannot be read"):
        load_profile("folder.toml")


def test_a_profile_that_is_not_utf8_is_refused() -> None:
    Path("own.toml").write_bytes(b"description = '\xff'")
    with pytest.raises(ConfigurationError, match=r"the profile 'own\.toml' cannot be read"):
        load_profile("own.toml")


def test_a_profile_may_begin_with_a_byte_order_mark() -> None:
    profile()
    Path("own.toml").write_bytes(b"\xef\xbb\xbf" + Path("own.toml").read_bytes())
    assert load_profile("own.toml").generator.spec == "solid"


def test_a_users_profile_is_found_by_name_and_hides_a_shipped_one() -> None:
    own = Path("config/profiles")
    own.mkdir(parents=True)
    profile(head='description = "mine"')
    for name in ("mine", "dry-run"):
        (own / f"{name}.toml").write_text(Path("own.toml").read_text("utf-8"), "utf-8")
    assert load_profile("mine").description == "mine"
    assert load_profile("dry-run").description == "mine"


def test_profiles_load_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "INTERLEAVE_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert load_profile("dry-run").generator.backend == "solid"


def test_profiles_load_where_the_user_has_no_home_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "INTERLEAVE_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_000_000)
    assert "dry-run" in profile_files()
    assert load_profile("dry-run").generator.backend == "solid"
