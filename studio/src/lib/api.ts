/** Calls to the service's API. */
import { readEvents } from "./sse";
import type {
  AssetKind, CheckedRequest, DocumentFacts, EditedPlan, Gallery, ImageOrigin, JournalEvent, JudgeItems, KindAgreement, Kind, NewLabel, Queue, RelatedItem, Reports,
  Reading, Retried, RunLabels, Share, Start, Stories, Story, Words,
} from "./types";
import type { WordsChange } from "./wording";

/** An error response with the service's message. `status` 0 means that the service could not be reached. */
export class ServiceError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string | null = null,
    readonly nearest: string[] = [],
    readonly exchanges: Record<string, string> = {},
  ) {
    super(message);
  }

  get unreachable(): boolean {
    return this.status === 0 || this.status >= 502;
  }
}

/** Required by the service on every change, so that pages of other sites cannot send one. */
export const CHANGE_HEADERS = { "Content-Type": "application/json", "X-Interleave-Studio": "1" };

async function request(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ServiceError("unreachable", 0);
  }
  if (response.ok) return response;
  const body = (await response.json().catch(() => null)) as {
    error?: { message?: string; code?: string | null; nearest?: string[]; exchanges?: Record<string, string> };
  } | null;
  const said = body?.error;
  const { message = response.statusText, code = null, nearest = [], exchanges = {} } = said ?? {};
  throw new ServiceError(message, response.status, code, nearest, exchanges);
}

async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await request(path, { signal })).json()) as T;
}

async function post<T>(path: string, body: unknown = {}, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<T> {
  const init = { method: "POST", headers: { ...CHANGE_HEADERS, ...headers }, body: JSON.stringify(body), signal };
  const text = await (await request(path, init)).text();
  return (text ? JSON.parse(text) : null) as T;
}

/** An idempotency key: sending a request twice with the same key makes one document. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const document_ = (id: string): string => `/v1/documents/${encodeURIComponent(id)}`;

export interface NewDocument {
  text: string;
  /** Images as `data:` URLs, in the user's order. */
  images: string[];
  profile: string | null;
  holdPlan: boolean;
  maxAttempts: number | null;
  seed: number | null;
  sources?: "previous" | "history" | null;
  /** Assets that must stay consistent; images as `data:` URLs. */
  assets?: NewAsset[];
  /** Whether to draw reference sheets of assets without an image. */
  sheets?: boolean;
  /** Whether to exchange unknown words for their neighbours. */
  nearest?: boolean;
}

export interface NewAsset {
  name: string;
  kind: AssetKind;
  description: string;
  image_url?: string;
}

type Job = { id: string };

export const api = {
  start: (): Promise<Start> => get("/v1/studio/start"),

  signIn: async (key: string): Promise<void> => {
    const headers = { ...CHANGE_HEADERS, Authorization: `Bearer ${key}` };
    await request("/v1/studio/session", { method: "POST", headers, body: "{}" });
  },

  make: (asked: NewDocument, key: string): Promise<Job> => {
    const images = asked.images.map((url) => ({ type: "input_image", image_url: url }));
    const content = [...images, ...(asked.text ? [{ type: "input_text", text: asked.text }] : [])];
    const options: Record<string, unknown> = { hold_plan: asked.holdPlan };
    if (asked.maxAttempts !== null) options.max_attempts = asked.maxAttempts;
    if (asked.seed !== null) options.seed = asked.seed;
    if (asked.sources) options.sources = asked.sources;
    if (asked.assets?.length) options.assets = asked.assets;
    if (asked.sheets) options.sheets = true;
    if (asked.nearest) options.nearest = true;
    const body: Record<string, unknown> = {
      input: asked.images.length ? [{ role: "user", content }] : asked.text,
      background: true,
      interleave: options,
    };
    if (asked.profile) body.model = asked.profile;
    return post("/v1/responses", body, { "Idempotency-Key": key });
  },

  check: (asked: { text: string; model: string | null }, signal: AbortSignal): Promise<CheckedRequest> =>
    post("/v1/studio/check", asked, {}, signal),

  document: (id: string, signal?: AbortSignal): Promise<DocumentFacts> => get(document_(id), signal),
  release: (id: string, plan: EditedPlan | null): Promise<Job> => post(`${document_(id)}/plan/release`, plan ? { plan } : {}),
  redraw: (id: string, step: number, how: { prompt?: string; seed?: number; only_step?: boolean }): Promise<Job> =>
    post(`${document_(id)}/steps/${step}/redraw`, how),
  choose: (id: string, step: number, attempt: number, onlyStep: boolean): Promise<Job> =>
    post(`${document_(id)}/steps/${step}/choose`, { attempt, only_step: onlyStep }),
  /** Changes words; returns all words after it. */
  changeWords: async (id: string, change: WordsChange): Promise<Words> => {
    const answer = await post<{ interleave: { words: Words } }>(`${document_(id)}/words`, change);
    return answer.interleave.words;
  },
  addStep: (id: string, after: number, step: { prompt: string; text: string; name: string }, key: string): Promise<Job> =>
    post(`${document_(id)}/steps/${after}/add`, step, { "Idempotency-Key": key }),
  undo: (id: string): Promise<Job> => post(`${document_(id)}/undo`),
  branch: (id: string, how: { step: number; prompt?: string; seed?: number }): Promise<Job> =>
    post(`${document_(id)}/branch`, how),
  stop: (id: string): Promise<Job> => post(`/v1/responses/${encodeURIComponent(id)}/cancel`),
  resume: (id: string): Promise<Job> => post(`${document_(id)}/continue`),
  remove: async (id: string): Promise<void> => {
    await request(`/v1/responses/${encodeURIComponent(id)}`, { method: "DELETE", headers: CHANGE_HEADERS });
  },

  /** Yields the journal's events after `after`, until the job or the connection ends. */
  async *events(id: string, after: number, signal: AbortSignal, opened: () => void): AsyncGenerator<JournalEvent> {
    const response = await request(`${document_(id)}/events?starting_after=${after}`, { signal });
    opened();
    for await (const event of readEvents(response)) yield JSON.parse(event.data) as JournalEvent;
  },

  stories: async (): Promise<Story[]> => (await get<Stories>("/v1/studio/stories")).data,
  story: (name: string): Promise<Reading> => get(`/v1/studio/stories/${name}`),
  ownStory: (name: string): Promise<Job> => post(`/v1/studio/stories/${name}/own`),
  shared: (token: string): Promise<Reading> => get(`/v1/shared/${token}`),
  sharedAs: (id: string): Promise<Share> => get(`/v1/studio/documents/${encodeURIComponent(id)}/share`),
  share: (id: string): Promise<Share> => post(`/v1/studio/documents/${encodeURIComponent(id)}/share`),
  unshare: async (id: string): Promise<void> => {
    await request(`/v1/studio/documents/${encodeURIComponent(id)}/share`, { method: "DELETE", headers: CHANGE_HEADERS });
  },
  /** Deletes documents; they can be restored for a week. */
  trash: (ids: string[]): Promise<unknown> => post("/v1/studio/delete", { ids }),
  deleted: async (id: string): Promise<boolean> =>
    (await get<{ deleted: boolean }>(`/v1/studio/documents/${encodeURIComponent(id)}/deletion`)).deleted,
  restore: (ids: string[]): Promise<unknown> => post("/v1/studio/restore", { ids }),
  exportOf: (ids: string[], format: string): string => `/v1/studio/export?ids=${ids.join()}&format=${format}`,
  origins: async (id: string): Promise<ImageOrigin[]> =>
    (await get<{ images: ImageOrigin[] }>(`/v1/studio/documents/${encodeURIComponent(id)}/credentials`)).images,
  rename: (id: string, title: string): Promise<Job> => post(`${document_(id)}/words`, { title }),
  gallery: (query: URLSearchParams, signal?: AbortSignal): Promise<Gallery> =>
    get(`/v1/studio/documents?${query}`, signal),

  reports: (): Promise<Reports> => get("/v1/studio/reports"),

  queue: (signal?: AbortSignal): Promise<Queue> => get("/v1/studio/queue", signal),
  pauseQueue: (): Promise<Queue> => post("/v1/studio/queue/pause"),
  resumeQueue: (): Promise<Queue> => post("/v1/studio/queue/resume"),
  moveInQueue: (id: string, place: number): Promise<Queue> =>
    post(`/v1/studio/queue/${encodeURIComponent(id)}/move`, { place }),
  related: async (id: string): Promise<RelatedItem[]> =>
    (await get<{ data: RelatedItem[] }>(`/v1/studio/documents/${encodeURIComponent(id)}/related`)).data,

  toJudge: (task: string, query: URLSearchParams, signal?: AbortSignal): Promise<JudgeItems> =>
    get(`/v1/studio/judging/${encodeURIComponent(task)}?${query}`, signal),
  labels: (query: URLSearchParams, signal?: AbortSignal): Promise<RunLabels> => get(`/v1/studio/labels?${query}`, signal),
  label: (rater: string, labels: NewLabel[]): Promise<unknown> => post("/v1/studio/labels", { rater, labels }),
  undoLabel: (rater: string, kind: Kind | null): Promise<{ units: string[] }> => post("/v1/studio/labels/undo", { rater, kind }),
  reveal: (rater: string, runs: string[]): Promise<unknown> => post("/v1/studio/labels/reveal", { rater, runs }),
  agreement: async (): Promise<KindAgreement[]> => (await get<{ data: KindAgreement[] }>("/v1/studio/agreement")).data,
  importLabels: async (file: Blob): Promise<{ stored: number; known: number }> => {
    const headers = { ...CHANGE_HEADERS, "Content-Type": "application/jsonl" };
    const answer = await request("/v1/studio/labels/import", { method: "POST", headers, body: file });
    return (await answer.json()) as { stored: number; known: number };
  },

  retryFailed: (): Promise<Retried> => post("/v1/studio/queue/retry-failed"),
};

/** The URL of an image's thumbnail. */
export function thumbnail(image: string, side: 160 | 320 | 640 = 320): string {
  return image.replace(/\/pictures\/([0-9a-f]+)\.png$/, `/thumbnails/$1.webp?side=${side}`);
}
