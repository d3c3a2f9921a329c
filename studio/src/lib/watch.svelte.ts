/**
 * A watched document: its facts, and its run built from events. It resumes after interruptions, including restarts
 * of the service.
 */
import { ServiceError, api } from "./api";
import { emptyRun, fold, type RunState } from "./fold";
import type { DocumentFacts, JobStatus } from "./types";

const PAUSES = [300, 1000, 2000, 4000];
const OPEN: JobStatus[] = ["queued", "in_progress"];

export class WatchedDocument {
  facts = $state<DocumentFacts | null>(null);
  run = $state<RunState>(emptyRun());
  /** Whether the service is unreachable. */
  lost = $state(false);
  /** The service's error, if there is nothing to show. */
  failure = $state<ServiceError | null>(null);
  private stopping = new AbortController();
  private following = false;
  private again = false;
  /** Other tabs with the same document, notified of decisions. */
  private tabs = new BroadcastChannel("interleave-studio");

  constructor(readonly id: string) {
    this.tabs.onmessage = ({ data }) => {
      if (data === this.id) void this.follow();
    };
    void this.follow();
  }

  close(): void {
    this.stopping.abort();
    this.tabs.close();
  }

  /** Notifies other tabs of a decision and reads its events. */
  decided(): void {
    this.tabs.postMessage(this.id);
    void this.follow();
  }

  /** Reads until the job has ended. */
  async follow(): Promise<void> {
    this.again = true;
    if (this.following) return;
    this.following = true;
    for (let tries = 0; this.again && !this.stopping.signal.aborted; ) {
      this.again = false;
      try {
        const before = this.run.last;
        await this.readEvents();
        this.facts = await api.document(this.id, this.stopping.signal);
        this.lost = false;
        if (OPEN.includes(this.facts.status) || this.facts.status !== this.run.status) this.again = true;
        if (this.run.last > before) tries = 0;
      } catch (error) {
        if (this.stopping.signal.aborted) break;
        if (error instanceof ServiceError && !error.unreachable && ![429, 503].includes(error.status)) {
          this.failure = error;
          break;
        }
        this.lost = true;
        this.again = true;
      }
      if (this.again) await pause(PAUSES[Math.min(tries++, PAUSES.length - 1)] ?? 4000, this.stopping.signal);
    }
    this.following = false;
  }

  private async readEvents(): Promise<void> {
    this.facts ??= await api.document(this.id, this.stopping.signal);
    for await (const event of api.events(this.id, this.run.last, this.stopping.signal)) {
      this.lost = false;
      fold(this.run, event);
    }
  }
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
