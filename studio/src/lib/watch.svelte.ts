/**
 * A watched document: its facts, and its run built from events. It resumes after interruptions, including restarts
 * of the service.
 */
import { ServiceError, api } from "./api";
import { emptyRun, fold, type RunState } from "./fold";
import type { DocumentFacts, JobStatus } from "./types";

const LONGEST_PAUSE = 2000;
const PAUSES = [300, 1000, LONGEST_PAUSE];
const WAKING = ["online", "focus", "visibilitychange"];
const OPEN: JobStatus[] = ["queued", "in_progress"];

export class WatchedDocument {
  facts = $state<DocumentFacts | null>(null);
  run = $state<RunState>(emptyRun());
  /** Whether the events of an ended job are still being read, so that `run` is behind. */
  catchingUp = $state(true);
  /** Whether the service is unreachable. */
  lost = $state(false);
  /** The service's error, if there is nothing to show. */
  failure = $state<ServiceError | null>(null);
  private stopping = new AbortController();
  private woken: (() => void) | null = null;
  private following = false;
  private again = false;
  /** Other tabs with the same document, notified of decisions. */
  private tabs = new BroadcastChannel("interleave-studio");

  constructor(readonly id: string) {
    this.tabs.onmessage = ({ data }) => {
      if (data === this.id) void this.follow();
    };
    for (const event of WAKING) addEventListener(event, this.wake);
    void this.follow();
  }

  close(): void {
    this.stopping.abort();
    this.tabs.close();
    for (const event of WAKING) removeEventListener(event, this.wake);
  }

  /** Retries now instead of after the pause: the network is back, or somebody looks at the page again. */
  private wake = (): void => {
    this.woken?.();
  };

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
        this.catchingUp = false;
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
      if (this.again) await this.pause(PAUSES[Math.min(tries++, PAUSES.length - 1)] ?? LONGEST_PAUSE);
    }
    this.following = false;
  }

  private async readEvents(): Promise<void> {
    this.facts ??= await api.document(this.id, this.stopping.signal);
    if (OPEN.includes(this.facts.status)) this.catchingUp = false;
    // The service answers before the next event, which may be a whole image away.
    const opened = (): void => void (this.lost = false);
    for await (const event of api.events(this.id, this.run.last, this.stopping.signal, opened)) {
      fold(this.run, event);
    }
  }

  private pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.woken = null;
        this.stopping.signal.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, milliseconds);
      this.woken = end;
      this.stopping.signal.addEventListener("abort", end);
    });
  }
}
