import { describe, expect, it } from "vitest";
import { rowsOf, settingsOf, shuffled, summariesOf } from "./align";
import { difference } from "./pixels";
import { idsIn, links, routeOf } from "./route";
import type { DocumentFacts } from "./types";

interface Drawn { text?: string; prompt?: string; image?: string; outcome?: string; attempts?: number }

function run(id: string, steps: Drawn[], more: Partial<DocumentFacts> = {}): DocumentFacts {
  const facts = steps.map((step, place) => ({
    number: place + 1, name: null, text: step.text ?? "text", picture: null, before: null, accepted: true, shown: step.attempts ?? 1,
    forced: step.outcome === "forced", finished: true, state: "accepted", by_hand: null,
    attempts: Array.from({ length: step.attempts ?? 1 }, (_, at) => ({
      number: at + 1, prompt: step.prompt ?? "a frog", seed: 1, picture: `/v1/documents/${id}/pictures/${step.image ?? "aa"}.png`,
      verdict: { outcome: step.outcome ?? "accepted", reasoning: "", refined_prompt: null, confidence: null },
    })),
  }));
  return { id, title: "t", profile: "mini", steps: facts, models: { planner: "p", critic: "c", generator: "g" }, seed: 0, ...more } as unknown as DocumentFacts;
}

describe("runs side by side", () => {
  it("marks differences from the baseline run, step by step", () => {
    const rows = rowsOf([run("a", [{}, {}]), run("b", [{}, { prompt: "a red frog", image: "bb" }]), run("c", [{ outcome: "rejected" }])], 0);
    expect(rows.map((row) => row.number)).toEqual([1, 2]);
    expect(rows[0]?.differs).toEqual(["verdict"]);
    expect(rows[1]?.cells[1]?.differs).toEqual(["prompt", "image"]);
    expect(rows[1]?.cells[2]?.step).toBe(null);
    expect(rowsOf([run("a", [{ text: "x" }]), run("b", [{}])], 1)[0]?.cells[0]?.differs).toEqual(["text"]);
  });

  it("has no rows without a plan, and no cells for a run that is not loaded", () => {
    expect(rowsOf([null, run("a", [])], 0)).toEqual([]);
    expect(rowsOf([null, run("a", [{}])], 0)[0]?.cells[0]?.step).toBe(null);
  });

  it("separates settings that differ from those that do not", () => {
    const found = settingsOf([run("a", [], { seed: 1 }), run("b", [], { seed: 2, parent: "a" }), null]);
    expect(found.filter((each) => each.differs).map((each) => each.name)).toEqual(["seed", "parent"]);
    expect(found.find((each) => each.name === "profile")?.differs).toBe(false);
    expect(summariesOf(found, 3)).toEqual(["1", "2", ""]);
    expect(settingsOf([run("a", []), run("b", [], { seed: null, models: {} })]).some((each) => each.differs)).toBe(false);
    expect(found.find((each) => each.name === "max_attempts")).toBe(undefined);
  });

  it("treats invisible pixel differences as equal", () => {
    const a = new Uint8ClampedArray([10, 10, 10, 255, 0, 0, 0, 255]);
    const b = new Uint8ClampedArray([20, 10, 10, 255, 0, 90, 0, 255]);
    expect(difference(a, b).share).toBe(0.5);
    expect([...difference(a, b).overlay.slice(4, 7)]).toEqual([214, 20, 140]);
    expect(difference(a, a).share).toBe(0);
  });
});

describe("a blind order", () => {
  const ids = ["a", "b", "c", "d"];
  it("depends on the seed, not on the order of ids", () => {
    expect(shuffled(ids, "seed")).toEqual(shuffled([...ids].reverse(), "seed"));
    expect([...shuffled(ids, "seed")].sort()).toEqual(ids);
  });
  it("puts each run at each place about equally often", () => {
    const first = Array.from({ length: 4000 }, (_, seed) => shuffled(ids, String(seed))[0]);
    for (const id of ids) expect(Math.abs(first.filter((each) => each === id).length - 1000)).toBeLessThan(120);
  });
});

describe("addresses", () => {
  it("carry a whole comparison", () => {
    const address = links.compare(["resp_1", "resp_2"], { step: 3, base: "resp_2", blind: "00ff" });
    const route = routeOf(address);
    expect(route.view === "compare" && [route.ids, route.query.get("step"), route.query.get("blind")]).toEqual([["resp_1", "resp_2"], "3", "00ff"]);
    expect(routeOf("#/compare")).toMatchObject({ view: "compare", ids: [] });
  });
  it("have distinct document ids and nothing else", () => {
    expect(idsIn("a,b,,a,../x, c")).toEqual(["a", "b"]);
    expect(routeOf(links.judge("score", ["a", "b"]))).toMatchObject({ view: "judge", task: "score" });
  });
});
