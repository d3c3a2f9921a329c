"""Trajectories: every ended run, in order, with exactly what its generator and critic saw."""

from __future__ import annotations

import logging
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image
from run_folders import REFUSED, Try, make_image, write_run

import interleave
from interleave.agents.critic import CriticInput
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.errors import InputError, MissingImage
from interleave.images import pixel_digest
from interleave.train.data.select.stage import select
from interleave.train.data.trajectories import (
    StoredImage,
    Trajectory,
    read_collection,
    read_trajectory,
    run_names,
)
from interleave.types import Outcome, Plan, PlanStep, Verdict

Seen = dict[tuple[int, int], tuple[str, ...]]


class SpyGenerator:
    """Draws something new each time, and remembers what it was given."""

    capabilities = GeneratorCapabilities(max_sources=9)

    def __init__(self) -> None:
        self.sources: Seen = {}

    async def generate(self, request: ImageRequest) -> Image.Image:
        self.sources[request.slot.step, request.slot.attempt] = tuple(map(pixel_digest, request.sources))
        return make_image(f"{request.slot}")


class SpyCritic:
    """Refuses the first attempt of every even step, and remembers what it saw."""

    def __init__(self) -> None:
        self.seen: Seen = {}

    async def judge(self, seen: CriticInput) -> Verdict:
        self.seen[seen.slot.step, seen.slot.attempt] = _digests(seen)
        if seen.slot.step % 2 == 0 and seen.slot.attempt == 1:
            return Verdict(outcome=Outcome.REJECTED, refined_prompt="better")
        return Verdict(outcome=Outcome.ACCEPTED)


def _digests(seen: CriticInput) -> tuple[str, ...]:
    return (seen.planned_prompt, seen.prompt, pixel_digest(seen.before), pixel_digest(seen.after))


PLAN = Plan(
    steps=(
        PlanStep(number=1, prompt="one"),
        PlanStep(number=2, prompt="two"),
        PlanStep(number=3, caption="only text"),
        PlanStep(number=4, prompt="four", sources=(1, 2)),
        PlanStep(number=5, prompt="five", sources=()),
        PlanStep(number=6, prompt="six"),
    )
)


@pytest.mark.parametrize("rule", ["previous", "history"])
@pytest.mark.parametrize("given", [0, 2])
def test_sources_and_critic_inputs_are_those_of_the_run(tmp_path: Path, rule: str, given: int) -> None:
    generator, critic = SpyGenerator(), SpyCritic()
    request = ["Make it", *(make_image(f"given {number}") for number in range(given))]
    interleave.generate(
        request,
        out=tmp_path / "col" / "runs" / "one",
        plan=PLAN,
        generator=generator,
        critic=critic,
        sources=rule,
    )
    [trajectory] = read_collection(tmp_path / "col")
    attempts = list(trajectory.attempts())
    assert {
        (step.plan.number, each.number): tuple(map(pixel_digest, trajectory.sources_of(step)))
        for step, each in attempts
    } == generator.sources
    assert {
        (step.plan.number, each.number): _digests(trajectory.critic_input(step, each))
        for step, each in attempts
    } == critic.seen


def test_runs_come_sorted_by_name_whatever_the_order_on_disk(tmp_path: Path) -> None:
    for name in ("runs/b/2", "runs/a-c/1", "runs/a/9", "z"):
        write_run(tmp_path, name, [[Try()]])
    assert [each.name for each in read_collection(tmp_path)] == ["runs/a-c/1", "runs/a/9", "runs/b/2", "z"]


def test_runs_that_are_no_trajectories_are_counted_with_a_reason(tmp_path: Path) -> None:
    write_run(tmp_path, "good", [[Try()]])
    write_run(tmp_path, "short", [[Try()]], status="short")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "run.json").write_text("{")
    skipped: Counter[str] = Counter()
    assert [each.name for each in read_collection(tmp_path, skipped=skipped)] == ["good", "short"]
    assert skipped == {"damaged": 1}


def test_a_failed_run_is_left_out_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(SpyGenerator):
        async def generate(self, request: ImageRequest) -> Image.Image:
            raise interleave.BackendError("out of paint")

    with pytest.raises(interleave.BackendError):
        interleave.generate(
            "Make it", out=tmp_path / "runs/bad", plan=PLAN, generator=Broken(), critic=SpyCritic()
        )
    write_run(tmp_path, "runs/good", [[Try()]])
    with caplog.at_level(logging.WARNING):
        assert [each.name for each in read_collection(tmp_path)] == ["runs/good"]
    assert "1 run left out (1 failed)" in caplog.text


def test_a_run_without_its_record_is_read_from_its_journal(tmp_path: Path) -> None:
    run = tmp_path / "run"
    interleave.generate("Make it", out=run, plan=PLAN, generator=SpyGenerator(), critic=SpyCritic())
    before = read_trajectory(tmp_path, "run")
    (run / "run.json").unlink()
    after = read_trajectory(tmp_path, "run")
    assert isinstance(before, Trajectory) and isinstance(after, Trajectory)
    assert after.record == before.record


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contains no runs"):
        run_names(tmp_path)


def test_images_stay_in_their_files_until_they_are_looked_at(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "run", [[REFUSED, Try()]])
    [trajectory] = read_collection(tmp_path)
    for file in (folder / "images").iterdir():
        file.unlink()
    [(step, first), _] = trajectory.attempts()
    with pytest.raises(MissingImage, match="is missing"):
        trajectory.critic_input(step, first)  # the white canvas has the size of the image


def test_who_looks_at_an_image_at_the_same_time_shares_it(tmp_path: Path) -> None:
    write_run(tmp_path, "run", [[Try()], [Try()]])
    (trajectory,) = read_collection(tmp_path)
    (first, drawn), (second, _) = list(trajectory.attempts())
    seen = trajectory.critic_input(first, drawn)
    assert seen.after is trajectory.sources_of(second)[-1]


def test_an_altered_image_is_refused_when_it_is_looked_at(tmp_path: Path) -> None:
    write_run(tmp_path, "run", [[Try()]])
    [trajectory] = read_collection(tmp_path)
    name = trajectory.record.steps[0].attempts[0].image
    path = trajectory.store.path(name)
    path.write_bytes(path.read_bytes() + b"x")
    image = trajectory.image(name)
    assert image.size == (8, 6)
    with pytest.raises(MissingImage, match="altered"):
        image.tobytes()


def test_a_stored_image_is_an_image_like_any_other(tmp_path: Path) -> None:
    write_run(tmp_path, "run", [[Try()]])
    [trajectory] = read_collection(tmp_path)
    attempt = trajectory.record.steps[0].attempts[0]
    image = trajectory.image(attempt.image)
    assert isinstance(image, StoredImage)
    plain = make_image("run/1/1")
    assert image.resize((4, 3)).tobytes() == plain.resize((4, 3)).tobytes()
    assert pixel_digest(image) == pixel_digest(plain)
    assert image.convert("L").getextrema() == plain.convert("L").getextrema()


def test_I01_a_name_of_an_image_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    write_run(tmp_path, "run", [[Try()]])
    [trajectory] = read_collection(tmp_path)
    with pytest.raises(interleave.RunError, match="damaged"):
        trajectory.store.path("../../etc/passwd")


def test_I05_a_run_in_a_folder_whose_name_is_no_text_is_left_out_and_counted(tmp_path: Path) -> None:
    write_run(tmp_path, "one", [[Try()]])
    odd = os.fsdecode(b"two\xff")
    try:
        shutil.copytree(tmp_path / "one", tmp_path / odd)
    except OSError:
        pytest.skip("does not apply: this file system takes only names in UTF-8")
    skipped = Counter[str]()
    assert [each.name for each in read_collection(tmp_path, skipped=skipped)] == ["one"]
    assert skipped == {"in a folder whose name is not valid Unicode": 1}
    manifest = select([tmp_path], tmp_path.parent / "selection")
    assert manifest.counts["runs"] == 1


def test_I05_a_collection_whose_name_is_no_text_is_refused_where_it_must_be_named(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"col\xff")
    try:
        odd.mkdir()
    except OSError:
        pytest.skip("does not apply: this file system takes only names in UTF-8")
    write_run(odd, "one", [[Try()]])
    with pytest.raises(InputError, match="is not valid Unicode, and the output must name it"):
        select([odd], tmp_path / "selection")
    assert not (tmp_path / "selection").exists()
