/** The worker: all models and the loop, away from the page, which stays quick. */

import * as ort from "onnxruntime-web/wasm";
import glue from "onnxruntime-web/ort-wasm-simd-threaded.mjs?url";
import wasm from "onnxruntime-web/ort-wasm-simd-threaded.wasm?url";

import { Engine, type Facts, type Wish } from "./engine/engine";
import type { Rules } from "./loop/pipeline";
import { Asked as AskedBack, type LoopEvent, type Plan, type Question } from "./loop/types";
import { Refused } from "./reading/requests";
import { fetchAll, type Progress } from "./store";

const MAX_THREADS = 4;

/** The models that read and write text come first: they can plan while the image model is loading. */
export type Part = "agents" | "generator";
export type Asked =
  | { type: "load"; facts: Facts }
  | { type: "make"; wish: Wish; rules: Rules }
  | { type: "stop" };
export type Told =
  | { type: "progress"; part: Part; progress: Progress }
  | { type: "ready"; part: Part; threads: number }
  | { type: "refused"; message: string; suggestions: string[]; nearest: Record<string, string> }
  | { type: "asked"; question: Question; plan: Plan }
  | { type: "event"; event: LoopEvent; seconds: number }
  | { type: "done"; seconds: number; stopped: boolean }
  | { type: "failed"; message: string; loading: boolean };

class Stopped extends Error {}

let engine: Promise<Engine> | undefined;
let stop = false;

function tell(told: Told): void {
  postMessage(told);
}

addEventListener("message", ({ data }: MessageEvent<Asked>) => {
  if (data.type === "load") {
    engine = load(data.facts);
    engine.catch((error: unknown) => tell({ type: "failed", message: messageOf(error), loading: true }));
  } else if (data.type === "make") void make(data.wish, data.rules);
  else stop = true;
});

async function load(facts: Facts): Promise<Engine> {
  const threads = self.crossOriginIsolated ? Math.min(MAX_THREADS, navigator.hardwareConcurrency || 1) : 1;
  ort.env.wasm.numThreads = threads;
  ort.env.wasm.wasmPaths = { mjs: new URL(glue, self.location.href).href, wasm: new URL(wasm, self.location.href).href };
  const report = (part: Part) => (progress: Progress) => tell({ type: "progress", part, progress });
  const first = await fetchAll(facts.folder, facts.files.agents, report("agents"));
  const later = fetchAll(facts.folder, facts.files.generator, report("generator"));
  const loaded = await Engine.load(ort, facts, first, later);
  tell({ type: "ready", part: "agents", threads });
  loaded.ready().then(
    () => tell({ type: "ready", part: "generator", threads }),
    (error: unknown) => tell({ type: "failed", message: messageOf(error), loading: true }),
  );
  return loaded;
}

async function make(wish: Wish, rules: Rules): Promise<void> {
  stop = false;
  const start = performance.now();
  const seconds = () => (performance.now() - start) / 1000;
  try {
    const models = await engine!;
    for await (const event of models.answer(wish, rules, pause)) {
      tell({ type: "event", event, seconds: seconds() });
      if (event.type !== "planned") await pause();
    }
    tell({ type: "done", seconds: seconds(), stopped: false });
  } catch (error) {
    if (error instanceof Stopped) tell({ type: "done", seconds: seconds(), stopped: true });
    else if (error instanceof AskedBack) tell({ type: "asked", question: error.question, plan: error.plan });
    else if (error instanceof Refused) {
      const { message, suggestions, nearest } = error;
      tell({ type: "refused", message, suggestions, nearest });
    }
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
