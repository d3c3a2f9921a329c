/** Image consistency of a document: measured drift, and decisions of the run about it. */
import { text } from "./text";
import type { DocumentFacts, StepFacts } from "./types";

export type Drift = NonNullable<StepFacts["drift"]>;
type Facts = Pick<DocumentFacts, "steps" | "decisions" | "audits">;

export interface DriftRow {
  number: number;
  drift: Drift;
}

/** The steps with measured drift. */
export function measuredSteps(facts: Facts): DriftRow[] {
  return (facts.steps ?? []).flatMap(({ number, drift }) => (drift ? [{ number, drift }] : []));
}

/** The largest drift, in levels of 255. */
export function worstOf(rows: DriftRow[]): number {
  return Math.max(0, ...rows.map((row) => row.drift.outside));
}

/** The run's automatic decisions with their causes, as sentences. */
export function decisionsOfRun(facts: Facts): string[] {
  const words = text.consistency;
  const own = (facts.decisions ?? []).filter((each) => each.cause === "rollback" || each.cause === "drift");
  return [
    ...own.map((each) => words[each.cause === "drift" ? "drift" : "rollback"](each.step ?? 0, each.undone)),
    ...(facts.audits ?? []).map((each) => words.audit(each.round, each.findings)),
  ];
}
