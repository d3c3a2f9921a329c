"""Safety checks: what is refused is said, and neither drawn, stored nor shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from interleave import (
    BackendError,
    ConfigurationError,
    CriticInput,
    GeneratorCapabilities,
    ImageRequest,
    InputError,
    Outcome,
    Plan,
    PlanStep,
    Verdict,
    generate,
    load_generator,
    read_record,
)
from interleave.agents.safety import Safety
from interleave.cli.main import run as command
from interleave.runs.permissions import required_permissions
from interleave.safety.ask import AskModel
from interleave.safety.words import WordRules

RULES = Path(__file__).parents[2] / "examples" / "safety.toml"
SPEC = f"words:{RULES}"


def images_in(run: Path) -> list[Path]:
    return sorted((run / "images").glob("*")) if (run / "images").exists() else []


def test_a_refused_request_is_said_and_nothing_is_drawn(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [
        "generate",
        "a soldier with a gun",
        "--dry-run",
        "--out",
        str(tmp_path / "run"),
        "--safety",
        SPEC,
    ]
    assert command(words) == 2
    said = capfd.readouterr().err
    assert "the request was refused by the safety check" in said and "'gun' is about violence" in said
    assert images_in(tmp_path / "run") == []


def test_a_refused_plan_is_not_drawn(tmp_path: Path) -> None:
    plan = Plan(
        steps=(PlanStep(number=1, prompt="a hill"), PlanStep(number=2, prompt="a massacre on the hill"))
    )
    with pytest.raises(InputError, match=r"the plan was refused .*'massacre' is about violence"):
        generate("hills", plan=plan, profile="dry-run", safety=[SPEC], out=tmp_path / "run")
    assert images_in(tmp_path / "run") == []


class WorseningCritic:
    """Refines each prompt into one that the rules refuse."""

    async def judge(self, seen: CriticInput) -> Verdict:
        return Verdict(outcome=Outcome.REJECTED, reasoning="no", refined_prompt="the same with a rifle")


def test_a_refused_image_is_neither_stored_nor_shown(tmp_path: Path) -> None:
    plan, run = Plan(steps=(PlanStep(number=1, prompt="a hill"),)), tmp_path / "run"
    options = {"profile": "dry-run", "generator": "solid?size=64", "critic": WorseningCritic()}
    with pytest.raises(BackendError, match="the image was refused") as refused:
        generate("hills", plan=plan, safety=[SPEC], out=run, **options)  # type: ignore[arg-type]
    assert refused.value.kind == "refused"
    record = read_record(run)
    assert record.status == "failed" and "'rifle' is about violence" in record.reason
    assert (len(record.steps[0].attempts), len(images_in(run))) == (1, 1)


def test_checks_are_part_of_the_run_and_hold_when_it_is_continued(tmp_path: Path) -> None:
    plan, run = Plan(steps=(PlanStep(number=1, prompt="a hill"),)), tmp_path / "run"
    generate("hills", plan=plan, profile="dry-run", generator="solid?size=64", safety=[SPEC], out=run)
    assert read_record(run).config.safety == (SPEC,)
    redraw = ["edit", str(run), "redraw", "1", "--prompt", "a pistol on the hill"]
    assert command(redraw) == 3
    assert "'pistol' is about violence" in read_record(run).reason
    assert [each.prompt for each in read_record(run).steps[0].attempts] == ["a hill"]


def test_the_checks_of_a_profile_come_first_and_cannot_be_dropped(tmp_path: Path) -> None:
    profile = tmp_path / "service.toml"
    profile.write_text(
        f'safety = ["{SPEC}"]\n[planner]\nbackend = "scripted"\n[critic]\nbackend = "scripted"\n'
        '[generator]\nbackend = "solid"\n',
        "utf-8",
    )
    with pytest.raises(InputError, match="refused by the safety check"):
        generate("a nazi parade", profile=str(profile), safety=(), out=tmp_path / "run")


def test_a_model_asked_by_a_run_folder_needs_the_same_permissions(tmp_path: Path) -> None:
    plan, run = Plan(steps=(PlanStep(number=1, prompt="a hill"),)), tmp_path / "run"
    generate("hills", plan=plan, profile="dry-run", generator="solid?size=64", out=run)
    config = read_record(run).config
    spec = "ask:openai:m@https://elsewhere.example/v1?key=SECRET_KEY"
    assert required_permissions(config) == ()
    (asked,) = required_permissions(config.model_copy(update={"safety": (spec,)}))
    assert "SECRET_KEY" in asked.text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("A MÚRDER in the village", "violence"),
        ("two guns\nand a cake", "violence"),
        ("self\n harm", "self-harm"),
        ("a glue gun and a water gun", None),
        ("the begun work of a gunge machine", None),
        ("seeds shoot, a candle dies, a knight has a sword", None),
        ("naked mole rats seen with the naked eye", None),
        ("", None),
    ],
)
def test_word_rules_find_whole_words_with_endings_and_know_harmless_phrases(
    text: str, problem: str | None
) -> None:
    found = WordRules(str(RULES)).problem_with(text)
    assert found is None if problem is None else found and found.endswith(f"is about {problem}")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "has no words"),
        ("[refuse]\nx = 3", "needs lists of words"),
        ("[refuse]\nx = ['']", "needs lists of words"),
        ("[deny]\nx = ['a']", r"no table \[deny\]"),
        ("refuse = ", "cannot be read"),
    ],
)
def test_bad_rules_are_refused_with_the_reason(content: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(content, "utf-8")
    with pytest.raises(ConfigurationError, match=reason):
        Safety([f"words:{path}"])


def test_unknown_checks_and_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no check 'word'.*words"):
        Safety(["word:x"])
    with pytest.raises(ConfigurationError, match="no such file"):
        Safety([f"words:{tmp_path / 'missing.toml'}"])


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ('{"allowed": true, "reason": ""}', None),
        ('<think>hm</think><answer>{"allowed": false, "reason": "blood"}</answer>', "blood"),
    ],
)
def test_a_model_answers_with_its_reason(reply: str, problem: str | None, tmp_path: Path) -> None:
    assert asyncio.run(asked(reply, tmp_path).problem("request", "x", ())) == problem


def asked(reply: str, tmp_path: Path, times: int = 1) -> AskModel:
    script = tmp_path / "script.jsonl"
    script.write_text(f"{json.dumps({'text': reply})}\n" * times, "utf-8")
    return AskModel(f"scripted:{script}")


@pytest.mark.parametrize("reply", ["yes", '{"allowed": "yes"}', '{"allowed": true} {"allowed": false}'])
def test_an_answer_that_cannot_be_read_refuses(reply: str, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="gave no answer"):
        asyncio.run(asked(reply, tmp_path, times=4).problem("image", "x", ()))


class WritingPainter:
    """Writes words into the first image that it is asked for, as generators do unasked."""

    capabilities = GeneratorCapabilities(max_sources=1)

    def __init__(self) -> None:
        self.painter, self.drawn = load_generator("solid?size=512"), 0

    async def generate(self, request: ImageRequest) -> Image.Image:
        image = Image.new("RGB", (512, 512), "teal")
        self.drawn += 1
        if self.drawn == 1:
            ImageDraw.Draw(image).text((30, 200), "This is correct.", fill="white", font_size=52)
        return image


@pytest.mark.slow
def test_an_image_with_unasked_writing_is_drawn_again_before_the_critic_sees_it(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr", reason="the extra [ocr] is not installed")
    seen: list[str] = []

    class Noting:
        async def judge(self, given: CriticInput) -> Verdict:
            seen.append(given.prompt)
            return Verdict(outcome=Outcome.ACCEPTED)

    plan = Plan(steps=(PlanStep(number=1, prompt="a hill"),))
    run = generate(
        "hills",
        plan=plan,
        profile="dry-run",
        generator=WritingPainter(),
        critic=Noting(),
        safety=["writing"],
        out=tmp_path / "run",
    )
    first, second = run.record.steps[0].attempts
    assert first.verdict and "writing that nobody asked for: 'This is correct" in first.verdict.reasoning
    assert second.verdict and second.verdict.accepted
    assert len(seen) == 1


class Broken:
    async def problem(self, subject: str, text: str, images: Sequence[Image.Image]) -> str | None:
        raise ZeroDivisionError("oops")


def test_a_check_that_fails_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interleave.agents.safety._loaded", lambda spec: Broken())
    with pytest.raises(BackendError, match="the safety check 'broken' failed: ZeroDivisionError"):
        generate("hills", profile="dry-run", safety=["broken"], out=tmp_path / "run")
    assert images_in(tmp_path / "run") == []
