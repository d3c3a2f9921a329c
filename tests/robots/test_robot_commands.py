"""`interleave robot plan`, `check` and `export` as a user meets them; the oracle plays all roles."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from interleave.agents.prompts import ROBOT_PROMPTS, load_pack
from interleave.backends.protocols import Message, Reply, Sampling, VlmCapabilities
from interleave.cli.main import run
from interleave.robots.contact_sheets import contact_sheets
from interleave.robots.control_loop import carry_out
from interleave.robots.execution import executions
from interleave.robots.sub_task_check import SubTaskInput, VlmSubTaskCheck
from interleave.robots.subgoals import read_subgoals
from interleave.types import ImagePart, Outcome, Text, Verdict
from interleave_mini.world.drawing import draw
from interleave_mini.world.operations import Pick, Place
from interleave_mini.world.scene import Gripper, Scene, Size, Thing
from miniature.train.vision_examples import done_question

Captured = pytest.CaptureFixture[str]
BENCH = Scene.of(
    "workbench",
    {6: Thing("block", "red", Size.SMALL), 7: Thing("block", "blue", Size.SMALL)},
    Gripper(1),
)
LIFTED = Pick(6).apply(BENCH)
STACKED = Place(4).apply(LIFTED)
GOAL = "put the red block on the blue one"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("camera")
    for name, scene in (("bench", BENCH), ("lifted", LIFTED), ("stacked", STACKED)):
        draw(scene).save(folder / f"{name}.png")
    return {name: str(folder / f"{name}.png") for name in ("bench", "lifted", "stacked")}


@pytest.fixture
def planned(images: dict[str, str], tmp_path: Path) -> Path:
    out = tmp_path / "run"
    command = ["robot", "plan", GOAL, "--image", images["bench"], "--profile", "oracle", "--out", str(out)]
    assert run(command) == 0
    return out


def test_a_goal_becomes_sub_tasks_with_images_in_a_run_like_any_other(
    planned: Path, images: dict[str, str], capsys: Captured
) -> None:
    again = [
        "robot",
        "plan",
        GOAL,
        "--image",
        images["bench"],
        "--profile",
        "oracle",
        "--out",
        str(planned),
    ]
    assert run(again) == 0
    assert capsys.readouterr().out.strip() == str(planned / "subgoals.json")
    goals = read_subgoals(planned)
    assert goals.goal == GOAL
    assert [each.instruction for each in goals.subgoals] == [
        "Pick up the red block with the gripper.",
        "Put the red block down in the middle.",
    ]
    shown = [Image.open(planned / str(each.image)).convert("RGB") for each in goals.subgoals]
    assert [image.tobytes() for image in shown] == [draw(LIFTED).tobytes(), draw(STACKED).tobytes()]
    assert all(each.accepted for each in goals.subgoals)
    assert (planned / "document.html").is_file()
    assert run(["show", str(planned), "--json"]) == 0


def test_checks_say_done_or_what_to_correct_and_are_kept(
    planned: Path, images: dict[str, str], capsys: Captured
) -> None:
    capsys.readouterr()
    of_step = ["robot", "check", "--run", str(planned), "--critic", "oracle"]
    assert run([*of_step, "--step", "1", "--after", images["bench"]]) == 1
    assert "now: Pick up the red block" in capsys.readouterr().out
    assert run([*of_step, "--step", "1", "--after", images["lifted"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] is True
    assert run([*of_step, "--step", "2", "--after", images["stacked"]]) == 0, "it began with the last frame"
    kept = executions(planned)
    assert [(each.number, each.attempt, each.verdict.accepted) for each in kept] == [
        (1, 1, False),
        (1, 2, True),
        (2, 1, True),
    ]


def test_a_check_needs_no_run(images: dict[str, str], capsys: Captured) -> None:
    told = ["robot", "check", "Put the red block down in the middle.", "--critic", "oracle"]
    assert run([*told, "--before", images["lifted"], "--after", images["stacked"]]) == 0
    assert run([*told, "--before", images["lifted"], "--after", images["bench"]]) == 1
    assert "not done: Wrong." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "x"], "--after PATH"),
        (["check", "x", "--after", "a.png"], "--before PATH"),
        (["check", "--run", "r", "--after", "a.png"], "--step N"),
        (["check", "x", "--run", "r", "--step", "1", "--after", "a.png"], "--step N"),
        (["export", "r", "--to", "avi", "--out", "x"], "lerobot or rerun"),
        (["annotate", "nowhere"], "not a folder"),
        (["score", "nowhere", "--truth", "nowhere"], "no annotations"),
    ],
)
def test_wrong_words_are_refused(arguments: list[str], words: str, capsys: Captured) -> None:
    Path("a.png").write_bytes(b"")
    assert run(["robot", *arguments]) == 2
    assert words in capsys.readouterr().err


# The loop in Python


class Bench:
    """A gripper that misses the first time it is told anything."""

    def __init__(self) -> None:
        self.scenes = iter((BENCH, LIFTED, LIFTED, STACKED))
        self.told: list[str] = []

    async def do(self, instruction: str) -> None:
        self.told.append(instruction)

    async def look(self) -> Image.Image:
        if not self.told:
            return draw(BENCH)
        return draw(next(self.scenes))


class Said:
    """A check that compares with the image that is wanted."""

    async def check(self, seen: SubTaskInput) -> Verdict:
        wanted = draw(LIFTED) if "lift" in seen.instruction else draw(STACKED)
        if seen.after.tobytes() == wanted.tobytes():
            return Verdict(outcome=Outcome.ACCEPTED)
        return Verdict(outcome=Outcome.REJECTED, refined_prompt=f"{seen.instruction} again")


def test_the_loop_goes_on_when_a_sub_task_is_done_and_corrects_it_until_then() -> None:
    robot = Bench()

    async def follow() -> list[tuple[int, int, str, bool]]:
        return [
            (tried.number, tried.attempt, tried.instruction, tried.verdict.accepted)
            async for tried in carry_out(["lift", "put down"], robot, Said())
        ]

    assert asyncio.run(follow()) == [
        (1, 1, "lift", False),
        (1, 2, "lift again", True),
        (2, 1, "put down", False),
        (2, 2, "put down again", True),
    ]
    assert robot.told == ["lift", "lift again", "put down", "put down again"]


def test_after_the_last_try_the_loop_begins_the_next_sub_task() -> None:
    class Never:
        async def check(self, seen: SubTaskInput) -> Verdict:
            return Verdict(outcome=Outcome.UNREADABLE)

    class Still:
        async def do(self, instruction: str) -> None:
            pass

        async def look(self) -> Image.Image:
            return draw(BENCH)

    async def follow() -> list[tuple[int, int]]:
        made = carry_out(["a", "b"], Still(), Never(), max_tries=2)
        return [(tried.number, tried.attempt) async for tried in made]

    assert asyncio.run(follow()) == [(1, 1), (1, 2), (2, 1), (2, 2)]


# What a model is asked


class Asked:
    """A model that keeps its messages and answers from a list."""

    capabilities = VlmCapabilities()

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.messages: list[tuple[Message, ...]] = []

    async def complete(self, messages: Any, sampling: Sampling) -> Reply:
        self.messages.append(tuple(messages))
        return Reply(text=self.replies.pop(0))


def parts(message: Message) -> list[str]:
    return [part.text if isinstance(part, Text) else "<picture>" for part in message.parts]


def test_the_miniatures_check_is_asked_as_it_was_trained() -> None:
    model = Asked('{"previous_step_success": true, "refine_prompt": ""}')
    check = VlmSubTaskCheck(model, load_pack("mini"))
    verdict = asyncio.run(check.check(SubTaskInput("Lift it.", draw(BENCH), draw(LIFTED))))
    assert verdict.accepted
    [[message]] = model.messages
    assert "".join(parts(message)) == done_question("Lift it.") + "<picture><picture>"


def test_a_reply_that_stays_unreadable_is_neither_done_nor_not() -> None:
    check = VlmSubTaskCheck(Asked(*["what?"] * 4), load_pack())
    verdict = asyncio.run(check.check(SubTaskInput("Lift it.", draw(BENCH), draw(LIFTED))))
    assert verdict.outcome is Outcome.UNREADABLE


@pytest.mark.parametrize("name", ["default", "mini"])
def test_packs_have_the_prompts_for_robots_and_runs_do_not_depend_on_them(name: str) -> None:
    pack = load_pack(name)
    assert set(ROBOT_PROMPTS) <= set(pack.texts)
    without = {key: text for key, text in pack.texts.items() if key not in ROBOT_PROMPTS}
    assert pack.digest == type(pack)(pack.description, without).digest
    slots = {slot: "x" for each in ROBOT_PROMPTS.values() for slot in each}
    frames = (ImagePart(draw(BENCH)),) * 3
    filled = pack.messages("robot_segments", {**slots, "frames": frames})
    assert sum(isinstance(part, ImagePart) for message in filled for part in message.parts) == 3


def test_frames_on_a_contact_sheet_are_numbered_through_all_sheets() -> None:
    frames = [Image.new("RGB", (320, 240), (10 * number, 0, 0)) for number in range(23)]
    sheets = contact_sheets(frames)
    assert [sheet.size for sheet in sheets] == [(4 + 5 * 228, 4 + 4 * 172), (4 + 3 * 228, 4 + 172)]
    middle = sheets[1].getpixel((4 + 228 + 112, 4 + 84))
    assert middle == (210, 0, 0), "frame 22 is the second of the second sheet"
    corner = [sheet.crop((4, 4, 40, 30)).tobytes() for sheet in sheets]
    assert corner[0] != corner[1], "their numbers differ"


# Export


def test_a_run_becomes_an_episode_with_its_sub_tasks(planned: Path, tmp_path: Path) -> None:
    pytest.importorskip("av")
    from interleave.robots.lerobot.dataset import open_dataset
    from interleave.robots.lerobot.language_columns import read_columns
    from interleave.robots.lerobot.videos import Video

    out = tmp_path / "episodes"
    assert run(["robot", "export", str(planned), str(planned), "--to", "lerobot", "--out", str(out)]) == 0
    dataset = open_dataset(out)
    assert [episode.task for episode in dataset.chosen()] == [GOAL, GOAL]
    [first, second] = read_columns(dataset)[0].segments
    assert (first.start, first.end, second.start, second.end) == (0, 5, 5, 15)
    assert first.instruction == "Pick up the red block with the gripper."
    frames = Video(dataset, dataset.chosen()[1], dataset.camera()).frames([0, 5, 14])
    for frame, scene in zip(frames, (BENCH, LIFTED, STACKED), strict=True):
        error = sum(abs(a - b) for a, b in zip(frame.tobytes(), draw(scene).tobytes(), strict=True))
        assert error / len(frame.tobytes()) < 6


def test_what_the_camera_saw_is_exported_where_the_run_was_carried_out(
    planned: Path, images: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip("av")
    from interleave.robots.lerobot.dataset import open_dataset
    from interleave.robots.lerobot.language_columns import read_columns

    for step, after in ((1, "bench"), (1, "lifted"), (2, "stacked")):
        told = ["robot", "check", "--run", str(planned), "--critic", "oracle", "--step", str(step)]
        run([*told, "--after", images[after]])
    out = tmp_path / "episodes"
    assert run(["robot", "export", str(planned), "--to", "lerobot", "--out", str(out)]) == 0
    dataset = open_dataset(out)
    assert list(dataset.cameras) == ["observation.images.camera"]
    [first, second] = read_columns(dataset)[0].segments
    assert (first.end, second.start, second.end) == (10, 10, 20), "two tries of the first sub-task"
