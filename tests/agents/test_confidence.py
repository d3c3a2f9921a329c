"""How sure the critic was: the probability of the one token that says true or false."""

from __future__ import annotations

import math

import pytest

from interleave.agents.critic import acceptance_probability
from interleave.agents.replies import parse_verdict
from interleave.backends.protocols import Reply, Token


def reply_of(*tokens: str | tuple[str, float]) -> Reply:
    """A reply in tokens; those given without a probability are certain."""
    pieces = tuple(Token(*((token, 1.0) if isinstance(token, str) else token)) for token in tokens)
    return Reply("".join(token.text for token in pieces), tokens=pieces)


@pytest.mark.parametrize(
    ("said", "acceptance"), [("true", 0.9), ("True", 0.9), ("false", 0.1), ("False", 0.1)]
)
@pytest.mark.parametrize(
    "key", ['"previous_step_success"', "'previous_step_success'", '"success"', "'success'"]
)
def test_the_token_that_judges_gives_the_probability_of_acceptance(key: str, said: str, acceptance: float):
    reply = reply_of("<answer>", "{", key, ":", " ", (said, 0.9), ", ", '"refine_prompt": "a whole dog"', "}")
    assert acceptance_probability(reply) == pytest.approx(acceptance)


@pytest.mark.parametrize(
    "tokens",
    [
        pytest.param(['{"success', '":', (" true", 0.8), "}"], id="with-the-space-before"),
        pytest.param(['{"success"', (": true", 0.8), "}"], id="with-the-colon-before"),
        pytest.param(['{"success"', ": ", ("true}", 0.8)], id="with-the-bracket-after"),
        pytest.param(['{"success": ', ("tr", 0.8), ("ue", 0.3), "}"], id="split-in-the-middle"),
        pytest.param(['{"success": ', ("t", 0.8), "r", "u", "e", "}"], id="letter-by-letter"),
        pytest.param(['{"succ', "ess", '"', " :\n", ("true", 0.8), "}"], id="split-key"),
        pytest.param(['{"success":', "", " ", "", ("true", 0.8), "", "}"], id="empty-tokens"),
        pytest.param([('{"success": true}', 0.8)], id="all-in-one"),
    ],
)
def test_tokens_may_be_cut_anywhere(tokens: list[str | tuple[str, float]]):
    assert acceptance_probability(reply_of(*tokens)) == pytest.approx(0.8)


def test_only_the_token_that_starts_the_judgement_counts():
    reply = reply_of(
        ("It ", 0.2), '{"success": ', ("fa", 0.7), ("lse", 0.4), (', "x": ', 0.1), ("true", 0.5), "}"
    )
    assert acceptance_probability(reply) == pytest.approx(0.3)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply('{"success": true}'), id="no-tokens"),
        pytest.param(reply_of("no ", "judgement ", "at ", "all"), id="no-key"),
        pytest.param(reply_of("success: ", ("true", 0.9)), id="key-without-quotes"),
        pytest.param(reply_of('{"success": '), id="ends-before-the-judgement"),
        pytest.param(reply_of('{"success"'), id="ends-before-the-colon"),
    ],
)
def test_without_the_token_there_is_no_probability(reply: Reply):
    assert acceptance_probability(reply) is None


@pytest.mark.parametrize("probability", [math.nan, math.inf, -0.1, 1.1])
def test_a_probability_out_of_range_is_none(probability: float):
    assert acceptance_probability(reply_of('{"success": ', ("true", probability), "}")) is None


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_the_ends_of_the_range_are_probabilities(probability: float):
    assert acceptance_probability(reply_of('{"success": ', ("true", probability), "}")) == probability


def test_of_several_judgements_the_last_one_counts():
    draft = ("<think>", '"success": ', ("true", 0.6), "? No.</think>")
    reply = reply_of(*draft, '<answer>{"previous_step_success": ', ("false", 0.9), "}</answer>")
    assert acceptance_probability(reply) == pytest.approx(0.1)
    assert not parse_verdict(reply).accepted


def test_both_spellings_of_the_key_may_stand_side_by_side():
    reply = reply_of('{"previous_step_success": ', ("true", 0.7), ', "success": ', ("true", 0.9), "}")
    assert acceptance_probability(reply) == pytest.approx(0.7)
