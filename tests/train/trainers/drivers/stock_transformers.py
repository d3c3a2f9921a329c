"""What stock transformers makes of a model folder: its processor on a row, its model on the result."""

from __future__ import annotations

import sys

import cuda_builds_on_cpu  # noqa: F401  (before transformers)
from answer import give
from PIL import Image

folder = sys.argv[1]

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import AutoModelForImageTextToText, AutoProcessor  # noqa: E402

processor = AutoProcessor.from_pretrained(folder)
model, loading = AutoModelForImageTextToText.from_pretrained(folder, output_loading_info=True)
image = Image.new("RGB", (64, 96), "orange")
messages = [
    {
        "role": "user",
        "content": [{"type": "image", "image": image}, {"type": "text", "text": "Is this right?"}],
    }
]
inputs = processor.apply_chat_template(
    messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
)
with torch.inference_mode():
    logits = model(**inputs).logits
give(
    version=transformers.__version__,
    processor=type(processor).__name__,
    video=type(processor.video_processor).__name__,
    model=type(model).__name__,
    loading={name: sorted(map(str, found)) for name, found in loading.items() if found},
    tokens=inputs["input_ids"][0].tolist(),
    logits=[round(float(value), 4) for value in logits[0, -1, :16]],
)
