"""Run with lerobot's Python: its own reader loads a dataset, and what it finds is printed as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any


def dataset_facts(root: str) -> dict[str, Any]:
    """Frames, tasks and sub-tasks, as lerobot has them."""
    from lerobot.datasets.language import column_for_style, validate_camera_field
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("interleave/test", root=root, video_backend="pyav")
    episodes = []
    for number in range(dataset.meta.total_episodes):
        row = dataset.meta.episodes[number]
        first, last = int(row["dataset_from_index"]), int(row["dataset_to_index"]) - 1
        items = [dataset[first], dataset[(first + last) // 2], dataset[last]]
        said = items[0].get("language_persistent") or []
        for each in said:
            if column_for_style(each["style"]) != "language_persistent":
                raise ValueError(f"{each} is in the wrong column")
            validate_camera_field(each["style"], each["camera"])
        if any((item.get("language_persistent") or []) != said for item in items):
            raise ValueError("the rows differ between the frames of an episode")
        camera = dataset.meta.camera_keys[0]
        episodes.append(
            {
                "task": items[0]["task"],
                "frames": last + 1 - first,
                "said": [[round(float(each["timestamp"]), 4), each["content"]] for each in said],
                "events": [len(item.get("language_events") or []) for item in items],
                "pixels": [[round(float(item[camera].mean()), 4)] for item in items],
                "shape": list(items[0][camera].shape),
            }
        )
    return {"lerobot": version("lerobot"), "fps": dataset.meta.fps, "episodes": episodes}


def recording_facts(path: str) -> dict[str, Any]:
    """What a Rerun recording holds, as Rerun reads it back; its own verifier goes over it first."""
    import rerun.recording

    viewer = Path(sys.executable).with_name("rerun")
    subprocess.run([viewer, "rrd", "verify", path], check=True, capture_output=True)
    printed = subprocess.run([viewer, "rrd", "print", path], check=True, capture_output=True, text=True)
    recording = rerun.recording.load_recording(path)
    rows: dict[str, int] = {}
    for chunk in recording.chunks():
        rows[chunk.entity_path] = rows.get(chunk.entity_path, 0) + chunk.num_rows
    return {
        "application": recording.application_id(),
        "timelines": [column.name for column in recording.schema().index_columns()],
        "rows": rows,
        "has_blueprint": "blueprint" in printed.stdout.lower(),
    }


def made_by_lerobot(root: str) -> dict[str, Any]:
    """A dataset that lerobot itself writes, for our reader."""
    import numpy as np
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    camera = {"dtype": "video", "shape": (64, 96, 3), "names": ["height", "width", "channels"]}
    state = {"dtype": "float32", "shape": (2,), "names": ["x", "y"]}
    made = LeRobotDataset.create(
        "interleave/test",
        fps=10,
        root=Path(root),
        features={"observation.images.top": camera, "observation.state": state, "action": state},
    )
    for episode in range(2):
        for frame in range(10 + episode):
            shade = np.full((64, 96, 3), 20 * frame + 10, np.uint8)
            numbers = np.zeros(2, np.float32)
            made.add_frame(
                {
                    "observation.images.top": shade,
                    "observation.state": numbers,
                    "action": numbers,
                    "task": f"task {episode}",
                }
            )
        made.save_episode()
    made.finalize()
    return {"frames": made.meta.total_frames}


if __name__ == "__main__":
    what, path = sys.argv[1:]
    facts = {"dataset": dataset_facts, "recording": recording_facts, "made": made_by_lerobot}[what](path)
    print(json.dumps(facts))
