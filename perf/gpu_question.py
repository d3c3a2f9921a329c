"""Writes the critic's configuration and question for another inference engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_bench import PROMPT
from PIL import Image
from random_models import Size, verdict, write_settings

from interleave.agents.critic import critic_input, critic_messages
from interleave.agents.prompts import load_pack
from interleave.types import Text

VIDEOS = {
    "video_processor_type": "Qwen3VLVideoProcessor",
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "size": {"shortest_edge": 4096, "longest_edge": 25_165_824},
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "fps": 2,
    "min_frames": 4,
    "max_frames": 768,
    "do_sample_frames": True,
}
"""Video settings, which vLLM requires even without videos."""


def conversation(before: Image.Image, after: Image.Image) -> list[dict[str, Any]]:
    """Return the critic's question in the format of the library's processors."""
    seen = critic_input(PROMPT, PROMPT, (before,), after)
    return [
        {
            "role": message.role,
            "content": [
                {"type": "text", "text": part.text}
                if isinstance(part, Text)
                else {"type": "image", "image": part.image}
                for part in message.parts
            ],
        }
        for message in critic_messages(seen, load_pack("default"))
    ]


def write_question(folder: Path, size: Size, tokens: int, processor: Any, image: Image.Image) -> None:
    """Write a folder with everything except weights."""
    write_settings(folder, size, verdict(tokens))
    (folder / "video_preprocessor_config.json").write_text(json.dumps(VIDEOS))
    asked = processor.apply_chat_template(
        conversation(image, image), tokenize=False, add_generation_prompt=True
    )
    (folder / "question.txt").write_text(asked, "utf-8")
