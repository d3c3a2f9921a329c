/** The document as readers see it: a run's steps with the words, order and visibility that a person gave them. */
import { nameOf, textOf, visibleAttempt, type RunState, type Step } from "./fold";
import type { DocumentFacts, Words } from "./types";

export interface ShownStep {
  step: Step;
  /** The number to show: its place, counted on from the first step of the plan. */
  shown: number;
  name: string;
  text: string;
  alt: string;
  /** The prompt of its image, after redraws. */
  prompt: string;
  hidden: boolean;
  /** Whether its text was written for another image than the one it has now. */
  outdated: boolean;
}

type Seen = Pick<DocumentFacts, "words" | "steps" | "plan"> | null;

/** All steps in the order of the document, hidden ones too. A hidden step has the number of the next one. */
export function allSteps(run: RunState, facts: Seen): ShownStep[] {
  const words = new Map(facts?.words?.steps.map((each) => [each.number, each]));
  const outdated = new Set(facts?.steps?.filter((each) => each.words_for !== null).map((each) => each.number));
  const prompts = new Map(facts?.plan?.steps.map((each) => [each.number, each.prompt ?? ""]));
  const order = facts?.words?.order ?? [];
  const known = run.steps.filter((each) => order.includes(each.plan.number));
  const rest = run.steps.filter((each) => !order.includes(each.plan.number));
  known.sort((a, b) => order.indexOf(a.plan.number) - order.indexOf(b.plan.number));
  const first = run.steps[0]?.plan.number ?? 1;
  let place = 0;
  return [...known, ...rest].map((step) => {
    const own = words.get(step.plan.number);
    const text = own ? own.text : textOf(step.plan);
    const name = own ? (own.name === text ? "" : own.name) : nameOf(step.plan);
    const hidden = own?.hidden ?? false;
    const shown = first + (hidden ? place : place++);
    const alt = own?.alt || text || name || (visibleAttempt(step)?.prompt ?? "");
    const prompt = prompts.get(step.plan.number) ?? step.plan.prompt ?? "";
    return { step, shown, name, text, alt, prompt, hidden, outdated: outdated.has(step.plan.number) };
  });
}

/** The steps that readers see. */
export function shownSteps(run: RunState, facts: Seen): ShownStep[] {
  return allSteps(run, facts).filter((each) => !each.hidden);
}

/** A changed field: "title", or a step's number and "name", "text" or "alt", such as "3.text". */
export type Field = string;

export function wordOf(words: Words | null | undefined, field: Field): string {
  if (field === "title") return words?.title ?? "";
  const [number, what] = field.split(".");
  const step = words?.steps.find((each) => each.number === Number(number));
  return (what === "name" ? step?.name : what === "alt" ? step?.alt : step?.text) ?? "";
}

export interface WordsChange {
  title?: string;
  order?: number[];
  steps?: { number: number; name?: string; text?: string; alt?: string; hidden?: boolean }[];
  keep?: number[];
}

export function changeOf(field: Field, value: string): WordsChange {
  if (field === "title") return { title: value };
  const [number, what = "text"] = field.split(".");
  return { steps: [{ number: Number(number), [what]: value }] };
}

/** The order after moving a step by one place. */
export function movedOrder(order: number[], number: number, by: -1 | 1): number[] {
  const from = order.indexOf(number);
  const to = from + by;
  if (from < 0 || to < 0 || to >= order.length) return order;
  const result = [...order];
  result.splice(to, 0, ...result.splice(from, 1));
  return result;
}
