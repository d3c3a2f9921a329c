/** Planner and critic: a model, the words that it is asked with, and a reply that it may correct. */

import { TooLong, type Pause, type Reply, type Sampling } from "../engine/language-model";
import type { Message, Part, Pixels } from "../engine/messages";
import type { Accepted } from "../reading/requests";
import { parsePlan, parseVerdict } from "./replies";
import { Asked, ReplyError, type Plan, type Question, type Verdict } from "./types";

const REASKS = 3;
const REASK_TEMPERATURE = 0.7;
const QUOTED_CHARACTERS = 1500;
const MAX_TOKENS = 4096;
const GREEDY: Sampling = { temperature: 0, seed: 0, maxTokens: MAX_TOKENS };

export interface Model {
  complete(messages: readonly Message[], sampling: Sampling, pause: Pause): Promise<Reply>;
}
/** Prompts of a pack, each as its messages with text and slots in turn: text, slot, text, slot, …, text. */
export type Pack = Record<"planner_text" | "critic" | "reask", { role: "system" | "user"; pieces: string[] }[]>;
type Slots = Record<string, Part>;

export interface CriticInput {
  planned: string;
  /** Prompt of this attempt. */
  prompt: string;
  before: Pixels;
  after: Pixels;
}

/** What finds out whether a plan fits its request. */
export interface Checks {
  /** The plan with slips corrected that change nothing of what is asked for. */
  mended(plan: Plan): Plan;
  /** The number of steps that a request names, if any. */
  wanted(text: string): number | null;
  /** What to ask the user about a plan, by rule. */
  question(request: Accepted, plan: Plan): Question | null;
  /** What to ask the user if the critic finds that a plan without a problem does not fit. */
  doubt(request: Accepted, plan: Plan): Promise<Question | null>;
}

/** Write the plan of a request. If it has a problem or is doubted, throw `Asked`. */
export async function plan(model: Model, pack: Pack, request: Accepted, checks: Checks, maxSteps: number, pause: Pause): Promise<Plan> {
  const read = (reply: Reply) => {
    const found = checks.mended(parsePlan(reply));
    const question = checks.question(request, found);
    if (question) throw new Asked(question, withReading(request, found));
    const problem = problemOf(found, checks.wanted(request.text), maxSteps);
    if (problem) throw new ReplyError(problem, reply.text);
    return found;
  };
  const found = await ask(model, filled(pack, "planner_text", { request: request.text }), read, pack, pause);
  const doubt = await checks.doubt(request, found);
  if (doubt) throw new Asked(doubt, withReading(request, found));
  return withReading(request, found);
}

/** The plan with the notes of its request and, if it has a step for each, the user's own sentences. */
function withReading({ captions, notes }: Accepted, plan: Plan): Plan {
  const isOwn = captions.length === plan.steps.length;
  const told = notes.length ? { ...plan, notes } : plan;
  return { ...told, steps: isOwn ? plan.steps.map((step, place) => ({ ...step, caption: captions[place]! })) : plan.steps };
}

function problemOf({ steps }: Plan, wanted: number | null, maxSteps: number): string {
  if (steps.length > maxSteps) return `the plan has ${steps.length} steps, and at most ${maxSteps} are allowed`;
  const have = steps.length === 1 ? "1 step" : `${steps.length} steps`;
  if (wanted !== null && steps.length !== wanted) return `the plan has ${have}, and the user asked for exactly ${wanted}`;
  return steps[0]!.number === 1 ? "" : `the first step must have number 1, not ${steps[0]!.number}`;
}

/** Judge one attempt. An unreadable reply is an outcome of its own, not a rejection. */
export async function judge(model: Model, pack: Pack, seen: CriticInput, pause: Pause): Promise<Verdict> {
  let askedForPrompt = false;
  const read = (reply: Reply) => {
    const verdict = parseVerdict(reply);
    if (verdict.outcome === "rejected" && verdict.refined_prompt === null && !askedForPrompt) {
      askedForPrompt = true;
      throw new ReplyError("the picture is refused, but no better prompt is given: write one", reply.text);
    }
    return verdict;
  };
  const { planned, prompt, before, after } = seen;
  const messages = filled(pack, "critic", { planned_prompt: planned, prompt, before, after });
  try {
    return await ask(model, messages, read, pack, pause);
  } catch (error) {
    if (!(error instanceof ReplyError)) throw error;
    return { outcome: "unreadable", reasoning: error.problem, refined_prompt: null, confidence: null };
  }
}

/** The value that `read` parses from a reply; a bad reply is asked again, from the second time on sampled. */
async function ask<T>(model: Model, messages: readonly Message[], read: (reply: Reply) => T, pack: Pack, pause: Pause): Promise<T> {
  let asked = messages;
  let unread: ReplyError | undefined;
  for (let reasks = 0; ; reasks++) {
    const sampling = reasks < 2 ? GREEDY : { ...GREEDY, temperature: REASK_TEMPERATURE, seed: reasks - 1 };
    let reply: Reply;
    try {
      reply = await model.complete(asked, sampling, pause);
    } catch (error) {
      throw unread && error instanceof TooLong ? unread : error; // with the complaint, the prompt is too long
    }
    try {
      return read(reply);
    } catch (error) {
      if (!(error instanceof ReplyError) || reasks === REASKS) throw error;
      unread = error;
      const quoted = reply.text.slice(0, QUOTED_CHARACTERS).trim();
      const answered: Message[] = quoted ? [{ role: "assistant", parts: [quoted] }] : [];
      asked = [...messages, ...answered, ...filled(pack, "reask", { problem: error.problem })];
    }
  }
}

function filled(pack: Pack, prompt: keyof Pack, slots: Slots): Message[] {
  return pack[prompt].map(({ role, pieces }) => {
    const parts = pieces.map((piece, place) => (place % 2 ? slots[piece]! : piece));
    return { role, parts: parts.filter((part) => part !== "") };
  });
}
