"""Spec strings: what they mean, that they survive being written down, and what is refused."""

from __future__ import annotations

import string

import pytest

from interleave.config.specs import Spec, parse_spec
from interleave.errors import ConfigurationError

READ = {
    "solid": Spec("solid"),
    "solid?delay=0.2": Spec("solid", options={"delay": "0.2"}),
    "solid?delay=": Spec("solid", options={"delay": ""}),
    "openai-images:gpt-image-1": Spec("openai-images", "gpt-image-1"),
    "diffusers:black-forest-labs/FLUX.2-klein-9B?steps=4": Spec(
        "diffusers", "black-forest-labs/FLUX.2-klein-9B", options={"steps": "4"}
    ),
    "openai:llama3:8b": Spec("openai", "llama3:8b"),
    "openai:llama3:8b@http://h/v1": Spec("openai", "llama3:8b", "http://h/v1"),
    "openai:qwen3-vl@https://host:8000/v1?x=1": Spec(
        "openai", "qwen3-vl", "https://host:8000/v1", {"x": "1"}
    ),
    "openai:m@HTTP://Host/v1": Spec("openai", "m", "HTTP://Host/v1"),
    "openai:m@http://[::1]:8000/v1": Spec("openai", "m", "http://[::1]:8000/v1"),
    "openai:claude@20240620": Spec("openai", "claude@20240620"),
    "openai@http://h/v1": Spec("openai", None, "http://h/v1"),
    "scripted:./replies.jsonl": Spec("scripted", "./replies.jsonl"),
    "scripted:/home/me@work/two words.jsonl": Spec("scripted", "/home/me@work/two words.jsonl"),
    "scripted:../a@host:80/b": Spec("scripted", "../a@host:80/b"),
    "scripted:./كتاب.jsonl": Spec("scripted", "./كتاب.jsonl"),
    "http://host:8011": Spec("http", None, "http://host:8011"),
    "http://a:8011,http://b:8012?steps=4": Spec("http", None, "http://a:8011,http://b:8012", {"steps": "4"}),
    "http": Spec("http"),
    "http:m@http://h": Spec("http", "m", "http://h"),
    "solid?a=x%26y%3Dz%25": Spec("solid", options={"a": "x&y=z%"}),
    "solid?a=b+c": Spec("solid", options={"a": "b+c"}),
    "solid?a=b=c?d": Spec("solid", options={"a": "b=c?d"}),
    "solid?a=100%": Spec("solid", options={"a": "100%"}),
    "  solid?delay=1  ": Spec("solid", options={"delay": "1"}),
    "http://a:1, http://b:2": Spec("http", None, "http://a:1,http://b:2"),
}


@pytest.mark.parametrize("text", READ)
def test_a_spec_means_what_its_grammar_says(text: str) -> None:
    assert parse_spec(text) == READ[text]


@pytest.mark.parametrize("text", READ)
def test_a_spec_that_is_written_down_reads_the_same_again(text: str) -> None:
    assert parse_spec(str(parse_spec(text))) == READ[text]


@pytest.mark.parametrize(
    "text",
    [
        "solid",
        "solid?delay=0.2&size=256",
        "openai:llama3:8b@http://h/v1",
        "scripted:./a@b.jsonl",
        "http://a:1,http://b:2",
    ],
)
def test_a_plain_spec_is_written_exactly_as_it_was_given(text: str) -> None:
    assert str(parse_spec(text)) == text


@pytest.mark.parametrize(
    "value",
    [
        string.printable,
        " leading and trailing ",
        "a&b=c?d#e%41+f;g",
        "@http://u:p@h",
        "Größe 大小 حجم 👩‍👩‍👧",
        "",
        "%",
        "%%20",
        "\n",
    ],
)
def test_any_option_value_survives_being_written_down(value: str) -> None:
    spec = Spec("solid", "./m", "http://h", {"key": value, "ü &=": value})
    assert parse_spec(str(spec)) == spec


def test_options_are_written_in_one_order_so_that_equal_specs_are_equal_text() -> None:
    assert str(parse_spec("solid?size=64&delay=1")) == str(parse_spec("solid?delay=1&size=64"))


@pytest.mark.parametrize(
    "text", ["", "   ", "\n", "?a=1", "@http://h", ":m", "Solid", "so lid", "solid ?a=1", "3d"]
)
def test_what_is_not_a_spec_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a backend spec: write name\[:model\]"):
        parse_spec(text)


@pytest.mark.parametrize("text", ["openai:", "openai:@http://h/v1", "openai:?a=1", "openai:  @http://h/v1"])
def test_a_colon_without_a_model_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="no model after it"):
        parse_spec(text)


@pytest.mark.parametrize(
    "text", ["solid?", "solid?delay", "solid?a=1&", "solid?&a=1", "solid?=1", "solid?a=1&&b=2"]
)
def test_a_broken_query_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="are not key=value pairs joined by '&'"):
        parse_spec(text)


@pytest.mark.parametrize("text", ["solid?size=64&size=128", "solid?size=64&s%69ze=64"])
def test_an_option_given_twice_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"the option 'size' of .* is given twice"):
        parse_spec(text)


@pytest.mark.parametrize("text", ["solid?a=%ff", "solid?a=%ed%a0%80"])
def test_percent_codes_that_are_not_text_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        parse_spec(text)


@pytest.mark.parametrize("text", ["solid?a=%00", "scripted:./a\x00b", "scripted:./a\udcff"])
def test_characters_that_cannot_be_stored_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be used"):
        parse_spec(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://",
        "http:///v1",
        "http://a,",
        "http://a,b:80",
        "http://a,ftp://b",
        "http://a:port",
        "http://a:99999",
        "http://[::1",
        "http://a b/v1",
        "openai:m@http://",
        "openai:m@https://:80",
    ],
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is invalid: write e\.g\. http://host:8000/v1"):
        parse_spec(text)


@pytest.mark.parametrize(
    "text", ["openai:m@localhost:8000/v1", "openai:m@127.0.0.1:80", "openai:m@localhost", "openai:m@"]
)
def test_an_address_without_its_scheme_is_not_taken_for_a_models_name(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"write e\.g\. @http://host:8000/v1"):
        parse_spec(text)


@pytest.mark.parametrize(
    "text",
    [
        "openai:m@http://ann:hunter2@host/v1",
        "openai:m@http://:hunter2@host/v1",
        "openai:m@http://hunter2@host/v1",
        "http://ann:hunter2@host",
        "http://a:1,http://ann:hunter2@b:2",
        "http://ann:hunter2@",
        "http://ann:hunter2@host:port",
        "http://ann:hunter2/x@host",
        "http://ann:hunter2?x@host",
        "http://ann:hunter2?x=y@host",
        "openai:m@http://ann:hunter2@host?broken",
        "Openai:m@http://ann:hunter2@host",
        "openai:@http://ann:hunter2@host",
        "openai:m@ann:hunter2@host:80",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        parse_spec(text)
    assert "hunter2" not in str(refusal.value)


def test_the_refusal_of_a_password_says_where_keys_come_from() -> None:
    with pytest.raises(ConfigurationError, match="keys come from the environment, never from a spec"):
        parse_spec("openai:m@http://ann:hunter2@host/v1")
