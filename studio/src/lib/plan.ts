/** Editing a plan: each step has a key of its own, so that rows keep their focus when steps move. */
import type { EditedPlan, Plan } from "./types";
import { text } from "./text";

export interface Draft {
  key: number;
  name: string;
  caption: string;
  instruction: string | null;
  prompt: string;
  textOnly: boolean;
  /** The keys of the steps whose pictures this one starts from; null where the run's own rule decides. */
  sources: number[] | null;
}

let keys = 0;

export function drafts(plan: Plan): Draft[] {
  const keyOf = new Map(plan.steps.map((step) => [step.number, ++keys]));
  return plan.steps.map((step) => ({
    key: keyOf.get(step.number) ?? 0,
    name: step.name ?? "",
    caption: step.caption ?? step.instruction ?? "",
    instruction: step.caption ? step.instruction : null,
    prompt: step.prompt ?? "",
    textOnly: step.prompt === null,
    sources: step.sources?.map((number) => keyOf.get(number) ?? 0) ?? null,
  }));
}

export function emptyDraft(): Draft {
  return { key: ++keys, name: "", caption: "", instruction: null, prompt: "", textOnly: false, sources: null };
}

/** What keeps a plan from being drawn; empty where nothing does. */
export function problemsOf(steps: Draft[]): string[] {
  return steps.flatMap((step, place) => {
    if (step.textOnly) return step.caption.trim() || step.name.trim() ? [] : [text.plan.needsSomething(place + 1)];
    return step.prompt.trim() ? [] : [text.plan.needsPrompt(place + 1)];
  });
}

/** The edited plan. A step that started from one that now comes later, or has no picture, follows the rule. */
export function planOf(steps: Draft[], first: number): EditedPlan {
  const sourcesOf = (step: Draft, place: number): number[] | null => {
    const places = step.sources?.map((key) => steps.findIndex((each) => each.key === key));
    const usable = places?.every((at) => at >= 0 && at < place && !steps[at]?.textOnly);
    return places && usable ? places.map((at) => first + at) : null;
  };
  return {
    steps: steps.map((step, place) => ({
      number: first + place,
      name: step.name.trim() || null,
      instruction: step.instruction,
      prompt: step.textOnly ? null : step.prompt.trim(),
      caption: step.caption.trim() || null,
      sources: sourcesOf(step, place),
    })),
  };
}

/** Whether two plans would be drawn the same way and read the same. */
export function samePlan(a: Draft[], b: Draft[]): boolean {
  const plain = (steps: Draft[]): string =>
    JSON.stringify(steps.map((s) => [s.name, s.caption, s.textOnly ? null : s.prompt]));
  return plain(a) === plain(b);
}

/** The steps with the one at `from` moved to `to`; the same steps where that is outside. */
export function moved<T>(steps: T[], from: number, to: number): T[] {
  if (to < 0 || to >= steps.length) return steps;
  const result = [...steps];
  result.splice(to, 0, ...result.splice(from, 1));
  return result;
}
