"""In a notebook or a server: documents made in a running event loop, several at once, one cancelled.

    python examples/notebook.py

In a cell of Jupyter write `await interleave.agenerate(…)` as it stands; there `main` is what a cell does.
"""

import asyncio

import interleave


async def main() -> None:
    # Two documents at once: while one waits for its model, the other goes on.
    lake, frog = await asyncio.gather(
        interleave.agenerate("A lake in 2 pictures", profile="dry-run", out="runs/lake"),
        interleave.agenerate("A frog in 3 pictures", profile="dry-run", out="runs/frog"),
    )
    print(f"{len(lake.steps)} and {len(frog.steps)} steps, {frog.document}")

    # Cancelled like any task. What is done is kept, and the run goes on where it was.
    slow = asyncio.create_task(
        interleave.agenerate(
            "A day in 4 pictures", profile="dry-run", generator="solid?delay=0.1", out="runs/day"
        )
    )
    await asyncio.sleep(0.5)
    slow.cancel()
    await asyncio.wait([slow])
    print(f"cancelled: {slow.cancelled()}")

    async for event in interleave.stream_resume("runs/day"):
        match event:
            case interleave.StepFinished(step=step):
                print(f"step {step.number}: {step.text}")
            case interleave.RunResult(status=status, document=document):
                print(f"{status}: {document}")


if __name__ == "__main__":
    asyncio.run(main())
