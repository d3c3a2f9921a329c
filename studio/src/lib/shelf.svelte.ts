/** The documents of the library that match a search, read page by page as they are scrolled to. */
import { api } from "./api";
import { sentence } from "./studio.svelte";
import type { GalleryItem } from "./types";

const PAGE = 100;

export class Shelf {
  items = $state.raw<GalleryItem[]>([]);
  total = $state<number | null>(null);
  profiles = $state.raw<string[]>([]);
  problem = $state("");
  asked = false;
  private query = new URLSearchParams();
  private cursor: string | null = null;
  private reading: AbortController | null = null;

  /** Begins another search. */
  ask(query: URLSearchParams): void {
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
    this.reading?.abort();
  }

  private async read(anew: boolean): Promise<void> {
    const reading = (this.reading = new AbortController());
    const query = new URLSearchParams(this.query);
    query.set("limit", String(PAGE));
    if (this.cursor) query.set("cursor", this.cursor);
    try {
      const page = await api.gallery(query, reading.signal);
      if (this.reading !== reading) return;
      this.items = anew ? page.data : [...this.items, ...page.data];
      this.total = page.total;
      if (page.profiles) this.profiles = page.profiles;
      this.cursor = page.cursor;
      this.problem = "";
    } catch (error) {
      if (!reading.signal.aborted) this.problem = sentence(error);
    } finally {
      if (this.reading === reading) this.reading = null;
    }
  }
}
