"""The oracle agents and the painter that draws by rule: the truth, told, drawn and judged."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from PIL import Image
from samples import random_scene, scene_and

import interleave
from interleave.agents.critic import CriticInput, critic_input
from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_agent, load_generator
from interleave.cli.main import run
from interleave.config.specs import parse_spec
from interleave.errors import ConfigurationError, InputError, ReplyError
from interleave.types import Outcome, Request, Scores, Verdict
from interleave_mini.bench.tasks import SUITES
from interleave_mini.language.prompts import edit_prompt, scene_prompt
from interleave_mini.oracle import Oracle, judge_attempt
from interleave_mini.reader import shared_reader
from interleave_mini.requests import EXAMPLES, nearest_requests
from interleave_mini.world.drawing import draw
from interleave_mini.world.mistakes import (
    _misplaced,
    _missing,
    _something_extra,
    _wrong_colour,
    _wrong_kind,
    _wrong_size,
    with_mistake,
)
from interleave_mini.world.operations import Add, ChangeBackground, Move, Operation, Recolour, Remove
from interleave_mini.world.scene import Scene, Size, Thing
from interleave_mini.world_painter import WorldPainter
from miniature.grammar.tasks import parse_task, tasks

Captured = pytest.CaptureFixture[str]
ORACLE = Oracle(spec=parse_spec("oracle"), options=Oracle.Options())
FROG = "How a frog grows up, step by step, in four pictures"


def judged(seen: CriticInput) -> Verdict:
    return asyncio.run(ORACLE.judge(seen))


def scored(seen: CriticInput) -> Scores:
    return asyncio.run(ORACLE.score(seen))


def paint(spec: str, prompt: str, before: Scene | None = None, seed: int = 0) -> Image.Image:
    painter = load_generator(spec)
    assert isinstance(painter, WorldPainter)
    sources = (draw(before),) if before else ()
    return asyncio.run(painter.generate(ImageRequest(prompt, sources=sources, seed=seed)))


def painted(spec: str, prompt: str, before: Scene | None = None, seed: int = 0) -> Scene:
    """What `world` draws, read."""
    return shared_reader().read(paint(spec, prompt, before, seed)).scene


def attempt(prompt: str, shown: Scene, before: Scene | None = None, used: str | None = None) -> CriticInput:
    return critic_input(prompt, used or prompt, (draw(before),) if before else (), draw(shown))


# The planner


@pytest.mark.parametrize("suite", SUITES)
def test_the_plan_is_the_truth(suite: str) -> None:
    for task in islice(tasks(suite, "test", seed=2), 5):
        plan = asyncio.run(ORACLE.plan(task.request()))
        truth = task.plan()
        assert [step.prompt for step in plan.steps] == [step.prompt for step in truth.steps], task.text
        assert [step.number for step in plan.steps] == [step.number for step in truth.steps]
        for true_step, step in zip(task.steps, plan.steps, strict=True):
            assert all(fact.is_said_in(step.caption or "") for fact in true_step.facts)


def test_foreign_words_are_refused_by_the_planner() -> None:
    with pytest.raises(InputError, match="does not know “unicorn”"):
        asyncio.run(ORACLE.plan(Request.of("A unicorn in the meadow")))


@pytest.mark.parametrize(
    "text", ["Frog the moon grows.", "Robot frog moon", "My cat and my dog, the two of them"]
)
def test_known_words_without_a_rule_are_answered_with_examples_that_have_one(text: str) -> None:
    with pytest.raises(InputError, match=r"only wordings that it has a rule for.*--planner mini") as caught:
        asyncio.run(ORACLE.plan(Request.of(text)))
    texts = re.findall("“(.+?)”", str(caught.value).split("It can do ")[1])
    assert len(texts) == 3
    assert all(parse_task([each]).steps for each in texts)


def test_the_nearest_requests_are_offered() -> None:
    """The words that make up a topic count, not those that one of its many wordings happens to have."""
    for text, wanted in {
        "Show the phases of the sun and the moon in images": "[Mm]oon wa[nx]",
        "my frog, all of it": "frog",
        "something with a cake": "cake",
    }.items():
        assert any(re.search(wanted, each) for each in nearest_requests(text)), text


def test_where_no_word_tells_what_is_meant_examples_are_offered() -> None:
    assert nearest_requests("please do it again") == [*EXAMPLES[:3]]


# The critic


@pytest.mark.parametrize("suite", [suite for suite in SUITES if suite != "annotate"])
def test_right_images_are_accepted(suite: str) -> None:
    for task in islice(tasks(suite, "test", seed=4), 4):
        for step in task.steps:
            verdict = judged(attempt(step.prompt, step.scene, step.before))
            assert verdict.outcome is Outcome.ACCEPTED, step.prompt


MISTAKES = [_wrong_colour, _wrong_size, _missing, _wrong_kind, _misplaced, _something_extra]
EDITS = [Add, Recolour, Remove, Move, ChangeBackground]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
@pytest.mark.parametrize("kind", EDITS)
def test_every_mistake_is_rejected_and_the_refined_prompt_leads_to_the_right_image(
    kind: type[Operation], mistake: object
) -> None:
    rng = Random(f"{kind.__name__}/{mistake}"[:30])
    for _ in range(2):
        wrong = after = Scene("meadow")
        while wrong == after:
            before, operation = scene_and(kind, rng)
            after = operation.apply(before)
            wrong = mistake(after, rng) if after.things else after  # type: ignore[operator]
        verdict = judged(attempt(edit_prompt([operation], before), wrong, before))
        assert verdict.outcome is Outcome.REJECTED
        assert verdict.reasoning
        assert painted("world", verdict.refined_prompt or "", before) == after


def test_an_edit_that_was_not_made_is_rejected() -> None:
    before = Scene.of("meadow", {4: Thing("cat", "red")})
    verdict = judged(attempt("Paint the red cat blue.", before, before))
    assert verdict.outcome is Outcome.REJECTED
    assert verdict.reasoning.startswith("Wrong. ")
    assert "a red cat instead of a blue cat" in verdict.reasoning


def test_a_wrong_first_image_is_drawn_right_from_the_refined_prompt() -> None:
    rng = Random(5)
    for _ in range(5):
        target = random_scene(rng, least=1, most=6)
        wrong = with_mistake(target, rng)
        verdict = judged(attempt(scene_prompt(target), wrong))
        assert verdict.outcome is Outcome.REJECTED
        assert painted("world", verdict.refined_prompt or "") == target


def test_a_teacher_of_varied_words_is_exact_in_about_a_third_of_its_refusals() -> None:
    exact, said = 0, 0
    for task in islice(tasks("edit", "train", seed=4), 60):
        step = task.steps[0]
        assert step.before is not None
        seen = critic_input(step.prompt, step.prompt, (draw(step.before),), draw(step.before))
        first, again = (judge_attempt(seen, refine="varied").refined_prompt for _ in range(2))
        assert first == again
        plainly = judge_attempt(seen).refined_prompt
        exact += first == plainly
        said += first is not None
    assert said == 60
    assert 10 <= exact <= 32


def test_the_plan_is_judged_not_the_prompt_that_was_drawn() -> None:
    before = Scene.of("meadow", {4: Thing("cat", "red")})
    drawn = Recolour(4, "green").apply(before)
    seen = attempt("Paint the red cat blue.", drawn, before, used="Paint the red cat green.")
    assert judged(seen).outcome is Outcome.REJECTED


@pytest.mark.parametrize(
    "prompt", ["Sing a song about it.", "Remove the dog.", "", "Add a cat in the middle."]
)
def test_a_prompt_that_cannot_be_read_is_an_unreadable_outcome_and_never_a_number(prompt: str) -> None:
    scene = Scene.of("meadow", {4: Thing("cat", "red")})
    seen = attempt(prompt, scene, scene)
    assert judged(seen).outcome is Outcome.UNREADABLE
    with pytest.raises(ReplyError):
        scored(seen)


def test_the_scorer_marks_right_images_higher_than_wrong_ones() -> None:
    before = Scene.of("meadow", {4: Thing("cat", "red")})
    right, wrong = (
        scored(attempt("Paint the red cat blue.", shown, before))
        for shown in (Recolour(4, "blue").apply(before), before)
    )
    assert right.semantics == 10
    assert wrong.semantics < 5
    assert right.overall > wrong.overall


def test_an_unclear_image_is_rejected() -> None:
    before = Scene.of("meadow", {4: Thing("cat", "red")})
    after = Recolour(4, "blue").apply(before)
    between = Image.blend(draw(before), draw(after), 0.5)
    seen = replace(attempt("Paint the red cat blue.", after, before), after=between)
    assert judged(seen).outcome is Outcome.REJECTED


# The painter


def test_a_painter_that_errs_also_takes_wishes_wrongly() -> None:
    large, small = Thing("star", "green"), Thing("star", "green", Size.SMALL)
    before = Scene.of("night", {2: large, 4: small})
    drawn = [
        painted("world?mistakes=1", "Paint the large green star orange.", before, seed) for seed in range(24)
    ]
    assert before in drawn
    assert before.with_cell(4, Thing("star", "orange", Size.SMALL)) in drawn
    assert Recolour(2, "orange").apply(before) not in drawn


def test_the_world_draws_what_it_cannot_follow_as_it_is_named() -> None:
    assert painted("world", "A tale about a red cat, somewhere in the snow") == Scene.of(
        "snow", {4: Thing("cat", "red")}
    )
    assert painted("world", "Remove the dog.", Scene.of("sea", {})).background == "sea"


def test_mistakes_come_as_often_as_asked_and_half_as_often_for_exact_prompts() -> None:
    target = Scene.of("meadow", {4: Thing("cat", "red")})
    short, exact = scene_prompt(target), scene_prompt(target, exact=True)
    wrong = {
        prompt: sum(paint("world?mistakes=0.6", prompt, seed=seed) != draw(target) for seed in range(80))
        for prompt in (short, exact)
    }
    assert 34 <= wrong[short] <= 62
    assert 12 <= wrong[exact] <= 36
    assert painted("world?mistakes=1", short) != target


def test_the_same_seed_makes_the_same_mistake() -> None:
    drawn = [painted("world?mistakes=1", "A meadow with a red cat in the middle.", seed=7) for _ in range(2)]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    "spec", ["world:large", "world?mistakes=2", "world?mistake=0.1", "world@http://host"]
)
def test_a_wrong_spec_is_refused(spec: str) -> None:
    with pytest.raises(ConfigurationError):
        load_generator(spec)


# The whole loop


def test_the_whole_loop_ends_with_every_step_right() -> None:
    made = interleave.generate(
        FROG, profile="oracle", generator="world?mistakes=0.5", max_attempts=12, seed=1, out="run"
    )
    assert made.status == "done"
    assert made.record.calls.generator > len(made.steps), "no mistake was made: the test shows nothing"
    assert not any(step.forced for step in made.steps)
    truth = parse_task([FROG]).steps
    shown = [shared_reader().read(Image.open(step.image)).scene for step in made.steps if step.image]
    assert shown == [step.scene for step in truth]
    assert [step.text for step in made.steps] == [step.caption for step in truth]


def test_the_document_names_oracle_and_world() -> None:
    made = interleave.generate("Show the phases of the moon.", profile="oracle", out="run")
    page = made.document.read_text()
    assert "oracle" in page
    assert "world" in page


def test_foreign_words_end_in_exit_code_2_before_a_folder_is_made(capsys: Captured) -> None:
    code = run(["generate", "A unicorn flies to the castel", "--profile", "oracle", "--out", "run"])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    said = [line for line in err.splitlines() if line.startswith("interleave:")]
    assert len(said) == 1
    assert len(err.splitlines()) <= 2
    assert "“unicorn” (it has horse and cow)" in said[0]
    assert "“Draw a castle and a horse, then make it night.”" in said[0], "with the things it named"
    assert "Traceback" not in err
    assert not Path("run").exists()


def test_known_words_that_are_no_request_end_in_exit_code_2_with_examples(capsys: Captured) -> None:
    code = run(["generate", "Frog the moon grows", "--profile", "oracle", "--out", "run"])
    err = capsys.readouterr().err
    assert code == 2
    assert "It can do “" in err
    assert "Traceback" not in err


def test_a_page_says_that_its_painter_errs_on_purpose() -> None:
    request = "Show the phases of the moon."
    page = interleave.generate(
        request, profile="oracle", generator="world?mistakes=0.1", out="wrong"
    ).document
    assert "errs on purpose" in page.read_text("utf-8")
    page = interleave.generate(request, profile="oracle", out="right").document
    assert "errs on purpose" not in page.read_text("utf-8")


def test_a_teacher_that_errs_does_so_in_its_share_of_the_attempts_and_always_in_the_same() -> None:
    right, wrong = Scene.of("meadow", {4: Thing("cat", "red")}), Scene.of("meadow", {4: Thing("cat", "blue")})
    asked = "A meadow with a red cat in the middle."

    def judged(errs: float, scene: Scene, seed: int) -> Verdict:
        critic = load_agent(f"oracle?errs={errs}", "critic")
        return asyncio.run(critic.judge(critic_input(asked, f"{asked} {seed}", (), draw(scene))))

    assert [judged(0, scene, 0).accepted for scene in (right, wrong)] == [True, False]
    assert [judged(1, scene, 0).accepted for scene in (right, wrong)] == [False, True]
    refused = judged(1, right, 0)
    assert refused.reasoning.startswith("Wrong. ") and refused.refined_prompt
    erring = [not judged(0.3, right, seed).accepted for seed in range(60)]
    assert erring == [not judged(0.3, right, seed).accepted for seed in range(60)]
    assert 6 <= sum(erring) <= 32
