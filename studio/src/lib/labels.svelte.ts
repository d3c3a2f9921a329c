/** A rater's labels of the documents in a comparison. */
import { api } from "./api";
import type { Row } from "./align";
import { rating } from "./rating.svelte";
import type { NewLabel, RunLabel } from "./types";

type Said = Pick<RunLabel, "kind" | "run" | "value"> & Pick<NewLabel, "step" | "attempt" | "other">;

export class ComparisonLabels {
  private labels = $state.raw<Said[]>([]);

  constructor(readonly runs: string[]) {}

  async read(rater: string): Promise<void> {
    const found = await api.labels(new URLSearchParams({ rater, runs: this.runs.join(), limit: "1000" })).catch(() => null);
    if (found) this.labels = found.data;
  }

  /** The value of a label; undefined if there is none. */
  of(kind: string, run: string, step: number | null = null, attempt: number | null = null): Said["value"] | undefined {
    const found = this.labels.find(
      (each) => each.kind === kind && each.run === run && (each.step ?? null) === step && (each.attempt ?? null) === attempt,
    );
    return found?.value;
  }

  say(labels: NewLabel[]): void {
    rating.say(labels);
    this.labels = [...labels, ...this.labels];
  }

  async undo(rater: string): Promise<void> {
    await rating.undo(null);
    await this.read(rater);
  }

  /** Labels a run as the best of a step, or none; returns whether there was anything to label. */
  best(row: Row, place: number | null, blind: boolean): boolean {
    const drawn = this.drawn(row);
    const first = drawn.find((each) => each.place === place);
    if (place !== null && !first) return false;
    const value = place === null ? "same" : "first";
    const others = first ? drawn.filter((each) => each.image !== first.image) : [];
    const pairs = first ? others.map((each) => [first, each] as const) : pairsOf(drawn);
    const labels = pairs.map(([one, two]): NewLabel => ({ kind: "better", ...one.subject, other: two.subject, value, blind }));
    if (labels.length) this.say(labels);
    return labels.length > 0;
  }

  /** The index of the run labelled best of a step; null for none, undefined without a label. */
  bestOf(row: Row): number | null | undefined {
    const drawn = this.drawn(row);
    if (drawn.length < 2) return undefined;
    if (new Set(drawn.map((each) => each.image)).size < 2) return undefined;
    const wins = drawn.find((each) =>
      drawn.every((other) => other.image === each.image || this.preferred(each.subject, other.subject) === "first"),
    );
    if (wins) return wins.place;
    return pairsOf(drawn).every(([one, two]) => this.preferred(one.subject, two.subject) === "same") ? null : undefined;
  }

  private preferred(first: Subject, second: Subject): string | undefined {
    for (const label of this.labels) {
      if (label.kind !== "better" || !label.other) continue;
      if (isThis(label, first) && isThis(label.other, second)) return String(label.value);
      if (isThis(label, second) && isThis(label.other, first)) {
        return ({ first: "second", second: "first" } as Record<string, string>)[String(label.value)] ?? "same";
      }
    }
    return undefined;
  }

  private drawn(row: Row): Drawn[] {
    return row.cells.flatMap((cell, place) => {
      const [run, , image = ""] = cell.attempt?.picture.split("/").slice(-3) ?? [];
      return cell.attempt && run ? [{ place, image, subject: { run, step: row.number, attempt: cell.attempt.number } }] : [];
    });
  }
}

interface Drawn {
  place: number;
  /** The name of its file. A branch shares images with its parent. */
  image: string;
  subject: Subject;
}

interface Subject {
  run: string;
  step: number;
  attempt: number;
}

function isThis(label: { run: string; step?: number | null; attempt?: number | null }, subject: Subject): boolean {
  return label.run === subject.run && label.step === subject.step && label.attempt === subject.attempt;
}

function pairsOf(all: Drawn[]): (readonly [Drawn, Drawn])[] {
  const pairs = all.flatMap((one, place) => all.slice(place + 1).map((two) => [one, two] as const));
  return pairs.filter(([one, two]) => one.image !== two.image);
}
