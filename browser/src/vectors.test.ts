/** The port against what Python computes: `browser/vectors.py` writes the vectors, `assemble.py` the models. */

import { existsSync, readFileSync } from "node:fs";

import * as ort from "onnxruntime-web/wasm";
import { describe, expect, test } from "vitest";

import { BytePairEncoding } from "./engine/bpe";
import { Engine, type Facts } from "./engine/engine";
import { chosen, LanguageModel, type Reply } from "./engine/language-model";
import { MersenneTwister, normalNoise } from "./engine/random";
import { judge } from "./loop/agents";
import { interleave, type Models } from "./loop/pipeline";
import { contradictionIn, parsePlan, parseVerdict } from "./loop/replies";
import { ReplyError } from "./loop/types";
import { namedStepCount } from "./reading/steps";
import { type Tables, Vocabulary } from "./reading/vocabulary";

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

  test("typing errors, and what the world lacks", () => {
    const vocabulary = new Vocabulary(json("words.json") as Tables);
    for (const { asked, ...reading } of vectors.readings) expect(vocabulary.read(asked), asked).toEqual(reading);
  });
});

describe("what a plan leaves out", () => {
  const vocabulary = new Vocabulary(json("words.json") as Tables);
  const step = { number: 1, name: null, instruction: null, prompt: "A meadow with an orange cat.", caption: null };

  test.each([
    ["Draw a cat and two dogs.", ["dogs"]],
    ["Draw a kitten.", []],
    ["Draw a cat without a dog.", []],
  ])("%s", (request, words) => {
    expect(vocabulary.leftOut(request, { steps: [step], reasoning: "" })).toEqual(words);
  });
});

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
    for await (const event of interleave("anything", models, { maxAttempts, seed })) {
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

  test.each(vectors.runs.slice(0, RUNS) as Run[])("$request", async ({ request, events }) => {
    const rules = { maxAttempts: vectors.maxAttempts, seed: 0 };
    const expected = [...events];
    for await (const event of (await engine).answer(request, rules, turn)) {
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
