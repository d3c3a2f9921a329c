"""Keys are struck out of texts in every form, and words that are none are left alone."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from interleave import redaction
from interleave.cli import main
from interleave.redaction import RedactingFormatter, keep_secret, redacted, redacted_model, secret_in
from interleave.types import Plan, PlanStep

KEY = 'sk-a"b\\c/d+e=f?1f8e2d7c4b3a5968-the-end'


@pytest.fixture(autouse=True)
def only_this_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(redaction, "_SECRETS", {})
    keep_secret(KEY, "MY_KEY")
    yield


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FORMS = {
    "plain": KEY,
    "in an address": quote(KEY, safe=""),
    "in JSON": json.dumps(KEY),
    "base64": encoded(KEY),
    "base64 without padding": encoded(KEY).rstrip("="),
    "base64 of base64": encoded(encoded(KEY)),
    "base64 of a header": encoded(f"Authorization: Bearer {KEY}"),
    "base64 of a password": encoded(f"x:{KEY}"),
    "base64 with more behind it": encoded(f"xy{KEY} and so on"),
    "base64 for addresses": base64.urlsafe_b64encode(f"xy{KEY}???>>>".encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_struck_out_in_every_form(form: str) -> None:
    clean = redacted(f"it says {FORMS[form]} and goes on")
    assert clean.startswith("it says ") and clean.endswith(" and goes on")
    assert "[key]" in clean
    assert len(clean) < len("it says [key] and goes on") + 44  # what stood beside it in the same base64


def test_of_a_message_the_ends_of_a_key_are_struck_too_as_far_as_they_are_shown() -> None:
    said = f"wrong key {KEY[:20]}…{KEY[-9:]}, {KEY[:8]}"
    assert redacted(said, message=True) == "wrong key [key]…[key], [key]"
    assert redacted(said) == said, "in what a model writes, the first letters of a key may be a word"


@pytest.mark.parametrize("stand_in", ["EMPTY", "ollama", "anything", "not-needed"])
def test_a_stand_in_for_a_key_is_left_alone_in_what_models_write(stand_in: str) -> None:
    keep_secret(stand_in, "OPENAI_API_KEY")
    assert redacted(f"do not change {stand_in} else") == f"do not change {stand_in} else"
    assert secret_in(stand_in) is None


def test_a_short_key_is_struck_out_of_messages() -> None:
    keep_secret("hunter2hunter", "A")
    keep_secret("hunter22", "B")
    assert redacted("Bearer hunter22", message=True) == "Bearer [key]"


def test_every_text_of_a_value_is_rid_of_keys_and_others_are_not_touched() -> None:
    step = PlanStep(number=1, caption=f"say {KEY}", prompt=f"draw {KEY}")
    plan = Plan(steps=(step,))
    assert redacted_model(plan).steps[0] == PlanStep(number=1, caption="say [key]", prompt="draw [key]")
    other = Plan(steps=(PlanStep(number=1, caption="say", prompt="draw"),))
    assert redacted_model(other) is other


def test_which_key_it_was_is_known() -> None:
    assert secret_in(f"my key is {KEY}") == "MY_KEY"
    assert secret_in("nothing") is None


def test_log_lines_and_tracebacks_are_rid_of_keys() -> None:
    try:
        raise ValueError(f"Bearer {KEY}")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, "x", 1, "it failed with %s", (KEY,), info)
    text = RedactingFormatter("%(message)s").format(record)
    assert "it failed with [key]" in text and "ValueError: Bearer [key]" in text
    assert "1f8e2d7c" not in text


def test_the_command_line_logs_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    main._root()
    (handler,) = root.handlers
    assert isinstance(handler.formatter, RedactingFormatter)
