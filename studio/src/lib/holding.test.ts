import { describe, expect, it } from "vitest";
import { decisionsOfRun, holdingOf, worstOf } from "./holding";

describe("how well pictures hold together", () => {
  const drift = { changed: 0.2, outside: 3.1, likeness: 0.98, from_start: null, identity: { fox: 0.5 } };
  const facts = {
    steps: [{ number: 1, drift: null }, { number: 2, drift }],
    decisions: [
      { kind: "redraw", step: 2, cause: "rollback", undone: true },
      { kind: "redraw", step: 1, cause: null, undone: false },
      { kind: "redraw", step: 3, cause: "drift", undone: false },
    ],
    audits: [{ round: 1, findings: [{ step: 2, reasoning: "blue" }] }, { round: 2, findings: [] }],
  } as unknown as Parameters<typeof holdingOf>[0];

  it("is told of the steps that were measured", () => {
    expect(holdingOf(facts)).toEqual([{ number: 2, drift }]);
    expect(worstOf(holdingOf(facts))).toBe(3.1);
    expect(worstOf([])).toBe(0);
  });

  it("is followed by what the run decided itself, with its cause", () => {
    expect(decisionsOfRun(facts)).toEqual([
      "Went back to step 2 and drew it again, which was no better and was undone.",
      "Drew step 3 anew from its whole scene, because it had drifted.",
      "Look 1 at the whole document: step 2 was redone (blue).",
      "Look 2 at the whole document: nothing contradicts the rest.",
    ]);
  });
});
