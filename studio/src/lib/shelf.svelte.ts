/** The documents of the library that match a search, read page by page as they are scrolled to. */
import { api } from "./api";
import { sentence } from "./studio.svelte";
import type { GalleryItem } from "./types";

const PAGE = 100;
const LOOK_AGAIN = 1500;

export class Shelf {
  items = $state.raw<GalleryItem[]>([]);
  total = $state<number | null>(null);
  profiles = $state.raw<string[]>([]);
  problem = $state("");
  /** Whether the service has read all documents: after its first start it needs a while for thousands. */
  complete = $state(true);
  asked = false;
  private query = new URLSearchParams();
  private cursor: string | null = null;
  private reading: AbortController | null = null;
  private again = 0;

  /** Begins another search. */
  ask(query: URLSearchParams): void {
    clearTimeout(this.again);
    this.asked = true;
    this.query = query;
    this.cursor = null;
    this.reading?.abort();
    this.reading = null;
    void this.read(true);
  }

  /** Reads the next page, if there is one and none is being read. */
  more(): void {
    if (this.cursor && !this.reading) void this.read(false);
  }

  close(): void {
    clearTimeout(this.again);
    this.reading?.abort();
  }

  private async read(anew: boolean): Promise<void> {
    const reading = (this.reading = new AbortController());
    const query = new URLSearchParams(this.query);
    const cursor = this.cursor;
    query.set("limit", String(PAGE));
    if (cursor) query.set("cursor", cursor);
    try {
      const page = await api.gallery(query, reading.signal);
      if (this.reading !== reading) return;
      this.add(page.data, anew);
      this.total = page.total;
      if (page.profiles) this.profiles = page.profiles;
      this.complete = page.complete;
      // Where the service is not through yet, the end is only the end so far: it is read again.
      this.cursor = page.cursor ?? (page.complete ? null : cursor);
      clearTimeout(this.again);
      if (!page.complete) this.again = window.setTimeout(() => this.look(), LOOK_AGAIN);
      this.problem = "";
    } catch (error) {
      if (!reading.signal.aborted) this.problem = sentence(error);
    } finally {
      if (this.reading === reading) this.reading = null;
    }
  }

  private add(data: GalleryItem[], anew: boolean): void {
    const known = new Set(anew ? [] : this.items.map((item) => item.id));
    const more = data.filter((item) => !known.has(item.id));
    if (anew) this.items = more;
    else if (more.length) this.items = [...this.items, ...more];
  }

  /** Looks how far the service is; what has been scrolled to stays where it is. */
  private look(): void {
    if (this.items.length <= PAGE) this.ask(this.query);
    else if (!this.reading) void this.read(false);
  }
}
