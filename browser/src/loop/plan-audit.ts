/** The critic's audit of a plan: does it do what its request says? (`interleave_mini.plan_audit`) */

import type { Pause } from "../engine/language-model";
import type { Model } from "./agents";
import type { CheckTables } from "./plan-check";
import type { Plan } from "./types";

/** What is wrong with a plan, as the end of a sentence about it; empty if it may fit. */
export async function objection(critic: Model, request: string, plan: Plan, tables: CheckTables, pause: Pause): Promise<string> {
  const prompts = plan.steps.flatMap(({ prompt }) => (prompt ? [prompt] : []));
  if (prompts.length < plan.steps.length) return "";
  const question = `Fits: ${request} Plan: ${prompts.map((prompt, place) => `${place + 1}. ${prompt}`).join(" ")}`;
  const sampling = { temperature: 0, seed: 0, maxTokens: tables.auditTokens };
  const reply = await critic.complete([{ role: "user", parts: [question] }], sampling, pause);
  if (rejectionProbability(reply.tokens, tables.accepted) < tables.certain) return "";
  const number = /Step (\d+) /.exec(reply.text)?.[1];
  const prompt = prompts[Number(number) - 1];
  if (!prompt) return reply.text.includes("missing") ? "seems to lack something" : "seems to do something else";
  return `seems to do something else in step ${number}, “${prompt}”`;
}

/** The probability of a rejection, from the first word of the reasoning. */
function rejectionProbability(tokens: readonly { text: string; probability: number }[], accepted: string): number {
  for (const { text, probability } of tokens) {
    const words = text.replace(/^<think>/, "").trim();
    if (words) return accepted.startsWith(words) ? 1 - probability : probability;
  }
  return 0;
}
