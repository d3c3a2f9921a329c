/** State shared by all views: the service's initial data, announcements and errors. */
import { ServiceError, api } from "./api";
import { text } from "./text";
import type { Start } from "./types";

const POLL_MS = 1500;
const UNDO_MS = 20_000;

class Studio {
  start = $state<Start | null>(null);
  needsKey = $state(false);
  lost = $state(false);
  /** Text for screen readers. */
  announcement = $state("");
  /** An error shown until closed. */
  problem = $state("");

  /** What was just done, and how to undo it. */
  undoable = $state<{ done: string; undo: () => Promise<unknown> } | null>(null);
  private forgetting = 0;

  /** Offers for a while to undo what was just done. */
  offerUndo(done: string, undo: () => Promise<unknown>): void {
    this.undoable = { done, undo };
    clearTimeout(this.forgetting);
    this.forgetting = window.setTimeout(() => (this.undoable = null), UNDO_MS);
  }

  /** Loads the initial data, polling until the models are loaded. */
  async load(): Promise<void> {
    try {
      this.start = await api.start();
      this.lost = false;
      this.needsKey = this.start.needs_key && !this.start.signed_in;
    } catch (error) {
      this.needsKey = error instanceof ServiceError && error.status === 401;
      this.lost = !this.needsKey;
    }
    if (!this.needsKey && this.start?.models_state !== "ready") setTimeout(() => void this.load(), POLL_MS);
  }

  announce(words: string): void {
    this.announcement = words;
  }

  /** Runs an action and shows its error. Returns whether it succeeded. */
  async attempt(work: () => Promise<unknown>): Promise<boolean> {
    this.problem = "";
    try {
      await work();
      return true;
    } catch (error) {
      this.problem = sentence(error);
      return false;
    }
  }
}

export function sentence(error: unknown): string {
  if (error instanceof ServiceError && error.status === 0) return text.unreachable;
  return text.failed(error instanceof Error ? error.message : String(error));
}

export const studio = new Studio();
