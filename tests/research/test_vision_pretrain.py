"""Untrained agents, and their vision pretraining."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("diffusers")

import numpy as np
import torch
from PIL import Image
from transformers import Qwen3VLForConditionalGeneration

from clocks import ticking
from interleave.agents.replies import parse_plan, parse_verdict
from interleave.backends.protocols import Reply
from interleave.backends.registry import load_vlm
from interleave.errors import ConfigurationError
from interleave.images import white_canvas
from interleave.local.processors import load_processor
from interleave.local.qwen3_vl.batched_vision import batch_vision
from interleave.local.qwen3_vl.uint8_pixels import use_uint8_pixels
from interleave.local.qwen3_vl.unmasked_attention import unmasked_attention
from interleave_mini.language.patterns import NotUnderstood
from interleave_mini.language.prompts import parse_prompt
from interleave_mini.language.words import NUMBERS
from interleave_mini.robots.episodes import what_is_seen
from interleave_mini.robots.gripper import carry_out, same_state
from interleave_mini.world.drawing import TorchPainter, corner, scene_codes
from interleave_mini.world.kinds import COLOURS
from interleave_mini.world.motion import Frame, Shot, draw_shot
from interleave_mini.world.operations import Impossible
from interleave_mini.world.scene import Load, Relation, Scene, Size, Thing
from interleave_mini.world.wider import ALL_BACKGROUNDS, ALL_COLOURS, ALL_NOUNS
from miniature.grammar.tasks import parse_task
from miniature.train.agent_model import grow_vocabulary, write_fresh_agent
from miniature.train.vision_examples import (
    EXERCISES,
    PLANNING,
    SEEING,
    Exercise,
    exercises_named,
    sample_exercise,
)
from miniature.train.vision_pretrain import (
    HEAD_SIZES,
    VERDICT_TOKENS,
    AuxHead,
    Batches,
    VisionPretrainer,
    VisionPretraining,
    cells_of_tokens,
    on_device,
    pretrain_vision,
)
from miniature.train.wider_requests import sample_wider_request

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, while they load


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fresh_agent(tmp_path_factory.mktemp("fresh") / "toy", "toy")


@pytest.fixture(scope="module")
def processor(fresh: Path) -> Any:
    return load_processor(fresh, "qwen3_vl")


def spoken(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def wish_of(each: Exercise) -> str:
    [text] = [part for part in each.question if isinstance(part, str)]
    wish, _, drawn = text.split(": ", 1)[1].partition(" Drawn: ")
    assert (drawn != "") == (each.name in ("verdict", "audit", "done"))
    return wish


def image(shot: Shot | None) -> Image.Image:
    return draw_shot(shot) if shot else white_canvas((256, 256))


def painted(codes: Any) -> Any:
    return VisionPretrainer(None, TorchPainter("cpu"), None, 16)._painted(codes)


def exercises(name: str, count: int) -> list[Exercise]:
    rng = Random(name)
    return [sample_exercise(rng, (name,)) for _ in range(count)]


@pytest.mark.parametrize("name", SEEING)
def test_answers_are_true(name: str) -> None:
    for each in exercises(name, 40):
        if name == "look":
            assert parse_prompt(each.answer, None) == each.images[0]
        elif name == "compare":
            before, after = each.images
            said = before if each.answer == "Nothing has changed." else parse_prompt(each.answer, before)
            assert said == after
        elif name in ("verdict", "audit"):
            before, shown = each.images
            asked, said = parse_prompt(wish_of(each), before), parse_verdict(each.answer)
            assert said.accepted == (asked == shown)
            assert said.accepted or parse_prompt(str(said.refined_prompt), before) == asked
        elif name == "done":
            before, shown = each.images
            asked, said = parse_prompt(wish_of(each), before), parse_verdict(each.answer)
            seen = what_is_seen(shown)
            assert said.accepted == (isinstance(shown, Scene) and same_state(shown, asked))
            if said.refined_prompt and not isinstance(shown, Frame):
                assert same_state(carry_out(said.refined_prompt, seen, Random(0)), asked)
        else:
            *before, shown = each.images
            asked = parse_prompt(wish_of(each), before[0] if before else None)
            assert (asked == shown) == (each.answer == "Everything is as asked.")


@pytest.mark.parametrize(
    "name", [name for name in PLANNING if name not in ("segment", "plan-worked", "plan-wider", "plan-frames")]
)
def test_plans_are_plans_and_most_are_the_oracles(name: str) -> None:
    """All but those whose request has a word mistyped, left out, too many or exchanged.

    Worked examples and frames are what the oracle has no rule for.
    """
    right = 0
    for each in exercises(name, 20):
        plan = parse_plan(Reply(text=each.answer))
        lead, *parts = each.question
        assert lead == "Plan: "
        with suppress(NotUnderstood, Impossible):
            right += parse_task(parts).plan().steps == plan.steps
    assert right >= 8


def test_a_plan_that_does_not_fit_is_rejected_with_the_prompt_that_fits() -> None:
    judged, verdicts = exercises("audit-plan", 200), set()
    for each in judged:
        [question] = each.question
        assert isinstance(question, str)
        prompts = re.split(r" [1-9]\. (?=[A-Z])", question.partition(" Plan: 1. ")[2])
        said = parse_verdict(each.answer)
        verdicts.add(re.sub(r"\d", "N", said.reasoning))
        if not said.accepted:
            assert said.refined_prompt
            assert not said.reasoning.startswith("Step 1 ") or said.refined_prompt != prompts[0]
    wrong = {"Step N does something else.", "A step is missing.", "Something is added."}
    assert verdicts == {"Everything is as asked.", *wrong}


def test_plain_requests_name_what_is_planned() -> None:
    rng = Random(4)
    for _ in range(60):
        text, steps = sample_wider_request(rng)
        for thing in steps[0].scene.everything.values():
            assert thing.noun in text.lower(), (text, steps[0].prompt)
        scene = parse_prompt(steps[0].prompt, None)
        for step in steps[1:]:
            scene = parse_prompt(step.prompt, scene)
        assert scene == steps[-1].scene


def test_shots_of_an_episode_are_described_by_what_has_changed_since_the_last() -> None:
    """Each caption leads from what one shot shows to what the next one does."""
    for each in exercises("segment", 40):
        plan = parse_plan(Reply(text=each.answer))
        shots = [what_is_seen(shot) for shot in each.images if isinstance(shot, Scene | Frame)]
        assert len(plan.steps) == len(shots) == len(each.images)
        assert parse_prompt(str(plan.steps[0].caption), None) == shots[0]
        for before, after, step in zip(shots, shots[1:], plan.steps[1:], strict=False):
            caption = str(step.caption)
            said = before if caption == "Nothing changes." else carry_out(caption, before, Random(0))
            assert same_state(said, after)


def test_a_plan_made_again_is_the_true_one_and_the_first_had_what_is_complained_about() -> None:
    complaints = set()
    for each in exercises("again", 60):
        [(kind, words)] = re.findall(
            r"^The plan (leaves out|has) (.+?)(?:, which is not wanted)?\.$", each.complaint
        )
        words = re.sub(r"^\d", lambda digit: NUMBERS[int(digit[0])], words).split()[0]  # "4 red triangles"
        wanted, other = (each.answer, each.first_answer)[:: 1 if kind == "leaves out" else -1]
        assert re.search(rf"\b{words}\b", wanted, re.IGNORECASE), each
        assert not re.search(rf"\b{words}\b", other, re.IGNORECASE), each
        complaints.add((kind, words in NUMBERS))
    assert complaints == {("leaves out", False), ("leaves out", True), ("has", False)}


def test_only_plans_made_again_have_a_first_answer() -> None:
    assert not any(each.first_answer for name in EXERCISES if name != "again" for each in exercises(name, 2))


@pytest.mark.parametrize("name", EXERCISES)
def test_a_batch_is_what_the_processor_makes_of_the_same_conversation(processor: Any, name: str) -> None:
    some = exercises(name, 3)
    batch = Batches(processor, 3, 0).batch(some)
    for row, each in enumerate(some):
        asked = [
            {"type": "text", "text": part}
            if isinstance(part, str)
            else {"type": "image", "image": image(part)}
            for part in each.question
        ]
        said = [{"role": "user", "content": asked}]
        if name == "again":
            said += [spoken("assistant", each.first_answer), spoken("user", f"Again: {each.complaint}")]
        made = processor.apply_chat_template(
            [*said, spoken("assistant", each.answer)],
            tokenize=True,
            return_dict=True,
            return_tensors="np",
        )
        ids = made["input_ids"][0]
        assert batch.ids[row, : len(ids)].tolist() == ids.tolist()
        learned = batch.labels[row] != -100
        assert processor.tokenizer.decode(batch.ids[row][learned]) == f"{each.answer}<|im_end|>"
    drawn = [np.asarray(image(scene)) for each in some for scene in each.images]
    seen = painted(torch.from_numpy(batch.codes)).numpy()
    assert len(seen) == len(drawn)
    assert all((one == other).all() for one, other in zip(seen, drawn, strict=True))


@pytest.mark.parametrize("name", EXERCISES)
def test_its_loss_is_the_librarys_own(fresh: Path, name: str) -> None:
    own = load_processor(fresh, "qwen3_vl")
    model = Qwen3VLForConditionalGeneration.from_pretrained(fresh, dtype=torch.float32).eval()
    batch = on_device(Batches(own, 3, 0).batch(exercises(name, 3)), "cpu")
    images = [Image.fromarray(each) for each in painted(batch.codes).numpy()]
    seen = own.image_processor(images, return_tensors="pt") if images else {}
    padding = own.tokenizer.pad_token_id
    with torch.no_grad():
        expected = model(
            input_ids=batch.ids,
            attention_mask=(batch.ids != padding).long(),
            mm_token_type_ids=batch.is_image,
            labels=batch.labels,
            **seen,
        ).loss
        batch_vision(model)
        assert use_uint8_pixels(model, own)
        with unmasked_attention(model):
            found = VisionPretrainer(
                model, TorchPainter("cpu"), None, 256 // own.image_processor.patch_size
            ).loss(batch)
    assert float(found) == pytest.approx(float(expected), abs=1e-4)


@pytest.mark.slow
def test_it_learns_and_leaves_a_model_that_loads(
    fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking(monkeypatch, "miniature.train.training_loop")
    some = ("look", "check", "verdict", "plan-story", "again")
    settings = VisionPretraining(exercises=some, batch_size=8, log_every=5, eval_examples=8)
    found = pretrain_vision(fresh, tmp_path, 2, settings=settings, device="cpu")
    assert set(found) == {*some, "check verdicts", "verdict verdicts"}
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < losses[0] - 0.2
    assert load_vlm(f"transformers:{tmp_path / 'model'}", "planner").capabilities.token_probabilities


@pytest.mark.slow
def test_without_exercises_to_examine_the_model_is_saved_all_the_same(
    fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking(monkeypatch, "miniature.train.training_loop")
    settings = VisionPretraining(exercises=("look",), batch_size=4, eval_examples=0)
    assert pretrain_vision(fresh, tmp_path, 0.2, settings=settings, device="cpu") == {}
    assert (tmp_path / "model" / "model.safetensors").is_file()
    assert "examination" not in (tmp_path / "log.jsonl").read_text()


def test_marks_tell_right_answers_and_right_verdicts_apart(fresh: Path, processor: Any) -> None:
    """A model that always says the same: marked by hand."""
    batch = on_device(Batches(processor, 12, 0).batch(exercises("check", 12)), "cpu")
    accepting = processor.tokenizer("Everything is as asked.", add_special_tokens=False)["input_ids"]
    accepted = [each.answer == "Everything is as asked." for each in exercises("check", 12)]
    assert 0 < sum(accepted) < 12

    class Parrot(VisionPretrainer):
        says: tuple[int, ...] = ()

        def answers(self, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
            wanted = batch.labels[:, 1:]
            spoken = wanted != -100
            place = spoken.cumsum(dim=1)[spoken] - 1
            words = torch.tensor(self.says * 40)
            said = torch.nn.functional.one_hot(words[place], len(processor.tokenizer)).float()
            return said, wanted[spoken]

    parrot = Parrot(None, TorchPainter("cpu"), None, 16)
    parrot.says = (*accepting, processor.tokenizer.eos_token_id)
    words, verdicts = parrot.correct(batch, accepting[0])
    assert words.tolist() == verdicts.tolist() == accepted
    parrot.says = (accepting[1], accepting[2])
    words, verdicts = parrot.correct(batch, accepting[0])
    assert not any(words.tolist()), "it never says what is wrong"
    assert verdicts.tolist() == [not each for each in accepted]


def test_the_verdict_of_a_whole_reply_is_its_second_token(processor: Any) -> None:
    """The first opens the thinking of every reply."""
    tokens = processor.tokenizer(
        [each.answer for each in exercises("verdict", 30)], add_special_tokens=False
    )["input_ids"]
    accepting = processor.tokenizer("Everything is as asked.", add_special_tokens=False)["input_ids"][0]
    accepted = [parse_verdict(each.answer).accepted for each in exercises("verdict", 30)]
    assert 0 < sum(accepted) < 30
    assert [ids[VERDICT_TOKENS["verdict"]] == accepting for ids in tokens] == accepted


def test_the_vision_tower_learns_what_is_in_each_cell(fresh: Path, processor: Any) -> None:
    model = Qwen3VLForConditionalGeneration.from_pretrained(fresh, dtype=torch.float32)
    own = load_processor(fresh, "qwen3_vl")
    batch_vision(model)
    assert use_uint8_pixels(model, own)
    batch = on_device(Batches(own, 2, 0).batch(exercises("compare", 2)), "cpu")
    trainer = VisionPretrainer(model, TorchPainter("cpu"), None, 16)
    aux_head = AuxHead(model.model.visual, "cpu")
    optimizer = torch.optim.AdamW([*model.model.visual.parameters(), *aux_head.head.parameters()], lr=1e-2)
    losses = []
    for _ in range(40):
        trainer.loss(batch)
        losses.append(aux_head.loss(batch.codes))
        losses[-1].backward()
        optimizer.step()
        optimizer.zero_grad()
    assert float(losses[-1]) < 0.2 * float(losses[0])
    assert aux_head.seen is None
    aux_head.close()
    with torch.no_grad():
        trainer.loss(batch)
    assert aux_head.seen is None


def test_every_token_looks_at_the_cell_it_lies_in() -> None:
    cells = cells_of_tokens(8)
    assert set(cells) == set(range(9))
    scene = Scene.of("meadow", {cell: Thing("apple", "red") for cell in range(9)})
    bare = np.asarray(draw_shot(Scene.of("meadow", {}))).astype(int)
    for cell in range(9):
        alone = np.asarray(draw_shot(Scene.of("meadow", {cell: scene.cells[cell]}))).astype(int)
        rows, columns = np.nonzero(np.abs(alone - bare).sum(axis=2))
        middle = int(rows.mean()) // 32 * 8 + int(columns.mean()) // 32
        assert cells[middle] == cell


def test_only_the_exercises_that_are_asked_for_come(processor: Any) -> None:
    names = {sample_exercise(Random(seed), ("look", "check")).name for seed in range(30)}
    assert names == {"look", "check"}
    batches = iter(Batches(processor, 2, 0, ("compare",)))
    assert {next(batches).name for _ in range(4)} == {"compare"}
    with pytest.raises(ConfigurationError, match=r"no exercise named 'lok'.*look"):
        exercises_named(["compare", "lok"])


def test_a_folder_without_a_model_is_refused_before_the_hub_is_asked(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no-model is not a model folder"):
        pretrain_vision(tmp_path / "no-model", tmp_path / "out", 0.1)


def test_some_images_to_judge_are_as_they_were_before_the_wish() -> None:
    judged = exercises("verdict", 90)
    ignored = [each for each in judged if each.images[0] == each.images[1]]
    assert 3 <= len(ignored) <= 20
    assert all(each.answer.startswith("<think>Wrong. ") for each in ignored)


def test_the_auxiliary_head_asks_every_token_for_the_thing_in_its_own_cell() -> None:
    """Tokens that know what lies below them, by the corners of cells and not by the function under test."""
    ball = Load(Relation.IN, Thing("ball", "pink", Size.SMALL))
    cells = {cell: Thing("apple", list(COLOURS)[cell]) for cell in range(7)}
    cells |= {7: Thing("basket", "white", load=ball)}
    scene = Scene.of("farm at night", cells)
    codes = torch.from_numpy(scene_codes([scene])).long()
    starts = [sum(HEAD_SIZES[:place]) for place in range(len(HEAD_SIZES))]
    size = sum(HEAD_SIZES)
    shape = SimpleNamespace(out_hidden_size=size, patch_size=16, spatial_merge_size=2)

    class Tower(torch.nn.Module):
        config = shape

    aux_head = AuxHead(Tower(), "cpu")
    with torch.no_grad():
        aux_head.head.weight.copy_(40 * torch.eye(size))
        aux_head.head.bias.zero_()
    tokens = torch.zeros(64, size)
    nouns, colours, sizes = list(ALL_NOUNS), list(ALL_COLOURS), list(Size)

    def labels(thing: Thing | None) -> list[int]:
        if thing is None:
            return [0] * 6
        own = [1 + nouns.index(thing.noun), 1 + colours.index(thing.colour), sizes.index(thing.size)]
        load = thing.load
        if load is None:
            return [*own, 0, 0, 0]
        carried = load.thing
        relation = list(Relation).index(load.relation)
        return [*own, 1 + nouns.index(carried.noun), 1 + colours.index(carried.colour), 1 + relation]

    for number in range(64):
        middle = (number // 8 * 32 + 16, number % 8 * 32 + 16)
        [cell] = [
            cell
            for cell in range(9)
            if all(edge <= at < edge + 80 for edge, at in zip(corner(cell), middle, strict=True))
        ]
        wanted = [*labels(scene.cells[cell]), ALL_BACKGROUNDS.index(scene.background)]
        for start, label in zip(starts, wanted, strict=True):
            tokens[number, start + label] = 1
    aux_head.seen = tokens
    assert float(aux_head.loss(codes)) < 1e-3
    aux_head.seen = tokens.roll(1, dims=0)
    assert float(aux_head.loss(codes)) > 1


def test_a_grown_agent_answers_as_before(tmp_path: Path) -> None:
    from transformers import AutoModelForImageTextToText

    from miniature.train.agent_model import grow

    fresh = write_fresh_agent(tmp_path / "fresh", "toy")
    grow(fresh, tmp_path / "grown", 3)
    old, new = (
        AutoModelForImageTextToText.from_pretrained(folder).eval() for folder in (fresh, tmp_path / "grown")
    )
    ids = torch.arange(40)[None]
    assert len(new.model.language_model.layers) == len(old.model.language_model.layers) + 1
    assert torch.equal(old(input_ids=ids).logits, new(input_ids=ids).logits)
    with pytest.raises(ConfigurationError, match="already has 3 layers"):
        grow(tmp_path / "grown", tmp_path / "again", 3)


def test_an_agent_with_more_words_keeps_its_tokens_and_its_answers(tmp_path: Path) -> None:
    from transformers import AutoModelForImageTextToText

    fresh = write_fresh_agent(tmp_path / "fresh", "toy")
    grow_vocabulary(fresh, tmp_path / "grown")
    old, new = (
        AutoModelForImageTextToText.from_pretrained(folder).eval() for folder in (fresh, tmp_path / "grown")
    )
    before, after = (load_processor(folder, "qwen3_vl").tokenizer for folder in (fresh, tmp_path / "grown"))
    assert before.get_vocab().items() <= after.get_vocab().items()
    assert after.chat_template == before.chat_template
    text = "Plan: a penguin in the classroom at night"
    ids = after(text, add_special_tokens=False)["input_ids"]
    assert after.decode(ids) == text
    assert len(ids) < len(before(text, add_special_tokens=False)["input_ids"])
    asked, known = torch.arange(40)[None], len(before)
    logits = new(input_ids=asked).logits
    assert torch.allclose(logits[..., :known], old(input_ids=asked).logits[..., :known], atol=1e-5)
    assert bool((logits.argmax(dim=-1) < known).all())
