import { describe, expect, it } from "vitest";
import { emptyRun, fold, type RunState } from "./fold";
import type { DocumentFacts, JournalEvent, Words } from "./types";
import { allSteps, changeOf, movedOrder, shownSteps, wordOf } from "./wording";

const step = (number: number) => ({
  number, name: `Name ${number}`, instruction: null, prompt: `draw ${number}`, caption: `Text ${number}`, sources: null,
});

function run(): RunState {
  const state = emptyRun();
  const plan = { type: "planned", sequence_number: 0, plan: { steps: [step(3), step(4), step(5)] } };
  fold(state, plan as unknown as JournalEvent);
  return state;
}

function facts(order: number[], steps: object[] = []): Pick<DocumentFacts, "words" | "steps" | "plan"> {
  const own = steps.map((step) => ({ lettering: [], ...step })) as unknown as Words["steps"];
  return { words: { title: "T", order, steps: own }, steps: [], plan: null };
}

describe("a document as readers see it", () => {
  it("is the plan while there are no words", () => {
    expect(shownSteps(run(), null).map((each) => [each.shown, each.name, each.text])).toEqual([
      [3, "Name 3", "Text 3"], [4, "Name 4", "Text 4"], [5, "Name 5", "Text 5"],
    ]);
  });

  it("is in a person's order, numbered by place, without hidden steps", () => {
    const words = facts([5, 3, 4], [{ number: 3, name: "Name 3", text: "Text 3", alt: null, hidden: true }]);
    expect(shownSteps(run(), words).map((each) => [each.shown, each.step.plan.number])).toEqual([[3, 5], [4, 4]]);
    expect(allSteps(run(), words).map((each) => each.step.plan.number)).toEqual([5, 3, 4]);
  });

  it("has a person's words, and no heading that repeats the text", () => {
    const words = facts([3, 4, 5], [{ number: 4, name: "Same", text: "Same", alt: "An egg", hidden: false }]);
    expect(allSteps(run(), words)[1]).toMatchObject({ name: "", text: "Same", alt: "An egg" });
  });

  it("shows steps that the words do not know yet", () => {
    expect(allSteps(run(), facts([5])).map((each) => each.step.plan.number)).toEqual([5, 3, 4]);
  });
});

describe("an edit", () => {
  it("names one field", () => {
    const { words } = facts([4], [{ number: 4, name: "N", text: "T4", alt: null, hidden: false }]);
    expect([wordOf(words, "title"), wordOf(words, "4.text"), wordOf(words, "4.alt")]).toEqual(["T", "T4", ""]);
    expect(changeOf("title", "x")).toEqual({ title: "x" });
    expect(changeOf("4.alt", "x")).toEqual({ steps: [{ number: 4, alt: "x" }] });
  });

  it("moves a step by one place, not past the ends", () => {
    expect(movedOrder([3, 4, 5], 4, 1)).toEqual([3, 5, 4]);
    expect(movedOrder([3, 4, 5], 5, 1)).toEqual([3, 4, 5]);
  });
});
