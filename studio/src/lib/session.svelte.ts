/** A judging session: the items to judge, prefetched. */
import { api } from "./api";
import { rating } from "./rating.svelte";
import { sentence } from "./studio.svelte";
import type { JudgeItem, Kind, NewLabel } from "./types";

export const KINDS: Record<string, Kind> = {
  accept: "accept", better: "better", score: "score", document_score: "score", wrong_step: "wrong_step",
};
const PAGE = 50;
const READ_AHEAD = 20;
const IMAGES_AHEAD = 5;
const POLL_MS = 1500;

export class JudgeSession {
  /** Items to judge; the first is on the screen. Null until loaded. */
  queue = $state.raw<JudgeItem[] | null>(null);
  total = $state(0);
  left = $state(0);
  problem = $state("");
  /** Number of labels given or undone in this session. */
  changes = $state(0);
  readonly kind: Kind;
  private cursor: string | null = null;
  private later: JudgeItem[] = [];
  private reading: Promise<void> | null = null;
  private stopping = new AbortController();
  private ahead = new Map<string, HTMLImageElement>();

  constructor(readonly task: string, readonly runs: string[], readonly rater: string) {
    this.kind = KINDS[task] ?? "accept";
    void rating.send().then(() => this.begin()); // unsent labels must not be asked for again
  }

  close(): void {
    this.stopping.abort();
  }

  get current(): JudgeItem | null {
    return this.queue?.[0] ?? null;
  }

  say(value: NewLabel["value"]): void {
    const item = this.current;
    if (!item) return;
    const subject = item.first ? { run: item.first.run, step: item.first.step, attempt: item.first.attempt } : { run: item.run, step: null, attempt: null };
    const other = item.second ? { run: item.second.run, step: item.second.step, attempt: item.second.attempt } : null;
    rating.say([{ kind: this.kind, ...subject, other, value, blind: true }]);
    this.left = Math.max(0, this.left - 1);
    this.changes++;
    this.next();
  }

  /** Moves the current item to the end. */
  skip(): void {
    if (this.current) this.later.push(this.current);
    this.next();
  }

  /** Undoes the last labels; returns whether there were any. */
  async undo(): Promise<boolean> {
    const units = await rating.undo(this.kind);
    for (const unit of units.reverse()) if (await this.show(unit)) this.left++;
    this.changes++;
    return units.length > 0;
  }

  /** Shows an item first, labelled or not; returns whether it still exists. */
  async show(unit: string): Promise<boolean> {
    const found = await api.toJudge(this.task, new URLSearchParams({ rater: this.rater, unit }));
    if (found.data[0]) this.queue = [found.data[0], ...(this.queue ?? []).filter((each) => each.unit !== unit)];
    return found.data.length > 0;
  }

  private next(): void {
    const rest = (this.queue ?? []).slice(1);
    this.queue = rest.length || this.cursor ? rest : this.later.splice(0);
    this.look();
  }

  /** Prefetches the next items and their images. */
  private look(): void {
    for (const item of (this.queue ?? []).slice(0, IMAGES_AHEAD)) {
      const steps = item.steps.map((step) => step.picture);
      for (const image of [item.first?.picture, item.first?.before, item.second?.picture, ...steps]) {
        if (image && !this.ahead.has(image)) this.fetchImage(image);
      }
    }
    if (this.cursor && (this.queue?.length ?? 0) < READ_AHEAD) {
      this.reading ??= this.more().finally(() => (this.reading = null));
    }
  }

  private fetchImage(address: string): void {
    const image = new Image();
    image.src = address;
    this.ahead.set(address, image);
    const oldest = this.ahead.keys().next().value;
    if (this.ahead.size > 100 && oldest) this.ahead.delete(oldest);
  }

  private async begin(): Promise<void> {
    try {
      const page = await api.toJudge(this.task, this.query(null), this.stopping.signal);
      this.queue = page.data;
      this.cursor = page.cursor;
      this.total = page.total ?? 0;
      this.left = page.left ?? 0;
      this.problem = "";
      this.look();
      if (!page.complete && !page.data.length) setTimeout(() => void this.begin(), POLL_MS);
    } catch (error) {
      if (!this.stopping.signal.aborted) this.problem = sentence(error);
    }
  }

  private async more(): Promise<void> {
    try {
      const page = await api.toJudge(this.task, this.query(this.cursor), this.stopping.signal);
      const known = new Set((this.queue ?? []).map((item) => item.unit));
      this.queue = [...(this.queue ?? []), ...page.data.filter((item) => !known.has(item.unit))];
      this.cursor = page.cursor;
      if (!this.queue.length && !this.cursor) this.queue = this.later.splice(0);
      this.look();
    } catch (error) {
      if (this.stopping.signal.aborted) return;
      this.problem = sentence(error);
      setTimeout(() => this.look(), POLL_MS);
    }
  }

  private query(cursor: string | null): URLSearchParams {
    const query = new URLSearchParams({ rater: this.rater, limit: String(PAGE) });
    if (this.runs.length) query.set("runs", this.runs.join());
    if (cursor) query.set("cursor", cursor);
    return query;
  }
}
