/** A document so far: the fold of the loop's events, from which the page and the exports are written. */

import type { Wish } from "../engine/engine";
import type { Attempt, LoopEvent, Plan, PlanStep, Slot, Verdict } from "../loop/types";

export interface ShownAttempt {
  number: number;
  prompt: string;
  seed: number;
  /** The image as a data URL. */
  image: string;
  verdict: Verdict | null;
}
export interface ShownStep {
  plan: PlanStep;
  attempts: ShownAttempt[];
  /** The attempt to show, once the step is finished. */
  shown: ShownAttempt | null;
  state: "waiting" | "drawing" | "judging" | "finished";
  forced: boolean;
}
export interface Record {
  request: string;
  /** How it was made: with things exchanged, or from a plan that the user has mended. */
  choices: Choices;
  seed: number;
  plan: Plan | null;
  steps: ShownStep[];
  state: "planning" | "drawing" | "done" | "stopped" | "failed";
}

export type Choices = Omit<Wish, "request">;

export function begin({ request, ...choices }: Wish, seed: number): Record {
  return { request, choices, seed, plan: null, steps: [], state: "planning" };
}

/** Add an event; returns the step that it changes, if it changes one. */
export function fold(record: Record, event: LoopEvent, imageUrl: (image: Attempt["image"]) => string): ShownStep | null {
  if (event.type === "planned") {
    record.plan = event.plan;
    record.state = "drawing";
    record.steps = event.plan.steps.map((plan) => ({ plan, attempts: [], shown: null, state: "waiting", forced: false }));
    startNext(record);
    return null;
  }
  const number = event.type === "finished" ? event.step.number : event.slot.step;
  const step = record.steps.find((each) => each.plan.number === number)!;
  if (event.type === "drawn") {
    const { slot, prompt, seed, image } = event;
    step.attempts.push({ number: slot.attempt, prompt, seed, image: imageUrl(image), verdict: null });
    step.state = "judging";
  } else if (event.type === "judged") {
    attemptOf(step, event.slot).verdict = event.verdict;
    step.state = "drawing";
  } else {
    step.shown = event.attempt ? attemptOf(step, { step: number, attempt: event.attempt.number }) : null;
    step.forced = event.forced;
    step.state = "finished";
    startNext(record);
  }
  return step;
}

function startNext(record: Record): void {
  const next = record.steps.find((step) => step.state === "waiting");
  if (next) next.state = "drawing";
}

function attemptOf(step: ShownStep, slot: Slot): ShownAttempt {
  return step.attempts.find((attempt) => attempt.number === slot.attempt)!;
}

/** What was corrected, exchanged or left out, as sentences. */
export function notesOf({ plan }: Record): string[] {
  return (plan?.notes ?? []).map((note) => `${note[0]!.toUpperCase()}${note.slice(1)}.`);
}

/** The image of a step so far. */
export function imageOf(step: ShownStep): ShownAttempt | null {
  return step.shown ?? step.attempts.at(-1) ?? null;
}
