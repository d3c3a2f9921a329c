"""Own critic: any object with `judge` decides which images are redrawn, and with which prompt.

    python examples/own_critic.py

This critic measures brightness: it rejects an image that is too dark, and its prompt asks for more light. The
generator reacts to that prompt, so that you can watch the loop.
"""

from PIL import Image, ImageStat

import interleave

BRIGHT_ENOUGH = 120


class LightMeter:
    """Accepts images whose mean brightness is high enough."""

    async def judge(self, seen: interleave.CriticInput) -> interleave.Verdict:
        # seen.before and seen.after are the two images, seen.planned_prompt is the plan's prompt,
        # seen.prompt the prompt of this attempt.
        brightness = ImageStat.Stat(seen.after.convert("L")).mean[0]
        if brightness >= BRIGHT_ENOUGH:
            return interleave.Verdict(
                outcome=interleave.Outcome.ACCEPTED, reasoning=f"brightness {brightness:.0f}"
            )
        return interleave.Verdict(
            outcome=interleave.Outcome.REJECTED,
            reasoning=f"brightness {brightness:.0f}, at least {BRIGHT_ENOUGH} is needed",
            refined_prompt=f"{seen.prompt}, more light",
        )


class Lamp:
    """A generator that draws dark images until the prompt asks for more light."""

    capabilities = interleave.GeneratorCapabilities(max_sources=1)

    async def generate(self, request: interleave.ImageRequest) -> Image.Image:
        level = 50 + 40 * request.prompt.count("more light")
        return Image.new("RGB", (64, 64), (level, level, level))


def main() -> None:
    plan = interleave.Plan(
        steps=(
            interleave.PlanStep(number=1, caption="A room at night", prompt="a room"),
            interleave.PlanStep(number=2, caption="The sun rises", prompt="the same room, more light"),
        )
    )
    run = interleave.generate(
        "A room gets brighter", plan=plan, generator=Lamp(), critic=LightMeter(), out="runs/room"
    )
    for step in run.record.steps:
        for attempt in step.attempts:
            assert attempt.verdict is not None
            print(f"{step.plan.number}.{attempt.number} {attempt.verdict.outcome}: {attempt.prompt!r}")
            print(f"    {attempt.verdict.reasoning}")
    print(run.document)


if __name__ == "__main__":
    main()
