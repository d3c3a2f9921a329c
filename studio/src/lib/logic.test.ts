import { describe, expect, it } from "vitest";
import { fileName } from "./download";
import { gridOf } from "./grid";
import { draftOf, emptyDraft, moved, planOf, problemsOf, samePlan } from "./plan";
import { links, routeOf } from "./route";
import { EventParser } from "./sse";
import { changes } from "./words";

describe("server-sent events", () => {
  const wire = ": still here\nevent: drawn\nid: 3\ndata: {\"a\":1}\n\nevent: judged\ndata: x\ndata: y\n\n";

  it("are parsed whole from any chunks", () => {
    for (const size of [1, 2, 7, wire.length]) {
      const parser = new EventParser();
      const events = [];
      for (let at = 0; at < wire.length; at += size) events.push(...parser.push(wire.slice(at, at + size)));
      expect(events).toEqual([{ type: "drawn", data: '{"a":1}' }, { type: "judged", data: "x\ny" }]);
    }
  });

  it("are not returned before they are complete", () => {
    expect(new EventParser().push("event: drawn\ndata: 1\n")).toEqual([]);
  });
});

describe("an edited plan", () => {
  const plan = {
    reasoning: "",
    steps: [
      { number: 3, name: "A", instruction: "i", prompt: "a", caption: "ca", sources: null },
      { number: 4, name: null, instruction: "only this", prompt: null, caption: null, sources: null },
      { number: 5, name: "C", instruction: null, prompt: "c", caption: "cc", sources: [3] },
    ],
  };

  it("equals the plan if nothing was changed", () => {
    const draft = draftOf(plan);
    expect(samePlan(draft, draftOf(plan))).toBe(true);
    const back = planOf(draft, 3).steps;
    expect(back.map((each) => each.number)).toEqual([3, 4, 5]);
    expect(back[2]?.sources).toEqual([3]);
    expect(back[1]).toMatchObject({ prompt: null, caption: "only this" });
  });

  it("numbers its steps by their position", () => {
    const steps = moved(draftOf(plan).steps, 2, 0);
    const edited = planOf({ steps, assets: [] }, 3).steps;
    expect(edited.map((each) => [each.number, each.prompt])).toEqual([[3, "c"], [4, "a"], [5, null]]);
    expect(edited[0]?.sources).toBeNull(); // its source now comes later
  });

  it("keeps assets and scenes, and an asset goes with the step that it is taken from", () => {
    const fox = { name: "fox", kind: "character" as const, description: "red", step: 3 };
    const [a, b, c] = plan.steps;
    const lettering = [{ kind: "speech" as const, text: "Hello", target: "fox", at: null }];
    const drawn = draftOf({ ...plan, assets: [fox], steps: [a!, b!, { ...c!, assets: ["fox"], scene: "all of it", needs: [3], lettering }] });
    const edited = planOf({ ...drawn, steps: moved(drawn.steps, 0, 2) }, 3);
    expect(edited.assets).toEqual([{ ...fox, step: 5 }]);
    expect(edited.steps[1]).toMatchObject({ assets: ["fox"], scene: "all of it", needs: null, lettering });
    expect(planOf(drawn, 3).steps[2]?.needs).toEqual([3]);
    expect(edited.steps[0]).toMatchObject({ assets: null, scene: null });
    expect(planOf({ ...drawn, steps: drawn.steps.slice(1) }, 3).assets?.[0]?.step).toBeNull();
  });

  it("does not move a step past the ends", () => {
    expect(moved([1, 2], 0, -1)).toEqual([1, 2]);
    expect(moved([1, 2], 1, 2)).toEqual([1, 2]);
  });

  it("says what is missing", () => {
    expect(problemsOf([...draftOf(plan).steps, emptyDraft()])).toHaveLength(1);
    expect(problemsOf([{ ...emptyDraft(), textOnly: true }])).toHaveLength(1);
    expect(problemsOf(draftOf(plan).steps)).toEqual([]);
  });
});

describe("changes between prompts", () => {
  it("are told word by word", () => {
    expect(changes("a red hen here", "a large red hen")).toEqual([
      { kind: "same", words: "a " }, { kind: "added", words: "large " }, { kind: "same", words: "red hen" }, { kind: "removed", words: "here" },
    ]);
  });

  it("of very long texts are not computed", () => {
    const long = "word ".repeat(5000);
    expect(changes("x", long)).toEqual([{ kind: "same", words: long }]);
  });
});

describe("a long grid", () => {
  it("keeps only what is near the screen in the page", () => {
    const grid = gridOf({ width: 1200, top: 300, items: 25_000, scroll: 400_000, height: 900 });
    expect(grid.to - grid.from).toBeLessThan(100);
    expect(grid.from % grid.columns).toBe(0);
    expect(grid.nearEnd).toBe(false);
  });

  it("asks for more near its end", () => {
    expect(gridOf({ width: 350, top: 300, items: 40, scroll: 100_000, height: 800 }).nearEnd).toBe(true);
    expect(gridOf({ width: 350, top: 300, items: 0, scroll: 0, height: 800 })).toMatchObject({ from: 0, to: 0 });
  });
});

describe("addresses", () => {
  it("lead where they say", () => {
    expect(routeOf(links.step("resp_1", 3))).toEqual({ view: "document", id: "resp_1", part: "step", step: 3 });
    expect(routeOf(links.slides("resp_1"))).toMatchObject({ part: "slides", step: 1 });
    expect(routeOf(links.document("a/b"))).toMatchObject({ id: "a/b", part: "read" });
    expect(routeOf("#/d/x/step/9999999999")).toMatchObject({ step: 1 });
    expect(routeOf("#/nonsense")).toEqual({ view: "make" });
    const library = routeOf("#/library?q=frog");
    expect(library.view === "library" && library.query.get("q")).toBe("frog");
  });
});

describe("names of files", () => {
  it("come from the service, else from the title", () => {
    expect(fileName("attachment; filename*=UTF-8''Der%20Fr%C3%B6sch.pdf", "x", "pdf")).toBe("Der Frösch.pdf");
    expect(fileName('attachment; filename="frog.pdf"', "x", "pdf")).toBe("frog.pdf");
    expect(fileName('attachment; filename="../frog.pdf"', "x", "pdf")).not.toContain("/");
    expect(fileName(null, "How a frog grows up!", "epub")).toBe("How-a-frog-grows-up.epub");
    expect(fileName(null, "…", "zip")).toBe("document.zip");
  });
});
