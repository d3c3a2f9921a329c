/**
 * The documents of a comparison, polled while in progress: a stream for each would use up the connections that a
 * browser opens to one host.
 */
import { ServiceError, api } from "./api";
import { sentence } from "./studio.svelte";
import type { DocumentFacts } from "./types";

const POLL_MS = 1000;
const OPEN = ["queued", "in_progress"];

export class ComparedRuns {
  facts = $state.raw<Record<string, DocumentFacts>>({});
  /** Why a document cannot be shown. */
  failures = $state.raw<Record<string, string>>({});
  lost = $state(false);
  private stopping = new AbortController();

  constructor(readonly ids: string[]) {
    void this.follow();
  }

  close(): void {
    this.stopping.abort();
  }

  private async follow(): Promise<void> {
    const signal = this.stopping.signal;
    for (let open = this.ids; open.length && !signal.aborted; ) {
      const read = await Promise.all(open.map((id) => this.read(id)));
      this.lost = read.includes("lost");
      open = open.filter((_, place) => read[place] !== "done");
      if (open.length) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  private async read(id: string): Promise<"done" | "open" | "lost"> {
    try {
      const facts = await api.document(id, this.stopping.signal);
      this.facts = { ...this.facts, [id]: facts };
      return OPEN.includes(facts.status) ? "open" : "done";
    } catch (error) {
      if (error instanceof ServiceError && !error.unreachable && ![429, 503].includes(error.status)) {
        this.failures = { ...this.failures, [id]: error.status === 404 ? error.message : sentence(error) };
        return "done";
      }
      return "lost";
    }
  }
}
