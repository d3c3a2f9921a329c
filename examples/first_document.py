"""First document: from a request to text and images.

    python examples/first_document.py

Needs no GPU, API keys or network: without a profile, the small models in this package plan, draw and judge.
"""

import interleave

REQUEST = "How a frog grows up, step by step, in four pictures"


def main() -> None:
    # Only the plan: the planner writes every step before the first image is drawn.
    plan = interleave.plan(REQUEST)
    for step in plan.steps:
        print(f"{step.number}. {step.text}  [prompt: {step.prompt}]")

    # Plan, draw, judge, redraw. The same call on the same folder resumes a stopped run,
    # and returns a finished one without calling any model again.
    run = interleave.generate(REQUEST, plan=plan, out="runs/first-document")
    for shown in run.steps:
        print(f"step {shown.number}: {shown.image}{'  (no attempt was accepted)' if shown.forced else ''}")

    # Every attempt is recorded, with its prompt and the critic's verdict.
    for drawn in run.record.steps:
        for attempt in drawn.attempts:
            assert attempt.verdict is not None
            print(f"step {drawn.plan.number}, attempt {attempt.number}: {attempt.verdict.outcome}")

    print(f"{run.status}: open {run.document} in a browser")


if __name__ == "__main__":
    main()
