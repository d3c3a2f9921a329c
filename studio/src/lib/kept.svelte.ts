/** A value kept in this browser: it survives reloads, navigation and a stopped service. Other tabs follow it. */
export class Kept<T> {
  value: T | null;

  constructor(readonly key: string) {
    this.value = $state.raw(parsed<T>(localStorage.getItem(key)));
    addEventListener("storage", this.changed);
  }

  /** Keeps a value; null forgets it. Without room in the browser's storage, it lives as long as the page. */
  set(value: T | null): void {
    this.value = value;
    try {
      if (value === null) localStorage.removeItem(this.key);
      else localStorage.setItem(this.key, JSON.stringify(value));
    } catch {
      // no room, or storage is off
    }
  }

  close(): void {
    removeEventListener("storage", this.changed);
  }

  private changed = (event: StorageEvent): void => {
    if (event.key === this.key) this.value = parsed<T>(event.newValue);
  };
}

function parsed<T>(text: string | null): T | null {
  try {
    return text === null ? null : (JSON.parse(text) as T);
  } catch {
    return null;
  }
}
