/**
 * The service worker: answers from what is kept, so that the page works offline after its first load.
 *
 * The page's own files are kept when it is installed; the models are kept by `store.ts`, which shows their progress.
 * Its answers carry the headers with which a browser allows threads, whatever the host sends.
 */

// Written by assemble.py.
declare const __VERSION__: string;
declare const __SHELL__: string[];

interface Extendable extends Event {
  waitUntil(work: Promise<unknown>): void;
}
interface Fetching extends Extendable {
  request: Request;
  respondWith(answer: Promise<Response>): void;
}
const scope = self as unknown as { registration: { scope: string }; skipWaiting(): Promise<void>; clients: { claim(): Promise<void> } };
const SHELL = `interleave-page-${__VERSION__}`;

addEventListener("install", (event) => {
  // The names in assets/ change with their content, and the page has just loaded them.
  const shell = __SHELL__.map(
    (name) => new Request(new URL(name, scope.registration.scope), { cache: name.startsWith("assets/") ? "default" : "reload" }),
  );
  (event as Extendable).waitUntil(caches.open(SHELL).then((kept) => kept.addAll(shell)).then(() => scope.skipWaiting()));
});

addEventListener("activate", (event) => {
  (event as Extendable).waitUntil(removeOld().then(() => scope.clients.claim()));
});

addEventListener("fetch", (event) => {
  const { request } = event as Fetching;
  if (request.method === "GET" && request.url.startsWith(scope.registration.scope)) {
    (event as Fetching).respondWith(answer(request));
  }
});

async function removeOld(): Promise<void> {
  for (const name of await caches.keys()) if (name.startsWith("interleave-page-") && name !== SHELL) await caches.delete(name);
}

async function answer(request: Request): Promise<Response> {
  const page = request.mode === "navigate" ? new URL("index.html", scope.registration.scope).href : request.url;
  const kept = await (await caches.open(SHELL)).match(page, { ignoreSearch: true });
  return isolated(kept ?? (await fetch(request)));
}

/** The same response, with the headers of an isolated page: without them no browser shares memory between threads. */
function isolated(response: Response): Response {
  if (!response.ok || response.type === "opaque") return response;
  const headers = new Headers(response.headers);
  headers.set("Cross-Origin-Opener-Policy", "same-origin");
  headers.set("Cross-Origin-Embedder-Policy", "require-corp");
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}
