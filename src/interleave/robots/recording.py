"""Rerun recordings (`.rrd`): frames, sub-tasks and verdicts on a timeline, and a layout for the viewer."""

from __future__ import annotations

import importlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interleave import ConfigurationError, RunError, Verdict, read_record
from interleave.plugin import ImageStore
from interleave.robots.annotation_file import EpisodeAnnotation
from interleave.robots.execution import executions
from interleave.robots.lerobot.dataset import Camera, Dataset
from interleave.robots.lerobot.videos import Video
from interleave.robots.subgoals import read_subgoals

if TYPE_CHECKING:
    from PIL.Image import Image

APPLICATION = "interleave"
FRAMES_PER_BATCH = 64
JPEG_QUALITY = 90
CAMERA, GOAL, SUB_TASK, VERDICTS, PLAN = "camera", "goal", "sub_task", "verdicts", "plan"


def _rerun() -> Any:
    try:
        return importlib.import_module("rerun")
    except ImportError:
        raise ConfigurationError(
            "a Rerun recording needs the package 'rerun-sdk': pip install rerun-sdk"
        ) from None


class _Recording:
    """A recording that is being written; `step` counts frames or attempts."""

    def __init__(self, path: Path, title: str, *, with_goals: bool) -> None:
        self.rerun = _rerun()
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot write {path} ({error.strerror})") from None
        self.stream = self.rerun.RecordingStream(APPLICATION, recording_id=None)
        self.stream.save(str(path), default_blueprint=self._blueprint(with_goals))
        self.stream.log("title", self.rerun.TextDocument(title), static=True)

    def _blueprint(self, with_goals: bool) -> Any:
        """Return the layout: camera and goal on top; sub-task, plan and verdicts below."""
        layout = importlib.import_module("rerun.blueprint")
        images = [layout.Spatial2DView(origin=CAMERA, name="Camera")]
        if with_goals:
            images.append(layout.Spatial2DView(origin=GOAL, name="Goal image"))
        words = [
            layout.TextDocumentView(origin=SUB_TASK, name="Sub-task"),
            layout.TextDocumentView(origin=PLAN, name="Plan"),
            layout.TextLogView(origin=VERDICTS, name="Verdicts"),
        ]
        return layout.Blueprint(
            layout.Vertical(layout.Horizontal(*images), layout.Horizontal(*words), row_shares=[3, 2]),
            layout.TimePanel(expanded=True),
            auto_views=False,
        )

    def at(self, step: int, seconds: float) -> None:
        self.stream.set_time("step", sequence=step)
        self.stream.set_time("time", duration=seconds)

    def image(self, where: str, image: Image) -> None:
        data = io.BytesIO()
        image.convert("RGB").save(data, "JPEG", quality=JPEG_QUALITY)
        encoded = self.rerun.EncodedImage(contents=data.getvalue(), media_type="image/jpeg")
        self.stream.log(where, encoded)

    def sub_task(self, words: str) -> None:
        self.stream.log(SUB_TASK, self.rerun.TextDocument(words))

    def plan(self, instructions: Sequence[str]) -> None:
        listed = "\n".join(f"{number}. {each}" for number, each in enumerate(instructions, start=1))
        markdown = self.rerun.TextDocument(listed, media_type="text/markdown")
        self.stream.log(PLAN, markdown, static=True)

    def verdict(self, words: str, verdict: Verdict) -> None:
        level = "INFO" if verdict.accepted else "WARN"
        to_do = f" → {verdict.refined_prompt}" if verdict.refined_prompt else ""
        said = f"{words}: {verdict.outcome.value}. {verdict.reasoning}{to_do}"
        self.stream.log(VERDICTS, self.rerun.TextLog(said, level=level))

    def close(self) -> None:
        self.stream.flush()
        self.stream.disconnect()


def record_episode(
    dataset: Dataset,
    camera: Camera,
    number: int,
    path: Path,
    annotations: Mapping[int, EpisodeAnnotation],
) -> None:
    """Record an episode of a dataset: its video, and the current sub-task."""
    [episode] = dataset.chosen([number])
    video, segments = (
        Video(dataset, episode, camera),
        annotations[number].segments if number in annotations else (),
    )
    made = _Recording(path, episode.task or f"Episode {number}", with_goals=False)
    try:
        made.plan([each.instruction for each in segments])
        begins = {each.start: each.instruction for each in segments}
        for start in range(0, video.length, FRAMES_PER_BATCH):
            places = range(start, min(start + FRAMES_PER_BATCH, video.length))
            for place, frame in zip(places, video.frames(list(places)), strict=True):
                made.at(place, place / dataset.fps)
                made.image(CAMERA, frame)
                if place in begins:
                    made.sub_task(begins[place])
    finally:
        made.close()


def record_run(run: Path, path: Path) -> None:
    """Record a run: the attempts at its goal images with verdicts, then the robot's attempts, if any."""
    record, goals, store = read_record(run), read_subgoals(run), ImageStore(run)
    made = _Recording(path, goals.goal, with_goals=True)
    begun, step = 0.0, 0
    try:
        made.plan([each.instruction for each in goals.subgoals])
        made.at(0, 0.0)
        if goals.start:
            made.image(CAMERA, store.get(Path(goals.start).name))
        for each in record.steps:
            for attempt in each.attempts:
                step += 1
                made.at(step, float(step))
                made.sub_task(f"Step {each.plan.number}, attempt {attempt.number}: {attempt.prompt}")
                made.image(GOAL, store.get(attempt.image))
                if attempt.verdict:
                    made.verdict(f"goal image of step {each.plan.number}", attempt.verdict)
        tries = executions(run)
        begun = tries[0].time if tries else 0.0
        drawn = float(step)
        for tried in tries:
            step += 1
            made.at(step, drawn + 1.0 + tried.time - begun)
            goal = goals.subgoals[tried.number - 1].image if tried.number <= len(goals.subgoals) else None
            if goal:
                made.image(GOAL, store.get(Path(goal).name))
            made.sub_task(f"Sub-task {tried.number}, try {tried.attempt}: {tried.instruction}")
            made.image(CAMERA, store.get(tried.after))
            made.verdict(f"sub-task {tried.number}", tried.verdict)
    finally:
        made.close()
