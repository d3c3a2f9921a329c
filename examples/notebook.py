"""In a notebook or a server: documents in a running event loop, generated concurrently, stopped and resumed.

    python examples/notebook.py

In Jupyter, use `await interleave.agenerate(…)` directly in a cell, as in `main`.
"""

import asyncio
from contextlib import aclosing

import interleave


async def main() -> None:
    # Two concurrent documents: while one waits for its model, the other continues.
    lake, frog = await asyncio.gather(
        interleave.agenerate("A lake in 2 pictures", profile="dry-run", out="runs/lake"),
        interleave.agenerate("A frog in 3 pictures", profile="dry-run", out="runs/frog"),
    )
    print(f"{len(lake.steps)} and {len(frog.steps)} steps, {frog.document}")

    # Stopped after its first step, as by `task.cancel()` or a closed page: finished work is kept.
    async with aclosing(
        interleave.stream("A day in 4 pictures", profile="dry-run", out="runs/day")
    ) as events:
        async for event in events:
            if isinstance(event, interleave.StepFinished):
                break
    print(f"stopped: {interleave.read_record('runs/day').status}")

    async for event in interleave.stream_resume("runs/day"):
        match event:
            case interleave.StepFinished(step=step):
                print(f"step {step.number}: {step.text}")
            case interleave.RunResult(status=status, document=document):
                print(f"{status}: {document}")


if __name__ == "__main__":
    asyncio.run(main())
