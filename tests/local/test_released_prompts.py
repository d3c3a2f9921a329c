"""The released checkpoints are asked exactly as in their training: what each backend sends, to the letter.

The checkout is written here, in our own words, with the structure of the real one: constants that begin and
end with a line break, slots to be replaced, answers shown as Python literals.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import interleave
from interleave.agents.prompts import load_pack
from interleave.agents.prompts.import_checkout import CRITICS, RELEASED_MODELS, import_pack
from interleave.agents.replies import render_plan, render_verdict
from interleave.config.profiles import load_profile
from interleave.errors import ConfigurationError
from interleave.images import decode_image
from interleave.local.completions import CompletionRequest
from interleave.local.decoding import Decoder
from interleave.runs import resolve as resolving
from interleave.runs.resolve import Choices, resolve
from interleave.types import Outcome, Plan, PlanStep, Verdict
from loopback import Answer, Exchange, Loopback

PLANNER_TEXT = (
    "\n# Plan the pictures\nRequest: {text_input}\n\n<answer>\n"
    "{'execution_plan': [{'step_number': 1, 'prompt': 'x', 'auxiliary_text': None}]}\n</answer>\n"
)
PLANNER_INTERLEAVED = "\nContinue or explain.\n{text_input}\nNo prefixes, please.\n</answer>\n"
CRITIC = (
    "\n# Look twice\nPlanned: {original_instruction}\nUsed: {rewritten_prompt}\n\n<answer>\n"
    "{'previous_step_success': False, 'refine_prompt': 'x'}\n</answer>\n"
)
REQUEST = "How to draw a cat, step by step?\nWith whiskers “and” a tail"
PLAN = Plan(steps=(PlanStep(number=1, instruction="A cat", prompt="a cat, in ink"),))
RED, BLUE = (Image.new("RGB", (64, 64), colour) for colour in ("red", "blue"))
PLANNER, CRITIC_MODEL = RELEASED_MODELS[:2]


@pytest.fixture
def imported() -> None:
    """The prompts of a checkout, imported as a user does it."""
    folder = Path("checkout/UEval")
    folder.mkdir(parents=True)
    constants = {
        "NARRATIVE_PROMPT_JSON": PLANNER_TEXT,
        "GUIDANCE_GLOBAL_PROMPT_JSON": PLANNER_INTERLEAVED,
        "Iterative_T2I_PROMPT_QWEN": CRITIC,
    }
    source = "\n".join(f"{name} = {text!r}" for name, text in constants.items())
    (folder / "system.py").write_text(source, "utf-8")
    import_pack(Path("checkout"), "reference")


@pytest.fixture(autouse=True)
def said_again() -> Iterator[None]:
    resolving._warn_how_to_import.cache_clear()
    yield
    resolving._warn_how_to_import.cache_clear()


def conversation(text: str, images: Sequence[Image.Image]) -> list[dict[str, Any]]:
    """One message of the user, with the images at the marks: as the reference's demo makes it."""
    content: list[dict[str, Any]] = []
    for position, piece in enumerate(re.split("<image>", text) if images else [text]):
        if piece:
            content.append({"type": "text", "text": piece})
        if position < len(images):
            content.append({"type": "image", "image": images[position]})
    return [{"role": "user", "content": content}]


def critic_text(planned: str, used: str) -> str:
    filled = CRITIC.replace("{original_instruction}", planned).replace("{rewritten_prompt}", used)
    return f"<image><image>\n{filled}"


def answering(loopback: Loopback, text: str) -> None:
    async def answer(exchange: Exchange) -> None:
        if "contents" in exchange.asked.json:
            candidate = {"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}
            await exchange.send(Answer.of({"candidates": [candidate]}))
        else:
            choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            await exchange.send(Answer.of({"choices": [choice]}))

    loopback.fails_with(answer)


def openai_content(content: Any) -> Any:
    """What a server got, with its images decoded."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        part
        if part["type"] == "text"
        else {"type": "image", "image": _decoded(part["image_url"]["url"].partition(",")[2])}
        for part in content
    ]


def gemini_content(parts: Any) -> Any:
    return [
        {"type": "text", "text": part["text"]}
        if "text" in part
        else {"type": "image", "image": _decoded(part["inlineData"]["data"])}
        for part in parts
    ]


def _decoded(text: str) -> Image.Image:
    return decode_image(base64.b64decode(text.replace("-", "+").replace("_", "/")))


def same(ours: Any, theirs: Any) -> bool:
    def comparable(parts: Any) -> list[Any]:
        return [part.get("text") or (part["image"].size, part["image"].tobytes()) for part in parts]

    return comparable(ours) == comparable(theirs)


def test_a_planner_behind_openai_gets_one_text_without_a_line_break_more(
    imported: None, loopback: Loopback
) -> None:
    answering(loopback, render_plan(PLAN))
    interleave.plan(REQUEST, profile="dry-run", planner=f"openai:{PLANNER}@{loopback.url}/v1")
    (asked,) = loopback.asked
    assert asked.json["messages"] == [
        {"role": "user", "content": PLANNER_TEXT.replace("{text_input}", REQUEST)}
    ]


def test_a_planner_behind_openai_sees_the_images_of_a_request_where_they_stand(
    imported: None, loopback: Loopback
) -> None:
    answering(loopback, render_plan(PLAN))
    request = ["Go on from ", RED, " and ", BLUE, "."]
    interleave.plan(request, profile="dry-run", planner=f"openai:{PLANNER}@{loopback.url}/v1")
    official = PLANNER_INTERLEAVED.replace("{text_input}", "Go on from <image> and <image>.")
    (message,) = loopback.asked[0].json["messages"]
    assert message["role"] == "user"
    assert same(openai_content(message["content"]), conversation(official, [RED, BLUE])[0]["content"])


def judged(spec: str, out: str, **choices: Any) -> Image.Image:
    """One step, drawn and judged; returns the image."""
    interleave.generate(
        "a cat", profile="dry-run", plan=PLAN, critic=spec, generator="solid?size=64", out=out, **choices
    )
    (path,) = Path(out, "images").glob("*.png")
    return Image.open(path).convert("RGB")


def test_a_critic_behind_openai_gets_the_pair_and_the_very_prompt(imported: None, loopback: Loopback) -> None:
    answering(loopback, render_verdict(Verdict(outcome=Outcome.ACCEPTED)))
    drawn = judged(f"openai:{CRITIC_MODEL}@{loopback.url}/v1", "run")
    (message,) = loopback.asked[0].json["messages"]
    white = Image.new("RGB", drawn.size, "white")
    official = conversation(critic_text("a cat, in ink", "a cat, in ink"), [white, drawn])
    assert message["role"] == "user"
    assert same(openai_content(message["content"]), official[0]["content"])


def test_gemini_gets_the_same_parts(imported: None, loopback: Loopback) -> None:
    answering(loopback, render_verdict(Verdict(outcome=Outcome.ACCEPTED)))
    drawn = judged(f"gemini:m@{loopback.url}", "run", prompts="reference")
    (content,) = loopback.asked[0].json["contents"]
    white = Image.new("RGB", drawn.size, "white")
    official = conversation(critic_text("a cat, in ink", "a cat, in ink"), [white, drawn])
    assert same(gemini_content(content["parts"]), official[0]["content"])
    assert "systemInstruction" not in loopback.asked[0].json


@pytest.fixture
def tokenised(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Decoder, list[int]]]:
    """The tokens of every prompt that a local model reads from now on."""
    seen: list[tuple[Decoder, list[int]]] = []
    inputs = Decoder._inputs

    def recorded(self: Decoder, requests: Sequence[CompletionRequest]) -> dict[str, Any]:
        read = inputs(self, requests)
        seen.append((self, read["input_ids"][0].tolist()))
        return read

    monkeypatch.setattr(Decoder, "_inputs", recorded)
    return seen


def tokens_of(decoder: Decoder, official: list[dict[str, Any]]) -> list[int]:
    inputs = decoder.processor.apply_chat_template(
        official, tokenize=True, add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )
    return list(inputs["input_ids"][0].tolist())


def test_a_local_copy_of_the_planner_reads_the_official_tokens(
    imported: None, toy_vlm: Callable[[str | None], Path], tokenised: list[tuple[Decoder, list[int]]]
) -> None:
    Path("models").mkdir()
    Path("models/InterleaveThinker-Planner-8B").symlink_to(toy_vlm("planner"))
    spec = "transformers:./models/InterleaveThinker-Planner-8B?batch=1"
    interleave.plan(REQUEST, profile="dry-run", planner=spec)
    decoder, ids = tokenised[-1]
    official = PLANNER_TEXT.replace("{text_input}", REQUEST)
    assert ids == tokens_of(decoder, conversation(official, []))


def test_a_local_copy_of_the_critic_reads_the_official_tokens(
    imported: None, toy_vlm: Callable[[str | None], Path], tokenised: list[tuple[Decoder, list[int]]]
) -> None:
    Path("models").mkdir()
    Path("models/InterleaveThinker-Critic-8B").symlink_to(toy_vlm("critic"))
    drawn = judged("transformers:./models/InterleaveThinker-Critic-8B?batch=1", "run")
    decoder, ids = tokenised[0]
    white = Image.new("RGB", drawn.size, "white")
    official = conversation(critic_text("a cat, in ink", "a cat, in ink"), [white, drawn])
    assert ids == tokens_of(decoder, official)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("demo", "{{before}}{{after}}\n\n# Look twice"),
        ("ueval", "{{before}}{{after}}\n# Look twice"),
        ("rl", "{{before}}{{after}}\n# Look twice"),
    ],
)
def test_the_line_breaks_of_the_critics_prompt_can_be_those_of_training(
    imported: None, form: str, text: str
) -> None:
    pack, _ = import_pack(Path("checkout"), "other", critic=form)
    assert pack.texts["critic"].startswith(text)
    assert pack.texts["critic"].endswith("</answer>" if form == "rl" else "</answer>\n")


def test_an_unknown_form_of_the_critics_prompt_is_refused(imported: None) -> None:
    with pytest.raises(ConfigurationError, match="no critic prompt 'sft'"):
        import_pack(Path("checkout"), "other", critic="sft")
    assert list(CRITICS) == ["demo", "ueval", "rl"]


PROFILES = ("klein", "klein-quick", "klein-4b", "qwen-edit", "nano-banana-pro", "vllm")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_of_released_checkpoints_uses_the_imported_pack(imported: None, profile: str) -> None:
    config, pack = resolve(Choices(profile=profile))
    assert (pack.name, config.prompts.name) == ("reference", "reference")
    assert resolve(Choices(profile=profile, prompts="default"))[1].name == "default"


@pytest.mark.parametrize("profile", PROFILES)
def test_without_it_one_line_says_how_to_import_it(profile: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert resolve(Choices(profile=profile))[1].name == "default"
    (record,) = caplog.records
    assert "interleave models prompts import CHECKOUT" in record.getMessage()
    assert "\n" not in record.getMessage()


@pytest.mark.parametrize("profile", ["dry-run", "mini", "oracle", "openai", "nano-banana"])
def test_other_models_are_asked_as_before(
    imported: None, profile: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert resolve(Choices(profile=profile))[1].name == load_profile(profile).prompts
    assert not caplog.records


def test_prompts_that_are_named_are_used_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    assert resolve(Choices(profile="klein", prompts="default"))[1].name == "default"
    assert not caplog.records


def test_one_released_checkpoint_is_enough(imported: None) -> None:
    chosen = Choices(profile="dry-run", planner=f"openai:{PLANNER}@http://127.0.0.1:1/v1", critic="openai:m")
    assert resolve(chosen)[1].name == "reference"


def test_a_pack_says_which_models_it_is_for_and_a_broken_one_is_passed_over(imported: None) -> None:
    broken, own = Path("config/prompts/broken"), Path("config/prompts/own")
    for folder in (broken, own):
        folder.mkdir()
    (broken / "pack.toml").write_text("name = ")
    (own / "pack.toml").write_text(
        'name = "own"\nversion = "1"\nextends = "reference"\nmodels = ["me/my-planner"]\n'
    )
    assert resolve(Choices(profile="dry-run", planner="openai:somebody/My-Planner"))[1].name == "own"
    assert load_pack("own").answers == load_pack("reference").answers == "python"
    assert load_pack().answers == "json"


def test_nano_banana_pro_sees_all_earlier_images() -> None:
    config, _ = resolve(Choices(profile="nano-banana-pro"))
    assert config.sources == "history" and config.generator.spec.startswith("gemini:gemini-3-pro-image")
    assert resolve(Choices(profile="nano-banana"))[0].sources == "previous"
