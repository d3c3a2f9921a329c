/**
 * The codec of replies (`agents/replies.py`), for what the miniature's models write: one thought, then one object as
 * JSON. The package also reads Python literals, fences and broken quotes of other models; here they are unreadable.
 */

import type { Reply } from "../engine/language-model";
import { ReplyError, type Plan, type PlanStep, type Verdict } from "./types";

const ABSENT = ["", "none", "null"];
const TAG = /<\s*(\/)?\s*(think|answer)\s*>/gi;
const NOT_HERE = ["sources", "needs", "assets", "scene"]; // what the miniature's plans never have

type Fields = Record<string, unknown>;

export function parsePlan(reply: Reply): Plan {
  const { thinking, fields } = answerIn(reply, ["execution_plan"]);
  const steps = fields.execution_plan;
  if (!Array.isArray(steps)) throw unreadable(reply, 'the answer must be one object with a list under "execution_plan"');
  if (!steps.length) throw unreadable(reply, "the plan has no steps");
  const planned = steps.map((step: Fields) => stepFrom(step, reply));
  return { steps: withoutGaps(planned, reply), reasoning: thinking };
}

export function parseVerdict(reply: Reply): Verdict {
  const { thinking, fields } = answerIn(reply, ["previous_step_success", "success"]);
  const judgement = fields.previous_step_success ?? fields.success;
  if (typeof judgement !== "boolean") {
    throw unreadable(reply, `"previous_step_success" must be true or false, not ${String(judgement).slice(0, 60)}`);
  }
  const refined = fields.refine_prompt ?? fields.refined_prompt ?? null;
  if (refined !== null && typeof refined !== "string") throw unreadable(reply, '"refine_prompt" must be a text');
  const phrase = judgement ? null : contradictionIn(thinking);
  if (phrase) throw unreadable(reply, `the picture is refused for what is right (${phrase}): look again`);
  return {
    outcome: judgement ? "accepted" : "rejected",
    reasoning: thinking,
    refined_prompt: judgement ? null : present(refined),
    confidence: acceptanceProbability(reply),
  };
}

function answerIn(reply: Reply, keys: readonly string[]): { thinking: string; fields: Fields } {
  if (reply.finish === "length") {
    throw unreadable(reply, "the reply was cut off at its length limit: answer more briefly");
  }
  const found = /^\s*<think>([\s\S]*?)<\/think>\s*(?:<answer>)?([\s\S]*?)(?:<\/answer>)?\s*$/i.exec(reply.text);
  try {
    const fields: unknown = JSON.parse(found?.[2] ?? "");
    if (fields instanceof Object && keys.some((key) => key in fields)) {
      return { thinking: found![1]!.replaceAll("\0", "").replace(TAG, "[$1$2]").trim(), fields: fields as Fields };
    }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw unreadable(reply, `the answer contains no object in curly brackets with "${keys[0]}"`);
}

function stepFrom(fields: Fields, reply: Reply): PlanStep {
  const number = fields.step_number;
  if (typeof number !== "number" || !Number.isInteger(number) || number < 1) {
    throw unreadable(reply, `"step_number" must be a whole number, not ${String(number).slice(0, 60)}`);
  }
  const foreign = NOT_HERE.find((key) => (fields[key] ?? null) !== null);
  if (foreign) throw unreadable(reply, `"${foreign}" of step ${number} is not expected`);
  const text = (key: string) => {
    const value = fields[key] ?? null;
    if (value !== null && typeof value !== "string") throw unreadable(reply, `"${key}" of step ${number} must be a text or null`);
    return present(value === null ? null : withoutLabel(value.trim(), number));
  };
  const step = {
    number,
    name: text("step_name"),
    instruction: text("instruction"),
    prompt: text("prompt"),
    caption: text("auxiliary_text"),
  };
  if (step.prompt === null && !(step.caption ?? step.instruction ?? step.name)) {
    throw unreadable(reply, `step ${number} has neither a prompt nor any text`);
  }
  return step;
}

function present(text: string | null): string | null {
  return text === null || ABSENT.includes(text.trim().toLowerCase()) ? null : text.trim();
}

/** The steps numbered consecutively, if their numbers only have gaps. */
function withoutGaps(steps: PlanStep[], reply: Reply): PlanStep[] {
  const first = steps[0]!.number;
  steps.forEach((step, place) => {
    if (place && step.number <= steps[place - 1]!.number) {
      throw unreadable(reply, `step numbers must follow each other: expected ${first + place}, found ${step.number}`);
    }
  });
  return steps.map((step, place) => ({ ...step, number: first + place }));
}

const LABEL =
  /(?:\b(?<named>step)\s*(?<of>[0-9]{1,7})\s*(?:of\s*[0-9]+\s*)?(?:[:)–—](?![0-9])|[.-](?=\s))|\((?<inside>[0-9]{1,7})\)\s|\b(?<plain>[0-9]{1,7})[.)]\s)\s*/iy;

/** The text without a leading "Step 3:", and without "(3)" or "3." if that is the step's number. */
function withoutLabel(text: string, number: number): string {
  let end = 0;
  const following = new Set<string>();
  const labelAt = (place: number) => {
    LABEL.lastIndex = place;
    const groups = LABEL.exec(text)?.groups;
    return groups && { named: groups.named, number: groups.of ?? groups.inside ?? groups.plain!, end: LABEL.lastIndex };
  };
  for (let label = labelAt(end); label && (label.named || label.number === String(number)); label = labelAt(end)) {
    end = label.end;
    following.add(String(Number(label.number) + 1));
  }
  const rest = text.slice(end);
  const continues = [...text.matchAll(new RegExp(LABEL.source, "gi"))].some(
    (later) => later.index >= end && following.has(later.groups!.of ?? later.groups!.inside ?? later.groups!.plain!),
  );
  return rest.includes("\n") || continues ? text : rest || text;
}

const JUDGEMENT = /["'](?:previous_step_success|success)["']\s*:\s*["']?(true|false)/i;

/** The probability of "this image is right", from the token with the judgement. */
export function acceptanceProbability(reply: Reply): number | null {
  const text = reply.tokens.map((token) => token.text).join("");
  const start = Math.max(text.toLowerCase().lastIndexOf("</think>"), 0);
  const judged = JUDGEMENT.exec(text.slice(start));
  if (!judged) return null;
  const value = start + judged.index + judged[0].length - judged[1]!.length;
  let place = 0;
  for (const token of reply.tokens) {
    place += token.text.length;
    if (place > value) return judged[1]!.toLowerCase() === "true" ? token.probability : 1 - token.probability;
  }
  return null;
}

const ENDS = new Set(".;:!?\n");
const ARTICLES = new Set(["a", "an", "the", "any", "another"]);
const BEFORE = new Set(
  `is are was were be been has have had shows show showing contains contain there there's it's now still only drew drawn
   painted placed see sees became becomes got stays remains that but because so as`.split(/\s+/),
);
const AFTER = new Set(["but", "so", "because", "which", "while", "as", "therefore", "yet"]);
const MAX_WORDS = 30;
const WINDOW = 400;

/** The first phrase that is contrasted with itself, as in "a blue cat instead of a blue cat". */
export function contradictionIn(reasoning: string): string | null {
  for (const contrast of reasoning.matchAll(/\b(?:instead of|rather than|in place of)\b|, not\b/gi)) {
    const [start, end] = [contrast.index, contrast.index + contrast[0].length];
    const before = (start <= WINDOW ? "\n" : "") + reasoning.slice(Math.max(start - WINDOW, 0), start);
    const after = reasoning.slice(end, end + WINDOW) + (end + WINDOW >= reasoning.length ? "\n" : "");
    const wanted = phraseAfter(tokens(after));
    if (wanted.length && endsWithPhrase(tokens(before), wanted)) {
      return [...wanted, contrast[0].replace(/^[, ]+/, "").toLowerCase(), ...wanted].join(" ");
    }
  }
  return null;
}

function tokens(text: string): string[] {
  const found = text.toLowerCase().match(/[\p{L}\p{N}_]+(?:['’-][\p{L}\p{N}_]+)*|[.;:!?,\n]/gu) ?? [];
  return found.filter((token) => !ARTICLES.has(token));
}

/** The words up to the end of their clause. Empty if the clause continues after a comma. */
function phraseAfter(words: string[]): string[] {
  for (const [place, token] of words.slice(0, MAX_WORDS).entries()) {
    if (ENDS.has(token) || AFTER.has(token)) return words.slice(0, place);
    if (token === ",") return AFTER.has(words[place + 1] ?? "") ? words.slice(0, place) : [];
  }
  return [];
}

function endsWithPhrase(words: string[], phrase: string[]): boolean {
  const start = words.length - phrase.length;
  if (start <= 0 || phrase.some((word, place) => words[start + place] !== word)) return false;
  return ENDS.has(words[start - 1]!) || BEFORE.has(words[start - 1]!);
}

function unreadable(reply: Reply, problem: string): ReplyError {
  return new ReplyError(problem, reply.text);
}
