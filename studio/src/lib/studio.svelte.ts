/** What all views share: the facts of the service, and what is said to the person. */
import { ServiceError, api } from "./api";
import { text } from "./text";
import type { Start } from "./types";

const LOOK_AGAIN = 1500;

class Studio {
  start = $state<Start | null>(null);
  needsKey = $state(false);
  lost = $state(false);
  /** Said once by screen readers. */
  announcement = $state("");
  /** A failure to show until it is closed. */
  problem = $state("");

  /** Reads the facts, again and again until the models are loaded. */
  async load(): Promise<void> {
    try {
      this.start = await api.start();
      this.lost = false;
      this.needsKey = this.start.needs_key && !this.start.signed_in;
    } catch (error) {
      this.needsKey = error instanceof ServiceError && error.status === 401;
      this.lost = !this.needsKey;
    }
    if (!this.needsKey && this.start?.models_state !== "ready") setTimeout(() => void this.load(), LOOK_AGAIN);
  }

  announce(words: string): void {
    this.announcement = words;
  }

  /** Does what a person asked for; what goes wrong is shown. Returns whether it went well. */
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
