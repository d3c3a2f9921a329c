"""Own generator: any object with `capabilities` and `generate` draws the images.

    python examples/own_generator.py

This one writes its prompt on a card and pastes the source image into a corner. Replace it by a model, a
service or an API. Planner and critic are the fakes of the profile `dry-run`.
"""

import random
import textwrap

from PIL import Image, ImageDraw

import interleave


class Postcards:
    """Draws one image from a prompt, a seed and source images."""

    # A plan that exceeds these capabilities is refused before the first call.
    capabilities = interleave.GeneratorCapabilities(max_sources=1, price_per_image=0.0)

    async def generate(self, request: interleave.ImageRequest) -> Image.Image:
        # `await` slow work; call a blocking library through `await asyncio.to_thread(...)`.
        if "dragon" in request.prompt:
            # Raise an error on failure, never return a placeholder. `transient=True` requests a retry.
            raise interleave.BackendError("postcards cannot draw dragons", transient=False)

        dice = random.Random(request.seed)  # equal seeds must give equal images
        background = tuple(dice.randrange(150, 240) for _ in range(3))
        card = Image.new("RGB", (320, 240), background)
        ImageDraw.Draw(card).multiline_text((12, 12), textwrap.fill(request.prompt, 44), fill="black")
        for source in request.sources:  # empty for a first image
            card.paste(source.resize((96, 72)), (212, 156))
        return card


def main() -> None:
    run = interleave.generate(
        "A day at the lake in 3 pictures", generator=Postcards(), profile="dry-run", out="runs/postcards"
    )
    attempts = sum(len(step.attempts) for step in run.record.steps)
    print(f"{len(run.steps)} steps, {attempts} images drawn")
    print(run.document)

    try:
        interleave.generate(
            "A dragon in 1 picture", generator=Postcards(), profile="dry-run", out="runs/dragon"
        )
    except interleave.BackendError as error:
        print(f"refused: {error}")


if __name__ == "__main__":
    main()
