import { describe, expect, it } from "vitest";
import { emptyRun, type Call, type RunState, type Step } from "./fold";
import { secondsLeft, stepSeconds } from "./waiting.svelte";

const step = (number: number, state: Step["state"]): Step =>
  ({ plan: { number, prompt: "a frog" }, state, attempts: state === "finished" ? [{}] : [] }) as unknown as Step;
const call = (number: number, seconds: number): Call => ({ step: number, seconds }) as unknown as Call;
const run = (steps: Step[], calls: Call[] = []): RunState => ({ ...emptyRun(), steps, calls });

describe("the time left", () => {
  it("is that of the steps drawn so far", () => {
    const drawing = run([step(1, "finished"), step(2, "drawing"), step(3, "waiting")], [call(1, 3), call(1, 1)]);
    expect(stepSeconds(drawing)).toEqual([4]);
    expect(secondsLeft(drawing, 100, 1)).toBe(7);
    expect(secondsLeft(drawing, 100, 99)).toBe(4);
  });

  it("is that of earlier documents before the first step is drawn", () => {
    expect(secondsLeft(run([step(1, "drawing"), step(2, "waiting")]), 5, 2)).toBe(8);
    expect(secondsLeft(run([step(1, "drawing")]), null, 2)).toBeNull();
  });
});
