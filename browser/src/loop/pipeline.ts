/**
 * Plan, draw, judge, redraw: `src/interleave/pipeline.py`, for one chain of steps. Test vectors hold both to each other.
 *
 * A planner writes the whole plan. A generator draws each step from the previous image. A critic sees the images before
 * and after; if it rejects the new one, the step is redrawn with the critic's prompt, always from the same source.
 */

import { seedFrom } from "../engine/files";
import type { Pixels } from "../engine/messages";
import type { CriticInput } from "./agents";
import type { Attempt, LoopEvent, Plan, PlanStep, Slot, Verdict } from "./types";

export interface Rules {
  maxAttempts: number;
  seed: number;
}
export interface Models {
  plan(): Promise<Plan>;
  draw(prompt: string, seed: number, sources: readonly Pixels[]): Promise<Pixels>;
  judge(seen: CriticInput): Promise<Verdict>;
}

/** Answer a request step by step and yield an event for everything that happens. */
export async function* interleave(models: Models, rules: Rules): AsyncGenerator<LoopEvent> {
  const plan = await models.plan();
  yield { type: "planned", plan };
  let before: Pixels | null = null;
  for (const step of plan.steps) {
    const attempt: Attempt | null = yield* drawStep(step, before, models, rules);
    before = attempt?.image ?? before;
  }
}

/** Draw one step until the critic accepts it, and return the attempt to show. */
async function* drawStep(
  step: PlanStep,
  before: Pixels | null,
  models: Models,
  rules: Rules,
): AsyncGenerator<LoopEvent, Attempt | null> {
  let best: Attempt | null = null;
  let prompt = step.prompt;
  for (let number = 1; step.prompt !== null && prompt !== null && number <= rules.maxAttempts; number++) {
    const slot: Slot = { step: step.number, attempt: number };
    const seed = seedFrom(`${rules.seed}/${slot.step}/${slot.attempt}`);
    const image = await models.draw(prompt, seed, before ? [before] : []);
    yield { type: "drawn", slot, prompt, seed, image };
    // The critic always sees a pair.
    const verdict = await models.judge({ planned: step.prompt, prompt, before: before ?? whiteCanvas(image), after: image });
    yield { type: "judged", slot, verdict };
    best = betterOf(best, { number, prompt, seed, image, verdict });
    if (verdict.outcome === "accepted") break;
    prompt = verdict.outcome === "unreadable" ? prompt : verdict.refined_prompt || step.prompt;
  }
  yield { type: "finished", step, attempt: best, forced: best !== null && best.verdict.outcome !== "accepted" };
  return best;
}

/** The accepted attempt, else the one with the higher confidence, else the latest. */
export function betterOf(best: Attempt | null, latest: Attempt): Attempt {
  if (!best || latest.verdict.outcome === "accepted") return latest;
  const [before, now] = [best.verdict.confidence, latest.verdict.confidence];
  return before === null || (now !== null && now >= before) ? latest : best;
}

function whiteCanvas({ width, height }: Pixels): Pixels {
  return { width, height, rgb: new Uint8Array(width * height * 3).fill(255) };
}
