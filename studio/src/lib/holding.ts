/** What a document's facts say about how well its pictures hold together. */
import { text } from "./text";
import type { DocumentFacts, StepFacts } from "./types";

export type Drift = NonNullable<StepFacts["drift"]>;
type Facts = Pick<DocumentFacts, "steps" | "decisions" | "audits">;

export interface HoldingRow {
  number: number;
  drift: Drift;
}

/** The steps whose drift was measured. */
export function holdingOf(facts: Facts): HoldingRow[] {
  return (facts.steps ?? []).flatMap(({ number, drift }) => (drift ? [{ number, drift }] : []));
}

/** The largest drift, in levels of 255. */
export function worstOf(rows: HoldingRow[]): number {
  return Math.max(0, ...rows.map((row) => row.drift.outside));
}

/** What the run decided itself, each with its cause, in words. */
export function decisionsOfRun(facts: Facts): string[] {
  const words = text.holding;
  const own = (facts.decisions ?? []).filter((each) => each.cause === "rollback" || each.cause === "drift");
  return [
    ...own.map((each) => words[each.cause === "drift" ? "drift" : "rollback"](each.step ?? 0, each.undone)),
    ...(facts.audits ?? []).map((each) => words.audit(each.round, each.findings)),
  ];
}
