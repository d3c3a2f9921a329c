"""Temperature and its like, as options of a spec: sent, recorded, and refused where they would do nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import interleave
from interleave.backends.protocols import Message, Sampling
from interleave.backends.registry import check_agent, load_vlm
from interleave.errors import ConfigurationError
from interleave.types import Text
from loopback import Loopback

HELLO = (Message("user", (Text("hello"),)),)
FIELDS = {"temperature", "top_p", "top_k", "seed"}


def asked(loopback: Loopback, spec: str, sampling: Sampling = Sampling()) -> dict[str, Any]:
    loopback.asked.clear()
    asyncio.run(load_vlm(spec.format(url=loopback.url), "critic").complete(HELLO, sampling))
    return dict(loopback.asked[0].json)


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ("", {"temperature": 0.0}),
        ("?temperature=0.7", {"temperature": 0.7}),
        ("?temperature=0.7&top_p=0.9", {"temperature": 0.7, "top_p": 0.9}),
        ("?temperature=1&top_k=40&seed=7", {"temperature": 1.0, "top_k": 40, "seed": 7}),
        ("?temperature=omit&top_p=0.9", {"top_p": 0.9}),
        ("?temperature=send", {"temperature": 0.0}),
        ("?temperature=0", {"temperature": 0.0}),
    ],
)
def test_openai_is_sent_what_the_spec_says(loopback: Loopback, options: str, sent: dict[str, Any]) -> None:
    question = asked(loopback, f"openai:m@{{url}}/v1{options}")
    assert {name: question[name] for name in FIELDS & question.keys()} == sent


def test_a_reasoning_model_is_sent_a_temperature_only_where_one_is_named(loopback: Loopback) -> None:
    assert not FIELDS & asked(loopback, "openai:gpt-5@{url}/v1").keys()
    assert asked(loopback, "openai:gpt-5@{url}/v1?temperature=0.5")["temperature"] == 0.5


def test_gemini_is_sent_what_the_spec_says(loopback: Loopback) -> None:
    config = asked(loopback, "gemini:m@{url}?temperature=0.7&top_p=0.9&top_k=40&seed=7")["generationConfig"]
    assert [config[name] for name in ("temperature", "topP", "topK", "seed")] == [0.7, 0.9, 40, 7]
    plain = asked(loopback, "gemini:m@{url}")["generationConfig"]
    assert plain["temperature"] == 0 and not {"topP", "topK", "seed"} & plain.keys()


@pytest.mark.parametrize("spec", ["openai:m@{url}/v1", "gemini:m@{url}"])
def test_what_a_caller_chose_itself_is_kept(loopback: Loopback, spec: str) -> None:
    question = asked(loopback, f"{spec}?temperature=0.2&top_p=0.5", Sampling(temperature=1.0))
    fields = question.get("generationConfig", question)
    assert fields["temperature"] == 1.0
    assert not {"topP", "top_p"} & fields.keys()


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("openai:m?top_p=0.9", "'top_p'.*without a temperature above 0"),
        ("openai:m?temperature=0&seed=7", "'seed'.*without a temperature above 0"),
        ("gemini:m?top_k=5", "'top_k'.*without a temperature above 0"),
        ("transformers:m?top_p=0.9", "'top_p'.*without a temperature above 0"),
        ("openai:m?temperature=warm", "'temperature"),
        ("openai:m?temperature=3", "'temperature"),
        ("gemini:m?temperature=-1", "'temperature'"),
        ("transformers:m?temperature=1&top_p=0", "'top_p'"),
        ("scripted?temperature=0.7", "'scripted' has no option 'temperature'"),
        ("none?temperature=0.7", "'none' has no option 'temperature'"),
    ],
)
def test_what_would_do_nothing_is_refused_before_anything_is_loaded(spec: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        check_agent(spec, "planner")


@pytest.mark.parametrize(
    "spec",
    [
        "openai:m?temperature=1&top_k=5",
        "openai:m@https://x.openai.azure.com/openai/deployments/d?api_version=1&temperature=1&top_k=5",
    ],
)
def test_a_vendor_without_top_k_is_not_sent_one(spec: str) -> None:
    with pytest.raises(ConfigurationError, match="have no top_k"):
        load_vlm(spec, "planner")


def test_a_run_records_how_its_models_were_sampled(loopback: Loopback) -> None:
    spec = f"openai:m@{loopback.url}/v1?temperature=0.7&top_p=0.9"
    interleave.generate("A boat in 2 pictures", profile="dry-run", planner=spec, critic=spec, out="run")
    text = json.dumps(json.loads(Path("run/run.json").read_text("utf-8")))
    assert text.count("?temperature=0.7&top_p=0.9") >= 2
    assert {question.json["temperature"] for question in loopback.asked} == {0.7}
    assert {question.json["top_p"] for question in loopback.asked} == {0.9}
    other = spec.replace("0.7", "0.8")
    with pytest.raises(interleave.InterleaveError, match="planner"):
        interleave.generate("A boat in 2 pictures", profile="dry-run", planner=other, critic=spec, out="run")
