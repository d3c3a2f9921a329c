/** Runs side by side: steps in rows, with differences from the baseline run. */
import type { AttemptFacts, DocumentFacts, StepFacts } from "./types";

export const MAX_RUNS = 8;
export const DIFFERENCES = ["text", "prompt", "verdict", "image"] as const;
export type Difference = (typeof DIFFERENCES)[number];

export interface Cell {
  step: StepFacts | null;
  /** The shown attempt, or the newest while the step is in progress. */
  attempt: AttemptFacts | null;
  /** Whether its document has a plan. */
  planned: boolean;
  /** The prompt of the attempt, or the planned one before anything is drawn. */
  prompt: string;
  differs: Difference[];
}

export interface Row {
  number: number;
  cells: Cell[];
  differs: Difference[];
}

type Run = DocumentFacts | null;

export function rowsOf(runs: Run[], base: number): Row[] {
  const numbers = new Set(runs.flatMap((run) => run?.steps?.map((step) => step.number) ?? []));
  return [...numbers].sort((a, b) => a - b).map((number) => {
    const cells = runs.map((run) => cellOf(run, number));
    const to = cells[base];
    for (const cell of cells) if (to && cell !== to) cell.differs = differencesOf(to, cell);
    return { number, cells, differs: DIFFERENCES.filter((kind) => cells.some((cell) => cell.differs.includes(kind))) };
  });
}

function cellOf(run: Run, number: number): Cell {
  const step = run?.steps?.find((each) => each.number === number) ?? null;
  const attempt = step?.attempts.find((each) => each.number === step.shown) ?? step?.attempts.at(-1) ?? null;
  const planned = run?.plan?.steps.find((each) => each.number === number)?.prompt ?? "";
  return { step, attempt, planned: (run?.steps?.length ?? 0) > 0, prompt: attempt?.prompt ?? planned, differs: [] };
}

function differencesOf(base: Cell, cell: Cell): Difference[] {
  if (!base.step || !cell.step) return [];
  const both = base.attempt !== null && cell.attempt !== null;
  const found: Record<Difference, boolean> = {
    text: base.step.text !== cell.step.text,
    prompt: base.prompt !== cell.prompt,
    verdict: both && outcomeOf(base) !== outcomeOf(cell),
    image: both && nameOf(base.attempt?.picture) !== nameOf(cell.attempt?.picture),
  };
  return DIFFERENCES.filter((kind) => found[kind]);
}

/** The critic's final verdict, in one word. */
export function outcomeOf(cell: Cell): string {
  return cell.step?.forced ? "forced" : (cell.attempt?.verdict?.outcome ?? "waiting");
}

/** The file name of an image. Equal images have equal names in all documents. */
function nameOf(image: string | undefined): string {
  return image?.split("/").at(-1) ?? "";
}

export interface Setting {
  name: string;
  values: string[];
  differs: boolean;
}

/** The settings of runs, without those that no run has. */
export function settingsOf(runs: Run[]): Setting[] {
  const of: Record<string, (run: DocumentFacts) => string | number | null | undefined> = {
    profile: (run) => run.profile,
    planner: (run) => run.models?.planner,
    critic: (run) => run.models?.critic,
    generator: (run) => run.models?.generator,
    seed: (run) => run.seed,
    max_attempts: (run) => run.max_attempts,
    parent: (run) => run.parent,
  };
  return Object.entries(of).flatMap(([name, read]) => {
    const values = runs.map((run) => String((run && read(run)) ?? ""));
    // A run that has not started has no settings yet; having no parent is a setting.
    const known = values.filter((value, place) => runs[place] && (value || name === "parent"));
    return known.some(Boolean) ? [{ name, values, differs: new Set(known).size > 1 }] : [];
  });
}

const ROLES = ["planner", "critic", "generator"];

/** One line per run with its distinguishing settings. */
export function summariesOf(settings: Setting[], runs: number): string[] {
  const differing = settings.filter((each) => each.differs && each.name !== "parent");
  const isNamed = differing.some((each) => each.name === "profile");
  const told = differing.filter((each) => !isNamed || !ROLES.includes(each.name));
  return Array.from({ length: runs }, (_, place) => told.flatMap((each) => each.values[place] || []).join(" · "));
}

/** The order of a blind comparison: it depends only on the seed and the set of ids. */
export function shuffled(ids: string[], seed: string): string[] {
  const order = [...ids].sort();
  let state = 2166136261;
  for (const sign of `${seed} ${order.join()}`) state = Math.imul(state ^ sign.charCodeAt(0), 16777619) >>> 0;
  const random = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  for (let place = order.length - 1; place > 0; place--) {
    const other = Math.floor(random() * (place + 1));
    [order[place], order[other]] = [order[other] ?? "", order[place] ?? ""];
  }
  return order;
}
