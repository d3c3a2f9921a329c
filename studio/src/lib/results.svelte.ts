/** The library's search results, loaded page by page on scrolling. */
import { api } from "./api";
import { sentence } from "./studio.svelte";
import type { GalleryItem } from "./types";

const PAGE = 100;
const POLL_MS = 1500;

export class SearchResults {
  items = $state.raw<GalleryItem[]>([]);
  total = $state<number | null>(null);
  profiles = $state.raw<string[]>([]);
  problem = $state("");
  /** Whether the service has indexed all documents. After its first start that takes a while. */
  complete = $state(true);
  asked = false;
  private query = new URLSearchParams();
  private cursor: string | null = null;
  private reading: AbortController | null = null;
  private again = 0;

  /** Starts a search. */
  ask(query: URLSearchParams): void {
    clearTimeout(this.again);
    this.asked = true;
    this.query = query;
    this.cursor = null;
    this.reading?.abort();
    this.reading = null;
    void this.read(true);
  }

  /** Reads again what is shown. */
  reload(): void {
    this.ask(this.query);
  }

  /** Shows a new title before the service has indexed it. */
  renamed(id: string, title: string): void {
    this.items = this.items.map((item) => (item.id === id ? { ...item, title } : item));
  }

  /** Loads the next page, if there is one and none is loading. */
  more(): void {
    if (this.cursor && !this.reading) void this.read(false);
  }

  close(): void {
    clearTimeout(this.again);
    this.reading?.abort();
  }

  private async read(replace: boolean): Promise<void> {
    const reading = (this.reading = new AbortController());
    const query = new URLSearchParams(this.query);
    const cursor = this.cursor;
    query.set("limit", String(PAGE));
    if (cursor) query.set("cursor", cursor);
    try {
      const page = await api.gallery(query, reading.signal);
      if (this.reading !== reading) return;
      this.add(page.data, replace);
      this.total = page.total;
      if (page.profiles) this.profiles = page.profiles;
      this.complete = page.complete;
      // While the service is indexing, the last page may grow, so it is read again.
      this.cursor = page.cursor ?? (page.complete ? null : cursor);
      clearTimeout(this.again);
      if (!page.complete) this.again = window.setTimeout(() => this.look(), POLL_MS);
      this.problem = "";
    } catch (error) {
      if (!reading.signal.aborted) this.problem = sentence(error);
    } finally {
      if (this.reading === reading) this.reading = null;
    }
  }

  private add(data: GalleryItem[], replace: boolean): void {
    const known = new Set(replace ? [] : this.items.map((item) => item.id));
    const more = data.filter((item) => !known.has(item.id));
    if (replace) this.items = more;
    else if (more.length) this.items = [...this.items, ...more];
  }

  /** Polls the indexing without moving what has been scrolled to. */
  private look(): void {
    if (this.items.length <= PAGE) this.ask(this.query);
    else if (!this.reading) void this.read(false);
  }
}
