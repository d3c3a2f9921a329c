/** How long a document still takes, from its own steps, or from earlier documents of the same models. */
import { api } from "./api";
import type { RunState } from "./fold";

/** Seconds that each finished step took, in the order of the plan. */
export function stepSeconds(run: RunState): number[] {
  const finished = run.steps.filter((step) => step.state === "finished" && step.attempts.length);
  return finished.map((step) =>
    run.calls.filter((call) => call.step === step.plan.number).reduce((sum, call) => sum + (call.seconds ?? 0), 0),
  );
}

/** Seconds until the last step is drawn; null if nothing is known yet. `perStep` is of earlier documents. */
export function secondsLeft(run: RunState, perStep: number | null, inStep: number): number | null {
  const open = run.steps.filter((step) => step.state !== "finished" && step.plan.prompt !== null).length;
  const known = stepSeconds(run);
  const each = known.length ? known.reduce((sum, seconds) => sum + seconds, 0) / known.length : perStep;
  if (each === null || !run.steps.length) return null;
  return Math.max(0, open * each - Math.min(inStep, each));
}

/** Seconds per step of the newest documents of a profile; null if there are none. */
export async function earlierSeconds(profile: string): Promise<number | null> {
  const page = await api.gallery(new URLSearchParams({ profile, outcome: "completed", limit: "10" })).catch(() => null);
  const each = (page?.data ?? []).flatMap((item) => (item.seconds && item.steps && !item.parent ? [item.seconds / item.steps] : []));
  return each.length ? each.sort((one, two) => one - two)[Math.floor(each.length / 2)] ?? null : null;
}
