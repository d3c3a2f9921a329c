/** The files of the models: fetched once, with progress, then kept by the browser. */

import type { Read } from "./engine/files";

export interface FileEntry {
  name: string;
  bytes: number;
}
export interface Progress {
  done: number;
  total: number;
}

const PREFIX = "interleave-models-";
const TRIES = 3;

/** A reader of these files, all of which are fetched first; each is handed out from memory. */
export async function fetchAll(
  folder: string,
  files: readonly FileEntry[],
  report: (progress: Progress) => void,
): Promise<Read> {
  const total = files.reduce((sum, file) => sum + file.bytes, 0);
  const kept = await openCache(folder);
  const read = new Map<string, Uint8Array<ArrayBuffer>>();
  let done = 0;
  report({ done, total });
  for (const file of files) {
    const url = new URL(`${folder}/${file.name}`, siteOf()).href;
    const before = done;
    read.set(file.name, await bytesOf(url, file, kept, (arrived) => report({ done: (done = before + arrived), total })));
    report({ done: (done = before + file.bytes), total });
  }
  return (name) => {
    const bytes = read.get(name);
    return bytes ? Promise.resolve(bytes) : Promise.reject(new Error(`the site has no file '${name}'`));
  };
}

function siteOf(): string {
  return new URL("..", self.location.href).href; // the worker lies in assets/
}

/** Only https and this computer's own address have a cache. */
async function openCache(folder: string): Promise<Cache | null> {
  if (!("caches" in self)) return null;
  const name = PREFIX + folder;
  for (const other of await caches.keys()) if (other.startsWith(PREFIX) && other !== name) await caches.delete(other);
  return caches.open(name);
}

async function bytesOf(
  url: string,
  file: FileEntry,
  kept: Cache | null,
  arrived: (bytes: number) => void,
): Promise<Uint8Array<ArrayBuffer>> {
  const found = await kept?.match(url);
  if (found) {
    const bytes = new Uint8Array(await found.arrayBuffer());
    if (bytes.length === file.bytes) return bytes;
  }
  for (let tries = 1; ; tries++) {
    try {
      const bytes = await download(url, file, arrived);
      await kept?.put(url, new Response(bytes)).catch(() => undefined); // no room: the next visit fetches it again
      return bytes;
    } catch (error) {
      if (tries === TRIES) throw error;
    }
  }
}

async function download(url: string, file: FileEntry, arrived: (bytes: number) => void): Promise<Uint8Array<ArrayBuffer>> {
  const response = await fetch(url);
  if (!response.ok || !response.body) throw new Error(`${file.name} cannot be loaded (${response.status})`);
  const bytes = new Uint8Array(file.bytes);
  const reader = response.body.getReader();
  let end = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (end + value.length > bytes.length) throw new Error(`${file.name} is longer than it should be: reload the page`);
    bytes.set(value, end);
    arrived((end += value.length));
  }
  if (end < bytes.length) throw new Error(`${file.name} was cut off: reload the page`);
  return bytes;
}
