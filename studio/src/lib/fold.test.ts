import { describe, expect, it } from "vitest";
import { emptyRun, fold, nameOf, shownAttempt, textOf, visibleAttempt, type RunState } from "./fold";
import type { JournalEvent, PlanStep } from "./types";

const step = (number: number, prompt: string | null = `draw ${number}`): PlanStep => ({
  number, name: `Name ${number}`, instruction: null, prompt, caption: `Text ${number}`, sources: null,
});

/** A line with only the fields under test. */
type Line = { type: string } & Record<string, unknown>;

const plan = { type: "planned", plan: { steps: [step(1), step(2, null), step(3)] } };

function attempt(at: number, number: number, outcome: "accepted" | "rejected" = "accepted", call = number): Line[] {
  const verdict = { outcome, reasoning: `${outcome} ${at}.${number}`, refined_prompt: null, confidence: 0.5 };
  const place = { step: at, attempt: number };
  return [
    { type: "called", role: "generator", call: 10 * at + call, ...place, time: 1 },
    { type: "drawn", role: "generator", call: 10 * at + call, ...place, prompt: `draw ${at}`, seed: 7, picture: `/p${at}.${number}`, seconds: 2 },
    { type: "called", role: "critic", call: 10 * at + call, ...place },
    { type: "replied", role: "critic", call: 10 * at + call, ...place, text: "raw", finish_reason: "stop", seconds: 1 },
    { type: "judged", ...place, verdict },
  ];
}

const finished = (at: number, number: number | null, forced = false): Line => ({
  type: "step_finished", step: at, attempt: number, accepted: !forced, forced,
});

function numbered(line: Line, number: number): JournalEvent {
  return { keep: {}, error: null, ...line, sequence_number: number } as unknown as JournalEvent;
}

function run(...lines: Line[]): RunState {
  const state = emptyRun();
  lines.forEach((line, number) => fold(state, numbered(line, number)));
  return state;
}

const begun: Line[] = [{ type: "job.queued" }, { type: "started" }];
const complete = [
  ...begun, plan, ...attempt(1, 1), finished(1, 1), finished(2, null), ...attempt(3, 1, "rejected"), ...attempt(3, 2), finished(3, 2),
  { type: "ended", status: "done", reason: "" }, { type: "job.completed" },
];

describe("the state of a run", () => {
  it("waits, plans, draws and ends", () => {
    expect(run().phase).toBe("waiting");
    expect(run(...begun).phase).toBe("planning");
    expect(run(...begun, plan).phase).toBe("drawing");
    expect(run(...complete)).toMatchObject({ phase: "ended", status: "completed" });
  });

  it("is the same if events come once, twice, or over two connections", () => {
    const once = run(...complete);
    const twice = emptyRun();
    const events = complete.map(numbered);
    for (const event of [...events.slice(0, 9), ...events.slice(4), ...events]) fold(twice, event);
    expect(twice).toEqual(once);
  });

  it("skips unknown events", () => {
    const known = run(...begun);
    const more = run(...begun, { type: "something_new" });
    expect({ ...more, last: known.last }).toEqual(known);
  });

  it("holds a plan until it is released, perhaps edited", () => {
    const held = run(...begun, plan, { type: "ended", status: "held" }, { type: "job.held" });
    expect(held).toMatchObject({ phase: "held", status: "held" });
    fold(held, numbered({ type: "plan_released", plan: { steps: [step(1), step(2), step(3), step(4)] } }, 90));
    expect(held.steps).toHaveLength(4);
    expect(held.steps[1]?.plan.prompt).toBe("draw 2");
  });

  it("asks about a plan that does not fit, and holds it", () => {
    const asked = run(...begun, plan, { type: "ended", status: "asked", reason: "where is the dog?" }, { type: "job.asked" });
    expect(asked).toMatchObject({ phase: "held", status: "asked", reason: "where is the dog?" });
  });
});

describe("a step", () => {
  it("shows the critic's reasoning while it is redrawn", () => {
    const state = run(...begun, plan, ...attempt(1, 1, "rejected"), { type: "called", role: "generator", call: 99, step: 1, attempt: 2 });
    const now = state.steps[0]!;
    expect(now).toMatchObject({ state: "drawing", current: 2 });
    expect(visibleAttempt(now)?.verdict?.reasoning).toBe("rejected 1.1");
  });

  it("shows the attempt that the run chose, with its time and raw replies", () => {
    const last = run(...complete).steps[2]!;
    expect(shownAttempt(last)?.number).toBe(2);
    expect(last.attempts[0]).toMatchObject({ drawSeconds: 2, seed: 7, replies: [{ text: "raw", seconds: 1 }] });
  });

  it("is forced if nothing was accepted", () => {
    const state = run(...begun, plan, ...attempt(1, 1, "rejected"), finished(1, 1, true));
    expect(state.steps[0]).toMatchObject({ forced: true, accepted: false, state: "finished" });
  });

  it("has no attempt if it is text only", () => {
    const text = run(...complete).steps[1]!;
    expect(text).toMatchObject({ state: "finished", shown: null, attempts: [] });
    expect(visibleAttempt(text)).toBeNull();
  });

  it("keeps its old image in view while another is drawn", () => {
    const state = run(...complete, { type: "job.queued" }, { type: "redraw_decided", step: 1, keep: { "3": 2 } }, { type: "continued" });
    expect(state.phase).toBe("drawing");
    expect(state.steps.map((each) => each.state)).toEqual(["waiting", "finished", "finished"]);
    expect(visibleAttempt(state.steps[0]!)?.image).toBe("/p1.1");
  });

  it("goes back to an earlier attempt when a decision is undone", () => {
    const state = run(
      ...complete, { type: "job.queued" }, { type: "redraw_decided", step: 3, keep: {} }, { type: "continued" },
      ...attempt(3, 3, "accepted", 5), finished(3, 3), { type: "job.completed" },
      { type: "job.queued" }, { type: "undone" }, { type: "continued" }, finished(3, 2), { type: "job.completed" },
    );
    expect(state.steps[2]?.shown).toBe(2);
    expect(state.steps[2]?.attempts).toHaveLength(3);
  });

  it("stops drawing when the job is stopped", () => {
    const state = run(...begun, plan, { type: "called", role: "generator", call: 1, step: 1, attempt: 1 }, { type: "job.cancelled" });
    expect(state.steps[0]?.state).toBe("waiting");
    expect(state.calls[0]?.state).toBe("failed");
  });

  it("has a text, and a name if it differs", () => {
    expect(textOf({ ...step(1), caption: null, instruction: "Do it" })).toBe("Do it");
    expect(nameOf({ ...step(1), caption: null, instruction: null })).toBe("");
  });
});

describe("calls", () => {
  it("keep their number and errors when retried", () => {
    const call = { role: "planner" as const, call: 1 };
    const state = run(
      ...begun, { type: "called", ...call }, { type: "call_failed", ...call, error: "busy", transient: true },
      { type: "called", ...call }, { type: "replied", ...call, text: "plan", finish_reason: "stop", seconds: 3 },
    );
    expect(state.calls).toHaveLength(1);
    expect(state.calls[0]).toMatchObject({ state: "done", errors: ["busy"], seconds: 3, reply: { text: "plan" } });
  });
});
