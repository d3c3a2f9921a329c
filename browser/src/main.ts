/** The page: a request, the models on this device, and the document as it comes. */

import type { Facts, Wish } from "./engine/engine";
import type { Pixels } from "./engine/messages";
import { button, element } from "./page/dom";
import { stepsView, stepView } from "./page/document";
import { asHtml, save } from "./page/export";
import { begin, type Choices, fold, notesOf, type Record } from "./page/record";
import { questionView, refusalView } from "./page/notice";
import type { Asked, Part, Told } from "./worker";

const MAX_ATTEMPTS = 5; // the default of the command line
const MAX_CHARACTERS = 2000; // far more than the planner reads
const NAMES: { [part in Part]: string } = { agents: "the planner and the critic", generator: "the image model" };

const facts = (await (await fetch("models.json")).json()) as Facts;
const megabytes = Math.ceil(facts.bytes / 1e6);
const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
const send = (asked: Asked): void => worker.postMessage(asked);

document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";

// What is on the page

const request = element("textarea", { id: "request", rows: 3, maxlength: MAX_CHARACTERS, "aria-describedby": "about", placeholder: facts.examples[0]! });
const seed = element("input", { type: "number", id: "seed", min: 0, max: 999999, value: 0 });
const attempts = element("input", { type: "number", id: "attempts", min: 1, max: 9, value: MAX_ATTEMPTS });
const make = element("button", { type: "submit", class: "primary" }, "Make the document");
const stop = button("Stop", "", () => send({ type: "stop" }));
const loading = element("div", { class: "loading column", id: "loading" });
const notice = element("div", { class: "column", id: "notice", role: "status" });
const paper = element("article", { class: "document", id: "document" });
const live = element("p", { class: "visually-hidden", "aria-live": "polite" });
const threads = element("li", {}, "The models are not loaded yet.");
const form = element(
  "form",
  { class: "head column no-print" },
  element("h1", {}, "What would you like to explain or tell?"),
  element("p", { id: "about" }, `A planner writes the steps, a small model draws them, and a critic has wrong images redrawn. All of it runs in this tab, in a small world of ${facts.kinds} kinds of things: animals, people, plants, food, vehicles, houses, furniture, weather.`),
  element("label", { class: "visually-hidden", for: "request" }, "Your request"),
  request,
  element("div", { class: "examples" }, ...facts.examples.map((text) => button(text, "", () => fill(text)))),
  element("div", { class: "row" }, make, stop),
  element(
    "details",
    {},
    element("summary", {}, "Settings"),
    element(
      "div",
      { class: "settings" },
      element("label", {}, element("span", { class: "label" }, "Seed: another one draws other images"), seed),
      element("label", {}, element("span", { class: "label" }, "Attempts at each step, at most"), attempts),
    ),
  ),
);
const about = element(
  "footer",
  { class: "facts column no-print" },
  element("p", {}, `Nothing leaves this device. The models and what computes them (${megabytes} MB) are loaded once and kept by the browser, so the page then works offline.`),
  element(
    "ul",
    {},
    threads,
    element("li", {}, "Requests are in English, and of text alone. The installed program also takes images of your own, writes long documents and keeps its runs."),
    element("li", {}, "Nothing is kept when the tab is closed: save the document first."),
  ),
);

let record: Record | null = null;
let seconds = 0;
let isLoading = false;
let isReady = false;
let waiting: Wish | null = null;

document.querySelector("#page")!.replaceChildren(form, loading, notice, paper, live, about);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});
request.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) start();
});
showButtons();
if (!isPhone() && !savesData()) load();
else offerLoading();

// Loading

function load(): void {
  if (isLoading) return;
  isLoading = true;
  showProgress("agents", 0, facts.files.agents.reduce((sum, file) => sum + file.bytes, 0));
  send({ type: "load", facts });
}

/** On a phone, and where data is saved, nothing large is loaded without being asked for. */
function offerLoading(): void {
  const said = isPhone()
    ? `This looks like a phone. The models are ${megabytes} MB to load and need about 600 MB of memory, so some phones close the tab. An image takes a few seconds on a laptop and several times as long here.`
    : `The models are ${megabytes} MB to load.`;
  loading.replaceChildren(element("p", { class: "note" }, said), element("p", {}, button(`Load the models (${megabytes} MB)`, "primary", load)));
}

function isPhone(): boolean {
  const agent = (navigator as { userAgentData?: { mobile: boolean } }).userAgentData;
  return agent?.mobile ?? /Android|iPhone|Mobile/.test(navigator.userAgent);
}

function savesData(): boolean {
  return (navigator as { connection?: { saveData?: boolean } }).connection?.saveData ?? false;
}

function showProgress(part: Part, done: number, total: number): void {
  const said = `Loading ${NAMES[part]}: ${Math.floor(done / 1e6)} of ${Math.ceil(total / 1e6)} MB`;
  const bar = loading.querySelector("progress");
  if (!bar) {
    loading.replaceChildren(element("p", { class: "quiet" }, said), element("progress", { value: done, max: total, "aria-label": "Loading" }));
    return;
  }
  bar.value = done;
  bar.max = total;
  loading.querySelector("p")!.textContent = said;
}

/** Without a secure address there is no service worker: the page works, but not offline. */
async function keepForOffline(): Promise<void> {
  if (!("serviceWorker" in navigator)) return;
  try {
    await navigator.serviceWorker.register("sw.js");
    await navigator.serviceWorker.ready;
    document.documentElement.dataset.offline = "ready";
  } catch {
    // the page goes on without it
  }
}

function showThreads(count: number): void {
  threads.textContent = self.crossOriginIsolated
    ? `The models compute with ${count} thread${count === 1 ? "" : "s"}.`
    : "The models compute with one thread: this page was loaded without the headers that allow more. If the page is not in a frame, loading it again may be enough.";
}

// Making

function fill(text: string): void {
  request.value = text;
  request.focus();
}

function start(choices: Choices = {}): void {
  const text = request.value.trim() || facts.examples[0]!;
  request.value = text;
  waiting = { request: text, ...choices };
  load();
  notice.replaceChildren();
  if (isReady) begun();
  else say("The document begins as soon as the planner and the critic are loaded.");
}

function begun(): void {
  if (!waiting) return;
  const wish = waiting;
  waiting = null;
  notice.replaceChildren();
  record = begin(wish, Number(seed.value) || 0);
  seconds = 0;
  const maxAttempts = Math.min(Math.max(Math.round(Number(attempts.value)) || MAX_ATTEMPTS, 1), 9);
  send({ type: "make", wish, rules: { maxAttempts, seed: record.seed } });
  showDocument();
  showButtons();
}

/** Nothing is drawn: say why, and what can be done. */
function notBegun(why: HTMLElement): void {
  record = null;
  paper.replaceChildren();
  notice.replaceChildren(why);
  showButtons();
  notice.scrollIntoView({ behavior: scrolling(), block: "nearest" });
}

function scrolling(): ScrollBehavior {
  return matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
}

function showButtons(): void {
  const busy = record?.state === "planning" || record?.state === "drawing";
  make.disabled = busy;
  stop.hidden = !busy;
}

function say(text: string): void {
  live.textContent = text;
  const state = paper.querySelector("#state");
  if (state) state.textContent = text;
  else if (!record) notice.replaceChildren(element("p", { class: "note" }, text));
}

// The document

function showDocument(): void {
  if (!record) return;
  const only = element("input", { type: "checkbox", id: "all", checked: true });
  only.addEventListener("change", () => paper.classList.toggle("plain-steps", !only.checked));
  paper.classList.remove("plain-steps");
  paper.replaceChildren(
    element(
      "header",
      { class: "column" },
      element("h1", {}, record.request),
      ...notesOf(record).map((note) => element("p", { class: "quiet" }, note)),
      record.plan?.reasoning ? element("p", { class: "quiet no-print" }, `The planner: ${record.plan.reasoning}`) : null,
      element("p", { id: "state", class: "quiet no-print" }, ""),
      element(
        "div",
        { class: "row no-print" },
        button("Save as HTML", "", () => record && save(`${fileName(record.request)}.html`, asHtml(record))),
        button("Print or save as PDF", "", () => window.print()),
        button("Other images", "", again),
        element("label", { class: "check" }, only, "Attempts and verdicts"),
      ),
    ),
    element("div", { class: "wide" }, stepsView(record)),
  );
  showState();
}

function again(): void {
  if (!record || record.state === "planning" || record.state === "drawing") return;
  seed.value = String(record.seed + 1);
  request.value = record.request;
  start(record.choices);
}

function showState(): void {
  if (!record) return;
  const step = record.steps.find((each) => each.state === "drawing" || each.state === "judging");
  const took = `${seconds.toFixed(0)} s`;
  paper.dataset.state = record.state;
  const words = {
    planning: "The planner writes the plan.",
    drawing: step ? `Step ${step.plan.number} of ${record.steps.length}, ${took}` : "",
    done: `Done in ${took}.`,
    stopped: "Stopped: what was drawn stays.",
    failed: "",
  };
  if (words[record.state]) say(words[record.state]);
}

function fileName(text: string): string {
  return text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "document";
}

function urlOf({ width, height, rgb }: Pixels): string {
  const canvas = element("canvas", { width, height });
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(width, height);
  for (let pixel = 0; pixel < width * height; pixel++) {
    image.data.set(rgb.subarray(pixel * 3, pixel * 3 + 3), pixel * 4);
    image.data[pixel * 4 + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas.toDataURL("image/png");
}

function ended(state: Record["state"]): void {
  if (record) record.state = state;
  for (const step of record?.steps ?? []) {
    if (step.state !== "finished") step.state = "waiting";
    if (state !== "done") replaceStep(step.plan.number);
  }
  showState();
  showButtons();
}

function replaceStep(number: number): void {
  const step = record?.steps.find((each) => each.plan.number === number);
  if (step) paper.querySelector(`[data-step="${number}"]`)?.replaceWith(stepView(step));
}

// What the worker tells

worker.addEventListener("error", (event) => failed(event.message || "the models cannot be started in this browser", true));
worker.addEventListener("message", ({ data }: MessageEvent<Told>) => {
  if (data.type === "progress") showProgress(data.part, data.progress.done, data.progress.total);
  else if (data.type === "ready") ready(data.part, data.threads);
  else if (data.type === "refused") notBegun(refusalView(data, fill, () => start({ nearest: true })));
  else if (data.type === "asked") notBegun(questionView(data.question, data.plan, (plan) => start({ plan })));
  else if (data.type === "failed") failed(data.message, data.loading);
  else if (data.type === "done") {
    seconds = data.seconds;
    ended(data.stopped ? "stopped" : "done");
  } else if (record) {
    seconds = data.seconds;
    const step = fold(record, data.event, urlOf);
    if (!step) {
      showDocument();
      paper.scrollIntoView({ behavior: scrolling() });
    } else replaceStep(step.plan.number);
    const next = record.steps.find((each) => each.state === "drawing" && each !== step);
    if (next) replaceStep(next.plan.number);
    showState();
  }
});

function ready(part: Part, count: number): void {
  showThreads(count);
  if (part === "generator") {
    loading.replaceChildren();
    document.documentElement.dataset.models = "ready";
    void keepForOffline(); // not before: it would load the same files at the same time
    return;
  }
  isReady = true;
  begun();
}

function failed(message: string, whileLoading: boolean): void {
  const words = whileLoading ? `The models could not be loaded: ${message}. Reload the page to try again.` : `This request failed: ${message}.`;
  if (whileLoading) loading.replaceChildren();
  notice.replaceChildren(element("p", { class: "note bad", role: "alert" }, words));
  if (record && (record.state === "planning" || record.state === "drawing")) ended("failed");
  showButtons();
}
