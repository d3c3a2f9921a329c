/**
 * Editing the words of a document. What is typed is kept in this browser at once, and saved when its field is left;
 * while the service cannot be reached, it is sent again until it is saved.
 */
import { ServiceError, api } from "./api";
import { Kept } from "./kept.svelte";
import { sentence } from "./studio.svelte";
import { text } from "./text";
import type { Words } from "./types";
import { changeOf, wordOf, type Field, type WordsChange } from "./wording";

const RETRY_MS = 2000;

interface Typed {
  value: string;
  /** The saved word when typing began: if it differs later, somebody else has changed it. */
  base: string;
}

export class WordsEditing {
  /** Why a field or an action could not be saved. */
  problems = $state<Record<string, string>>({});
  saving = $state(0);
  private typed: Kept<Record<Field, Typed>>;
  private retrying = 0;
  private last: Promise<unknown> = Promise.resolve();

  constructor(
    readonly id: string,
    private readonly words: () => Words | null | undefined,
    private readonly saved: (words: Words) => void,
  ) {
    this.typed = new Kept(`interleave-words:${id}`);
    addEventListener("online", this.resend);
  }

  close(): void {
    this.typed.close();
    removeEventListener("online", this.resend);
    clearTimeout(this.retrying);
  }

  /** The text of a field: what was typed, else what is saved. */
  valueOf(field: Field): string {
    return this.typed.value?.[field]?.value ?? wordOf(this.words(), field);
  }

  /** Fields whose text is not saved. */
  get unsaved(): Field[] {
    return Object.keys(this.typed.value ?? {});
  }

  /** What the field was changed to elsewhere while this text was typed; null if nothing. */
  conflict(field: Field): string | null {
    const typed = this.typed.value?.[field];
    const now = wordOf(this.words(), field);
    return typed && typed.base !== now && typed.value !== now ? now : null;
  }

  type(field: Field, value: string): void {
    const now = wordOf(this.words(), field);
    const base = this.typed.value?.[field]?.base ?? now;
    this.keep(field, value === now ? null : { value, base });
  }

  /** Drops what was typed. */
  drop(field: Field): void {
    this.keep(field, null);
    this.problems[field] = "";
  }

  async save(field: Field, { anyway = false } = {}): Promise<boolean> {
    const typed = this.typed.value?.[field];
    if (!typed || (!anyway && this.conflict(field) !== null)) return false;
    const went = await this.send(field, changeOf(field, typed.value));
    if (went && this.typed.value?.[field]?.value === typed.value) this.keep(field, null);
    return went;
  }

  /** Sends what is typed and unsaved, except where somebody else has changed the same words. */
  resend = (): void => {
    for (const field of this.unsaved) void this.save(field);
  };

  /** Sends a change; `place` is where its error is shown. */
  async send(place: string, change: WordsChange): Promise<boolean> {
    this.saving++;
    // One after the other: leaving a field by a click on a button sends two changes.
    const sent = this.last.then(() => api.changeWords(this.id, change));
    this.last = sent.catch(() => undefined);
    try {
      this.saved(await sent);
      this.problems[place] = "";
      return true;
    } catch (error) {
      const lost = error instanceof ServiceError && error.unreachable;
      this.problems[place] = lost ? text.words.notSaved : sentence(error);
      if (lost && this.unsaved.includes(place)) {
        clearTimeout(this.retrying);
        this.retrying = window.setTimeout(this.resend, RETRY_MS);
      }
      return false;
    } finally {
      this.saving--;
    }
  }

  private keep(field: Field, typed: Typed | null): void {
    const { [field]: _, ...others } = this.typed.value ?? {};
    const all = typed ? { ...others, [field]: typed } : others;
    this.typed.set(Object.keys(all).length ? all : null);
  }
}
