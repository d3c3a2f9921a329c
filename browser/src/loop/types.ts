/** Values of the loop, with the names that the Python package writes to JSON. */

import type { Pixels } from "../engine/messages";

export interface PlanStep {
  number: number;
  name: string | null;
  instruction: string | null;
  /** Prompt for the generator; `null` for a step of text only. */
  prompt: string | null;
  caption: string | null;
}
export interface Plan {
  steps: PlanStep[];
  reasoning: string;
  /** What was corrected, exchanged or left out when the request was read, if anything was. */
  notes?: string[];
}
/** What a planner asks back if its plan does not fit the request. */
export interface Question {
  text: string;
  /** Things of the request that the plan has. */
  understood: string[];
  /** What the plan lacks, or has against the request. */
  missing: string[];
}
export type Outcome = "accepted" | "rejected" | "unreadable";
export interface Verdict {
  outcome: Outcome;
  reasoning: string;
  refined_prompt: string | null;
  /** The critic's probability that the image is right. */
  confidence: number | null;
}
export interface Slot {
  step: number;
  attempt: number;
}
export interface Attempt {
  number: number;
  prompt: string;
  seed: number;
  image: Pixels;
  verdict: Verdict;
}
export type LoopEvent =
  | { type: "planned"; plan: Plan }
  | { type: "drawn"; slot: Slot; prompt: string; seed: number; image: Pixels }
  | { type: "judged"; slot: Slot; verdict: Verdict }
  | { type: "finished"; step: PlanStep; attempt: Attempt | null; forced: boolean };

/** A model's reply that cannot be used; `problem` says why, for the model. */
export class ReplyError extends Error {
  constructor(
    readonly problem: string,
    readonly reply: string,
  ) {
    super(problem);
  }
}

/** The plan does not fit the request: nothing is drawn, and the user is asked. */
export class Asked extends Error {
  constructor(
    readonly question: Question,
    /** The plan that does not fit, to edit. */
    readonly plan: Plan,
  ) {
    super(question.text);
  }
}

/** Text of a step for readers. */
export function textOf(step: PlanStep): string {
  return step.caption || step.instruction || step.name || "";
}
