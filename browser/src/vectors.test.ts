/** The port against what Python computes: `browser/vectors.py` writes the vectors, `assemble.py` the models. */

import { existsSync, readFileSync } from "node:fs";

import * as ort from "onnxruntime-web/wasm";
import { describe, expect, test } from "vitest";

import { BytePairEncoding } from "./engine/bpe";
import { Engine, type Facts, type Wish } from "./engine/engine";
import { chosen, LanguageModel, type Reply } from "./engine/language-model";
import { MersenneTwister, normalNoise } from "./engine/random";
import { judge } from "./loop/agents";
import { interleave, type Models } from "./loop/pipeline";
import { objection } from "./loop/plan-audit";
import { contradictionIn, parsePlan, parseVerdict } from "./loop/replies";
import { Asked, ReplyError, type Plan } from "./loop/types";
import { listed } from "./reading/expressions";
import { readingOf, type Tables } from "./reading/reading";
import { Refused } from "./reading/requests";
import { namedStepCount } from "./reading/steps";
import { shownBy } from "./world/effects";
import { CELLS, type Scene } from "./world/scene";
import { Wording } from "./world/wording";

const VECTORS = process.env.VECTORS ?? "vectors";
const DIST = process.env.DIST ?? "dist";
const RUNS = Number(process.env.RUNS ?? Infinity);
const MOST_LEVELS = 2; // of 255, by which an image may differ

const missing = [`${VECTORS}/vectors.json`, `${DIST}/models.json`].filter((name) => !existsSync(name));
if (missing.length) throw new Error(`${missing.join(", ")} missing: make site site-vectors`);

const vectors = JSON.parse(readFileSync(`${VECTORS}/vectors.json`, "utf-8"));
const facts = JSON.parse(readFileSync(`${DIST}/models.json`, "utf-8")) as Facts;
const bytesOf = (name: string) => new Uint8Array(readFileSync(`${DIST}/${facts.folder}/${name}`));
const read = async (name: string) => bytesOf(name);
const json = (name: string) => JSON.parse(new TextDecoder().decode(bytesOf(name)));

interface Run {
  request: string;
  events: any[];
}

ort.env.wasm.numThreads = 1;

describe("words", () => {
  test.each(Object.keys(vectors.tokens))("tokens of %s", (name) => {
    const encoding = new BytePairEncoding(json(`${name}/tokenizer.json`), facts.characters);
    for (const { text, ids } of vectors.tokens[name]) expect(encoding.encode(text), text).toEqual(ids);
  });

  test("the number of steps that a request names", () => {
    for (const { text, wanted } of vectors.steps) expect(namedStepCount(text, facts.steps), text).toBe(wanted);
  });

});

describe("requests and plans", () => {
  const tables = json("words.json") as Tables;
  const { requests, check, mending, sentences } = readingOf(tables, facts.steps);
  const wording = new Wording(sentences);

  test("requests as the planner reads them, and why others are refused", () => {
    for (const { asked, nearest, ...wanted } of vectors.readings) {
      const found = orRefused(() => requests.accept(asked, nearest));
      expect(typeof found === "string" ? { refused: found } : found, asked).toEqual(wanted);
    }
  });

  // In slices: so many in one test would keep vitest from its other work.
  const slices = Array.from({ length: 20 }, (_, place) => vectors.answers.filter((_: unknown, each: number) => each % 20 === place));

  test.each(slices)("what the package has answered, part $#", async (...cases) => {
    for (const { answer, ...asked } of cases) {
      expect(answerTo(asked), JSON.stringify(asked)).toBe(asked.plan ? answer.split(" | ").at(-1) : answer);
      await turn();
    }
  });

  test("scenes of prompts, what they show, and their descriptions", () => {
    for (const { prompts, scene, shown, described } of vectors.scenes) {
      const found = prompts.reduce((before: Scene | null, prompt: string) => sentences.parsePrompt(prompt, before), null);
      expect(found, prompts.join(" ")).toEqual(scene);
      expect(found.cells.length).toBe(CELLS);
      expect([...shownBy(prompts, sentences)].sort(), prompts.join(" ")).toEqual(shown);
      expect(wording.describe(found)).toBe(described);
    }
  });

  test.each(vectors.mended as any[])("a plan is mended: $what", ({ prompts, steps }) => {
    expect(mending.mended(planOf(prompts)).steps).toMatchObject(steps);
  });

  test("plans whose steps are in another order", () => {
    for (const { prompts, steps } of vectors.mendedAtRandom) {
      expect(mending.mended(planOf(prompts)).steps, prompts.join(" ")).toMatchObject(steps);
    }
  });

  test("what a plan leaves out", () => {
    for (const { asked, prompts, missing } of vectors.missing) {
      expect(check.missingFrom(planOf(prompts), requests.accept(asked)), asked).toEqual(missing);
    }
  });

  test("the critic's audit of plans", async () => {
    const critic = await LanguageModel.load(ort, read, facts.critic, facts.characters);
    for (const { asked, plan, objection: wanted } of vectors.audits) {
      expect(await objection(critic, asked, plan, check.tables, turn), asked).toBe(wanted);
    }
    expect(vectors.audits.filter((each: { objection: string }) => each.objection).length).toBeGreaterThan(0);
  });

  /** The answer to a case of the package's own tests, in its words. */
  function answerTo({ text, plan, near, prompt }: { text: string; plan?: any[]; near?: string; prompt?: string }): string {
    if (plan) return check.question({ text, captions: [], notes: [] }, planFrom(plan))?.text ?? "right";
    if (near !== undefined) {
      const known = near.trim() ? requests.nearest(near, 5) : [];
      return [...new Set([...known, ...tables.requests.examples])].slice(0, 5).join(" | ");
    }
    if (prompt !== undefined) return asRecorded(orRefused(() => requests.checkPrompt(prompt), false), () => "drawn");
    return asRecorded(orRefused(() => requests.accept(text)), (read) => [`read: ${read.text}`, ...read.notes].join(" | "));
  }

  function asRecorded<T>(found: T | string, write: (value: T) => string): string {
    return typeof found === "string" ? `refused: ${found}` : write(found);
  }
});

function planOf(prompts: readonly string[]): Plan {
  return planFrom(["", ...prompts.map((prompt) => [null, prompt, null])]);
}

function planFrom([reasoning, ...steps]: any[]): Plan {
  return { reasoning, steps: steps.map(([name, prompt, caption], place) => ({ number: place + 1, name, prompt, caption, instruction: null })) };
}

/** What a function returns, or the refusal in the words of the command line. */
function orRefused<T>(run: () => T, takesNearest = true): T | string {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const pairs = Object.entries(error.nearest).map(([word, near]) => `${near} for ${word}`);
    const nearest = pairs.length && takesNearest ? ` Take ${listed(pairs)} with nearest=True.` : "";
    const can = error.message.endsWith("sorry!") ? "In English it can do, for example," : "It can do";
    const suggested = error.suggestions.map((each) => `“${each}”`).join(" or ");
    return `${error.message}${nearest} ${can} ${suggested}. For anything else use real models: \`interleave models list\` lists them.`;
  }
}

describe("numbers", () => {
  test("noise", () => {
    for (const { seed, count, values } of vectors.noise) {
      normalNoise(count, seed).forEach((value, place) => expect(value).toBeCloseTo(values[place], 5));
    }
  });

  test("sampled tokens", () => {
    for (const { seed, temperature, logits, tokens } of vectors.draws) {
      const random = new MersenneTwister(seed);
      const drawn = tokens.map(() => chosen(Float32Array.from(logits), temperature, random));
      expect(drawn).toEqual(tokens);
    }
  });
});

describe("replies", () => {
  const reply = (text: string): Reply => ({ text, finish: "stop", tokens: [] });
  const outcome = (parse: (reply: Reply) => object, text: string) => {
    try {
      return parse(reply(text));
    } catch (error) {
      if (error instanceof ReplyError) return null;
      throw error;
    }
  };

  test("plans and verdicts", () => {
    for (const [parse, cases] of [
      [parsePlan, vectors.plans],
      [parseVerdict, vectors.verdicts],
    ] as const) {
      for (const { reply: text, value } of cases) {
        const found = outcome(parse, text);
        if (value) expect(found, text).not.toBeNull();
        else expect(found, text).toBeNull();
        if (found && value) expect(value).toMatchObject(found);
      }
    }
  });

  test("a rejection for what is right", () => {
    for (const { text, phrase } of vectors.contradictions) expect(contradictionIn(text), text).toBe(phrase);
  });
});

describe("the loop", () => {
  test.each(vectors.loops as any[])("verdicts $#", async ({ plan, verdicts, seen, events, maxAttempts, seed }) => {
    let [drawn, judged] = [0, 0];
    const models: Models = {
      plan: async () => plan,
      draw: async () => ({ width: 2, height: 2, rgb: new Uint8Array(12).fill(drawn++) }),
      judge: async ({ planned, prompt, before }) => {
        expect({ planned, prompt, before: before.rgb[0] }).toEqual(seen[judged]);
        return verdicts[judged++];
      },
    };
    const found: object[] = [];
    for await (const event of interleave(models, { maxAttempts, seed })) {
      if (event.type === "drawn") {
        const { image, ...told } = event;
        found.push({ ...told, size: [image.width, image.height] });
      } else if (event.type === "finished") {
        found.push({ ...event, step: event.step.number, attempt: event.attempt?.number ?? null });
      } else found.push(event);
    }
    expect(found).toEqual(events);
  });

  test("images that are not what was planned", async () => {
    const critic = await LanguageModel.load(ort, read, facts.critic, facts.characters);
    for (const { image, size, prompt, confidence, ...verdict } of vectors.judgements) {
      const after = { width: size[0], height: size[1], rgb: new Uint8Array(readFileSync(`${VECTORS}/images/${image}`)) };
      const before = { ...after, rgb: new Uint8Array(after.rgb.length).fill(255) };
      const found = await judge(critic, facts.pack, { planned: prompt, prompt, before, after }, turn);
      expect(found, prompt).toMatchObject(verdict);
      expect(found.confidence).toBeCloseTo(confidence, 2);
    }
  });
});

describe("runs", () => {
  const engine = Engine.load(ort, facts, read, Promise.resolve(read));
  const rulesOf = (maxAttempts: number) => ({ maxAttempts, seed: 0 });

  async function planned(wish: Wish): Promise<{ plan: Plan; question: unknown }> {
    try {
      for await (const event of (await engine).answer(wish, rulesOf(1), turn)) if (event.type === "planned") return { plan: event.plan, question: null };
    } catch (error) {
      if (error instanceof Asked) return { plan: error.plan, question: error.question };
      throw error;
    }
    throw new Error("no plan");
  }

  test.each(vectors.plannings as any[])("the plan of “$asked”, or a question", async ({ asked, plan, question }) => {
    const found = await planned({ request: asked, nearest: true });
    expect(found.question).toEqual(question);
    expect(plan).toMatchObject(found.plan);
  });

  test("a plan that the user has mended", async () => {
    const { plan } = vectors.plannings[0];
    expect((await planned({ request: "anything", plan })).plan).toEqual(plan);
    const steps = [{ ...plan.steps[0], prompt: "Add an xqzzt." }];
    await expect(planned({ request: "anything", plan: { ...plan, steps } })).rejects.toThrow("the miniature does not know “xqzzt”.");
  });

  test.each(vectors.runs.slice(0, RUNS) as Run[])("$request", async ({ request, events }) => {
    const expected = [...events];
    if (events[0].type === "asked") {
      expect((await planned({ request })).question).toEqual(events[0].question);
      return;
    }
    for await (const event of (await engine).answer({ request }, rulesOf(vectors.maxAttempts), turn)) {
      const wanted = expected.shift();
      expect(event.type).toBe(wanted.type);
      if (event.type === "planned") expect(wanted.plan).toMatchObject(event.plan);
      if (event.type === "judged") {
        const { confidence, ...verdict } = event.verdict;
        expect(wanted).toMatchObject({ slot: event.slot, verdict });
        expect(confidence).toBeCloseTo(wanted.verdict.confidence, 2);
      }
      if (event.type === "finished") expect(event.attempt?.number ?? null).toBe(wanted.attempt);
      if (event.type === "drawn") {
        const { slot, prompt, seed, image } = event;
        expect({ slot, prompt, seed, size: [image.width, image.height] }).toEqual({ slot: wanted.slot, prompt: wanted.prompt, seed: wanted.seed, size: wanted.size });
        expect(mostDifferent(image.rgb, readFileSync(`${VECTORS}/images/${wanted.image}`))).toBeLessThanOrEqual(MOST_LEVELS);
      }
    }
    expect(expected).toEqual([]);
  });
});

/** Gives vitest its turn: a graph computes without one. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function mostDifferent(one: Uint8Array, other: Uint8Array): number {
  return one.reduce((most, level, place) => Math.max(most, Math.abs(level - other[place]!)), 0);
}
