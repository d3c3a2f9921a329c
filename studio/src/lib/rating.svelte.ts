/**
 * The rater, and labels that are not stored yet. They stay in the browser until the service has them, so a lost
 * connection or a reload loses nothing. The service ignores duplicates.
 */
import { ServiceError, api, newKey } from "./api";
import { sentence, studio } from "./studio.svelte";
import type { Kind, NewLabel } from "./types";

const NAME = "interleave-rater";
const OUTBOX = "interleave-labels";
const RETRY_MS = 2000;

interface Unsent {
  rater: string;
  labels: NewLabel[];
}

class Rating {
  private chosen = $state(localStorage.getItem(NAME) ?? "");
  private unsent = $state.raw<Unsent[]>(read());
  private sending: Promise<void> | null = null;
  /** Whether the service currently refuses labels. */
  failing = $state(false);

  /** The name of the rater: chosen here, or that of the API key. */
  get rater(): string {
    return this.chosen || studio.start?.rater || "";
  }

  set rater(name: string) {
    this.chosen = name.trim().slice(0, 60);
    localStorage.setItem(NAME, this.chosen);
  }

  get waiting(): number {
    return this.unsent.reduce((sum, each) => sum + each.labels.length, 0);
  }

  /** Queues labels for storing, without waiting. They are undone together. */
  say(labels: NewLabel[]): void {
    this.keep([...this.unsent, { rater: this.rater, labels }]);
    void this.send();
  }

  /** Undoes the last labels; returns the names of their items. */
  async undo(kind: Kind | null): Promise<string[]> {
    await this.send();
    return (await api.undoLabel(this.rater, kind)).units;
  }

  /** Sends queued labels in order. */
  send(): Promise<void> {
    this.sending ??= this.sendAll().finally(() => (this.sending = null));
    return this.sending;
  }

  private async sendAll(): Promise<void> {
    for (let first = this.unsent[0]; first; first = this.unsent[0]) {
      try {
        await api.label(first.rater, first.labels);
        this.failing = false;
      } catch (error) {
        if (error instanceof ServiceError && (error.unreachable || [401, 429, 503].includes(error.status))) {
          this.failing = true;
          await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
          continue;
        }
        studio.problem = sentence(error); // it will never be accepted, and later ones are waiting
      }
      this.keep(this.unsent.slice(1));
    }
  }

  private keep(unsent: Unsent[]): void {
    this.unsent = unsent;
    localStorage.setItem(OUTBOX, JSON.stringify(unsent));
  }
}

function read(): Unsent[] {
  try {
    return JSON.parse(localStorage.getItem(OUTBOX) ?? "[]") as Unsent[];
  } catch {
    return [];
  }
}

export const rating = new Rating();

/** The seed of a new blind comparison. */
export const newBlindness = (): string => newKey().slice(0, 12);
