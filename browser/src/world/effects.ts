/** What the prompts of a plan show happening, as short names (`language/effects.py`). */

import { CELLS, GRID, NotUnderstood, everythingIn, type Operation, type Scene, type Thing, type World } from "./scene";
import type { Sentences } from "./sentences";

/** All that these prompts show, from nothing on: states, things that touch, and operations. */
export function shownBy(prompts: readonly string[], sentences: Sentences): Set<string> {
  const { world } = sentences;
  const shown = new Set<string>();
  let scene: Scene | null = null;
  for (const prompt of prompts) {
    const next: Scene | null = described(prompt, sentences);
    if (next) scene = next;
    else {
      for (const operation of sentences.operationsOf(prompt, scene!)) {
        for (const effect of effectsOf(operation, scene!, world)) shown.add(effect);
        scene = world.apply(scene!, operation);
      }
    }
    for (const each of seenIn(scene!, world)) shown.add(each);
  }
  return shown;
}

function described(prompt: string, sentences: Sentences): Scene | null {
  try {
    return sentences.parseDescription(prompt);
  } catch (error) {
    if (error instanceof NotUnderstood) return null;
    throw error;
  }
}

function* seenIn(scene: Scene, world: World): Generator<string> {
  const { night } = world.tables;
  for (const [, thing] of everythingIn(scene)) {
    yield `a ${thing.kind}`;
    if (!world.isUsual(thing)) yield stateOf(thing, world);
    else if (world.tables.kinds[thing.kind]!.adjectives.includes("open")) yield world.tables.closed;
    if (thing.load) yield thing.load.relation;
  }
  if (scene.background === "night" || scene.background.endsWith(night)) yield "night";
  if (scene.gripper?.holds) yield "held by";
}

function* effectsOf(operation: Operation, scene: Scene, world: World): Generator<string> {
  const { night, done } = world.tables;
  if (operation.type === "Resize") yield operation.size === "large" ? "grown" : "shrunk";
  else if (operation.type === "ChangeBackground") {
    const byDay = (background: string) => (background.endsWith(night) ? background.slice(0, -night.length) : background);
    const isSame = byDay(operation.background) === byDay(scene.background);
    const isDark = operation.background.endsWith(night) || operation.background === "night";
    yield isDark ? "nightfall" : isSame ? "daybreak" : "elsewhere";
  } else if (operation.type === "Move") {
    yield "moved";
    const lines = Math.floor(operation.to / GRID) - Math.floor((operation.cell % CELLS) / GRID);
    if (lines > 0) yield "lowered";
    if (lines < 0) yield "raised";
    if (lines < 0 && world.at(scene, operation.cell).kind === "sun") yield "daybreak";
  } else if (operation.type === "ChangeState") {
    const thing = world.at(scene, operation.cell);
    if (!world.isUsual(thing)) yield `no longer ${stateOf(thing, world)}`;
  } else yield done[operation.type]!;
}

function stateOf({ kind, state }: Thing, world: World): string {
  const { adjectives, states } = world.tables.kinds[kind]!;
  return adjectives[state] || states[state]!;
}
