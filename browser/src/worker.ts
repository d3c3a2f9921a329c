/** The worker: all models and the loop, away from the page, which stays quick. */

import * as ort from "onnxruntime-web/wasm";
import glue from "onnxruntime-web/ort-wasm-simd-threaded.mjs?url";
import wasm from "onnxruntime-web/ort-wasm-simd-threaded.wasm?url";

import { Engine, type Facts } from "./engine/engine";
import type { Rules } from "./loop/pipeline";
import type { LoopEvent } from "./loop/types";
import { type Reading, type Tables, Vocabulary } from "./reading/vocabulary";
import { fetchAll, type Progress } from "./store";

const MAX_THREADS = 4;

export type Asked =
  | { type: "load"; facts: Facts }
  | { type: "read"; request: string }
  | { type: "make"; request: string; rules: Rules }
  | { type: "stop" };
export type Told =
  | { type: "progress"; part: "planner" | "images"; progress: Progress }
  | { type: "ready"; part: "planner" | "images"; threads: number }
  | { type: "reading"; reading: Reading }
  | { type: "event"; event: LoopEvent; seconds: number; leftOut: string[] }
  | { type: "done"; seconds: number; stopped: boolean }
  | { type: "failed"; message: string; loading: boolean };

class Stopped extends Error {}

let engine: Promise<Engine> | undefined;
let vocabulary: Vocabulary | undefined;
let stop = false;

function tell(told: Told): void {
  postMessage(told);
}

addEventListener("message", ({ data }: MessageEvent<Asked>) => {
  if (data.type === "load") {
    engine = load(data.facts);
    engine.catch((error: unknown) => tell({ type: "failed", message: messageOf(error), loading: true }));
  } else if (data.type === "read") {
    void engine?.then(() => tell({ type: "reading", reading: vocabulary!.read(data.request) }), () => undefined);
  } else if (data.type === "make") {
    void make(data.request, data.rules);
  } else stop = true;
});

async function load(facts: Facts): Promise<Engine> {
  const threads = self.crossOriginIsolated ? Math.min(MAX_THREADS, navigator.hardwareConcurrency || 1) : 1;
  ort.env.wasm.numThreads = threads;
  ort.env.wasm.wasmPaths = { mjs: new URL(glue, self.location.href).href, wasm: new URL(wasm, self.location.href).href };
  const { planner, critic, generator } = facts.files;
  const report = (part: "planner" | "images") => (progress: Progress) => tell({ type: "progress", part, progress });
  const words = await fetchAll(facts.folder, planner, report("planner"));
  vocabulary = new Vocabulary(JSON.parse(new TextDecoder().decode(await words("words.json"))) as Tables);
  const later = fetchAll(facts.folder, [...generator, ...critic], report("images"));
  const loaded = await Engine.load(ort, facts, words, later);
  tell({ type: "ready", part: "planner", threads });
  loaded.ready().then(
    () => tell({ type: "ready", part: "images", threads }),
    (error: unknown) => tell({ type: "failed", message: messageOf(error), loading: true }),
  );
  return loaded;
}

async function make(request: string, rules: Rules): Promise<void> {
  stop = false;
  const start = performance.now();
  const seconds = () => (performance.now() - start) / 1000;
  try {
    const models = await engine!;
    for await (const event of models.answer(request, rules, pause)) {
      const leftOut = event.type === "planned" ? vocabulary!.leftOut(request, event.plan) : [];
      tell({ type: "event", event, seconds: seconds(), leftOut });
      if (event.type !== "planned") await pause();
    }
    tell({ type: "done", seconds: seconds(), stopped: false });
  } catch (error) {
    if (error instanceof Stopped) tell({ type: "done", seconds: seconds(), stopped: true });
    else tell({ type: "failed", message: messageOf(error), loading: false });
  }
}

const turn = new MessageChannel();
const waiting: (() => void)[] = [];
turn.port1.onmessage = () => waiting.shift()?.();

/** Let a message of the page arrive, and stop if it says so. */
async function pause(): Promise<void> {
  await new Promise<void>((resolve) => {
    waiting.push(resolve);
    turn.port2.postMessage(null);
  });
  if (stop) throw new Stopped();
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
