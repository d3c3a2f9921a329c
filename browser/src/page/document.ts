/** A document on the page: each step with every attempt, verdict and refined prompt, as they come. */

import { textOf } from "../loop/types";
import { element } from "./dom";
import { imageOf, type Record, type ShownAttempt, type ShownStep } from "./record";

export function stepsView(record: Record): HTMLElement {
  const pairs = record.steps.length === 4 ? " pairs" : ""; // not three and one
  return element("div", { class: `steps${pairs}` }, ...record.steps.map(stepView));
}

export function stepView(step: ShownStep): HTMLElement {
  const { plan } = step;
  return element(
    "section",
    { class: "step", "data-step": plan.number, "aria-label": `Step ${plan.number}` },
    plan.prompt === null ? null : figureOf(step),
    element("h2", {}, element("span", {}, String(plan.number)), plan.name ?? ""),
    element("p", { class: "text" }, textOf(plan)),
    element("p", { class: "state" }, stateOf(step)),
    step.attempts.length ? element("div", { class: "attempts" }, ...step.attempts.map(attemptView)) : null,
  );
}

function figureOf(step: ShownStep): HTMLElement {
  const working = step.state === "drawing" || step.state === "judging" ? " working" : "";
  const shown = imageOf(step);
  if (!shown) return element("figure", { class: `waiting${working}` }, element("p", {}, step.plan.prompt ?? ""));
  return element("figure", { class: working }, element("img", { src: shown.image, alt: textOf(step.plan), width: 512, height: 512 }));
}

export function stateOf(step: ShownStep): string {
  const tries = step.attempts.length;
  if (step.state === "waiting") return "waits for the step before it";
  if (step.state === "judging") return `attempt ${tries}: the critic is looking`;
  if (step.state === "drawing") return `attempt ${tries + 1}: drawing`;
  if (!step.shown) return "a step of text only";
  const count = tries === 1 ? "1 attempt" : `${tries} attempts`;
  return step.forced ? `${count}, none accepted: attempt ${step.shown.number} is shown` : `${count}, accepted`;
}

function attemptView(attempt: ShownAttempt): HTMLElement {
  const { verdict } = attempt;
  const refined = verdict?.refined_prompt;
  return element(
    "article",
    { class: "attempt", "data-attempt": attempt.number, "aria-label": `Attempt ${attempt.number}` },
    element("img", { src: attempt.image, alt: `Attempt ${attempt.number}`, width: 80, height: 80 }),
    element(
      "div",
      {},
      element(
        "p",
        { class: "row" },
        element("strong", {}, `Attempt ${attempt.number}`),
        element("span", { class: `mark ${verdict?.outcome ?? ""}` }, verdict?.outcome ?? "being judged"),
        verdict?.confidence == null ? null : element("span", { class: "quiet" }, `chance to be right: ${percent(verdict.confidence)}`),
      ),
      element("p", {}, attempt.prompt),
      verdict?.reasoning ? element("p", { class: "quiet" }, `The critic: ${verdict.reasoning}`) : null,
      refined ? element("p", { class: "refined" }, `Refined prompt: ${refined}`) : null,
    ),
  );
}

function percent(share: number): string {
  const rounded = Math.round(share * 100);
  return `${rounded === 100 && share < 1 ? ">99" : rounded === 0 && share > 0 ? "<1" : rounded} %`;
}
