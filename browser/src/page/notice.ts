/** What stands between a request and its document: words that the world lacks, and a plan that does not fit. */

import type { Plan, Question } from "../loop/types";
import { button, element } from "./dom";

interface Refusal {
  message: string;
  suggestions: string[];
  nearest: Record<string, string>;
}

/** A refused request, with others that can be made. */
export function refusalView({ message, suggestions, nearest }: Refusal, fill: (request: string) => void, exchange: () => void): HTMLElement {
  const pairs = Object.entries(nearest).map(([word, near]) => `${near} for ${word}`);
  return element(
    "div",
    { class: "note warn refusal", role: "alert" },
    element("p", {}, asSentence(message)),
    pairs.length ? element("p", {}, button(`Take ${pairs.join(", ")}`, "primary", exchange)) : null,
    element("p", {}, "It can do:"),
    element("div", { class: "examples" }, ...suggestions.map((text) => button(text, "", () => fill(text)))),
  );
}

/** What the planner asks back, and its plan to mend. */
export function questionView({ text }: Question, plan: Plan, draw: (plan: Plan) => void): HTMLElement {
  const fields = plan.steps.map((step) => ({
    step,
    prompt: element("textarea", { rows: 2 }, step.prompt ?? ""),
    caption: element("textarea", { rows: 2 }, step.caption ?? ""),
  }));
  const mended = () => ({
    ...plan,
    steps: fields.map(({ step, prompt, caption }) => ({
      ...step,
      prompt: step.prompt === null ? null : prompt.value.trim() || step.prompt,
      caption: caption.value.trim() || null,
    })),
  });
  return element(
    "div",
    { class: "note warn question" },
    element("p", { role: "alert" }, asSentence(text)),
    element("p", {}, "Or mend the plan: each prompt says what to draw or to change, each caption what is read below the image."),
    element(
      "div",
      { class: "mend" },
      ...fields.map(({ step, prompt, caption }) =>
        element(
          "fieldset",
          {},
          element("legend", {}, `Step ${step.number}`),
          step.prompt === null ? null : element("label", {}, element("span", { class: "label" }, "Prompt"), prompt),
          element("label", {}, element("span", { class: "label" }, "Caption"), caption),
        ),
      ),
    ),
    element("p", {}, button("Draw this plan", "primary", () => draw(mended()))),
  );
}

function asSentence(text: string): string {
  return text[0]!.toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}
