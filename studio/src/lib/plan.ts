/** Editing a plan. Each step has a unique key, so that rows keep their focus when steps move. */
import type { Asset, EditedPlan, Plan, PlanStep } from "./types";
import { text } from "./text";

export interface Draft {
  key: number;
  name: string;
  caption: string;
  instruction: string | null;
  prompt: string;
  textOnly: boolean;
  /** Keys of the steps whose images this one starts from; null for the run's default rule. */
  sources: number[] | null;
  /** Keys of the steps it depends on; null for the previous one. */
  needs: number[] | null;
  /** The assets it shows; null to derive them from its texts. */
  assets: string[] | null;
  /** Description of the whole image; null if the plan has none. */
  scene: string | null;
  /** Words set upon its image, which the editor keeps as they are. */
  lettering?: PlanStep["lettering"];
}

/** An asset of a plan, with the key of the step it is taken from. */
export interface AssetDraft extends Omit<Asset, "step"> {
  from: number | null;
}

/** A plan being edited. */
export interface PlanDraft {
  steps: Draft[];
  assets: AssetDraft[];
}

let keys = 0;

export function draftOf(plan: Plan): PlanDraft {
  // The same keys in every tab and after a reload, so that a kept draft can be compared with its plan.
  const keyOf = new Map(plan.steps.map((step) => [step.number, step.number]));
  keys = Math.max(keys, ...keyOf.values());
  const assets = (plan.assets ?? []).map(({ step, ...asset }) => ({
    ...asset,
    from: step === null ? null : (keyOf.get(step) ?? null),
  }));
  return { steps: stepsOf(plan, keyOf), assets };
}

function stepsOf(plan: Plan, keyOf: Map<number, number>): Draft[] {
  return plan.steps.map((step) => ({
    key: keyOf.get(step.number) ?? 0,
    name: step.name ?? "",
    caption: step.caption ?? step.instruction ?? "",
    instruction: step.caption ? step.instruction : null,
    prompt: step.prompt ?? "",
    textOnly: step.prompt === null,
    sources: step.sources?.map((number) => keyOf.get(number) ?? 0) ?? null,
    needs: step.needs?.map((number) => keyOf.get(number) ?? 0) ?? null,
    assets: step.assets ?? null,
    scene: step.scene ?? null,
    lettering: step.lettering,
  }));
}

export function emptyDraft(): Draft {
  return { key: ++keys, name: "", caption: "", instruction: null, prompt: "", textOnly: false, sources: null, needs: null, assets: null, scene: null };
}

export interface StepProblem {
  step: number;
  text: string;
}

/** Reasons why a plan cannot be drawn, by step; empty if it can. */
export function problemsOf(steps: Draft[], first = 1): StepProblem[] {
  return steps.flatMap((each, place) => {
    const step = first + place;
    if (each.textOnly) return each.caption.trim() || each.name.trim() ? [] : [{ step, text: text.plan.needsSomething(step) }];
    return each.prompt.trim() ? [] : [{ step, text: text.plan.needsPrompt(step) }];
  });
}

/** Reserves the keys of a draft from earlier, so that new steps get others. */
export function seenKeys(draft: PlanDraft): PlanDraft {
  keys = Math.max(keys, ...draft.steps.map((step) => step.key));
  return draft;
}

/**
 * The edited plan. If a step's source now comes later or has no image, the step follows the default rule, and an
 * asset taken from it keeps only its description.
 */
export function planOf({ steps, assets }: PlanDraft, first: number): EditedPlan {
  const sourcesOf = (step: Draft, place: number): number[] | null => {
    const places = step.sources?.map((key) => steps.findIndex((each) => each.key === key));
    const usable = places?.every((at) => at >= 0 && at < place && !steps[at]?.textOnly);
    return places && usable ? places.map((at) => first + at) : null;
  };
  const needsOf = (step: Draft, place: number): number[] | null => {
    const places = step.needs?.map((key) => steps.findIndex((each) => each.key === key));
    return places?.every((at) => at >= 0 && at < place) ? places.map((at) => first + at) : null;
  };
  return {
    steps: steps.map((step, place) => ({
      number: first + place,
      name: step.name.trim() || null,
      instruction: step.instruction,
      prompt: step.textOnly ? null : step.prompt.trim(),
      caption: step.caption.trim() || null,
      sources: sourcesOf(step, place),
      needs: needsOf(step, place),
      assets: step.assets,
      scene: step.scene?.trim() || null,
      lettering: step.textOnly ? null : step.lettering,
    })),
    assets: assets.map(({ from, ...asset }) => {
      const place = steps.findIndex((step) => step.key === from && !step.textOnly);
      return { ...asset, description: asset.description.trim(), step: place < 0 ? null : first + place };
    }),
  };
}

/** Whether two plans have equal images and texts. */
export function samePlan(a: PlanDraft, b: PlanDraft): boolean {
  const plain = ({ steps, assets }: PlanDraft): string =>
    JSON.stringify([steps.map((s) => [s.name, s.caption, s.scene, s.textOnly ? null : s.prompt]), assets]);
  return plain(a) === plain(b);
}

/** Moves the step at `from` to `to`. Returns `steps` unchanged if `to` is out of range. */
export function moved<T>(steps: T[], from: number, to: number): T[] {
  if (to < 0 || to >= steps.length) return steps;
  const result = [...steps];
  result.splice(to, 0, ...result.splice(from, 1));
  return result;
}
