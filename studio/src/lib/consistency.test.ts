import { describe, expect, it } from "vitest";
import { decisionsOfRun, measuredSteps, worstOf } from "./consistency";

describe("image consistency", () => {
  const drift = { changed: 0.2, outside: 3.1, likeness: 0.98, from_start: null, identity: { fox: 0.5 } };
  const facts = {
    steps: [{ number: 1, drift: null }, { number: 2, drift }],
    decisions: [
      { kind: "redraw", step: 2, cause: "rollback", undone: true },
      { kind: "redraw", step: 1, cause: null, undone: false },
      { kind: "redraw", step: 3, cause: "drift", undone: false },
    ],
    audits: [{ round: 1, findings: [{ step: 2, reasoning: "blue" }] }, { round: 2, findings: [] }],
  } as unknown as Parameters<typeof measuredSteps>[0];

  it("lists measured steps", () => {
    expect(measuredSteps(facts)).toEqual([{ number: 2, drift }]);
    expect(worstOf(measuredSteps(facts))).toBe(3.1);
    expect(worstOf([])).toBe(0);
  });

  it("lists automatic decisions with their causes", () => {
    expect(decisionsOfRun(facts)).toEqual([
      "Went back to step 2 and redrew it; undone, because it was no better.",
      "Redrew step 3 from its scene because it had drifted.",
      "Audit 1 of the whole document: step 2 was redrawn (blue).",
      "Audit 2 of the whole document: no contradictions.",
    ]);
  });
});
