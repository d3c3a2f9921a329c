"""A ten-line service: `--generator http://127.0.0.1:8011` needs only a route `/edit`.

    uvicorn --app-dir examples edit_service:app --port 8011
    interleave models check http://127.0.0.1:8011
    interleave generate "A lake in 3 images" --generator http://127.0.0.1:8011 --profile dry-run

It receives a prompt, a seed and a source image (a PNG as base64, or null), and returns an image as base64.
Replace `draw` by your model.
"""

import base64
import io
import random

from fastapi import FastAPI
from PIL import Image, ImageDraw

app = FastAPI()


@app.post("/edit")
def edit(asked: dict) -> dict:
    start = io.BytesIO(base64.b64decode(asked["image"])) if asked["image"] else None
    image = draw(asked["prompt"], asked["seed"], Image.open(start) if start else None)
    image.save(png := io.BytesIO(), "PNG")
    return {"image": base64.b64encode(png.getvalue()).decode()}


def draw(prompt: str, seed: int, start: Image.Image | None) -> Image.Image:
    """Paint stripes on the source image."""
    image = start.convert("RGB").resize((256, 256)) if start else Image.new("RGB", (256, 256), "white")
    dice, pen = random.Random(f"{prompt}/{seed}"), ImageDraw.Draw(image)
    for _ in range(12):
        top, colour = dice.randrange(256), tuple(dice.randrange(256) for _ in range(3))
        pen.rectangle((0, top, 256, top + 5), fill=colour)
    return image
