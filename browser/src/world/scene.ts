/** Scenes as values, and the operations that turn one into another (`world/scene.py`, `world/operations.py`). */

import type { Expression } from "../reading/expressions";

export const GRID = 3;
export const CELLS = GRID * GRID;

export type Size = "small" | "large";
export type Relation = "on" | "in" | "under" | "held by";
export interface Thing {
  kind: string;
  colour: string;
  size: Size;
  state: number;
  /** What it carries. */
  load: { relation: Relation; thing: Thing } | null;
}
export interface Scene {
  background: string;
  cells: (Thing | null)[];
  gripper: { column: number; holds: string | null } | null;
}
export interface Kind {
  category: string;
  colour: string;
  usual: number;
  /** The noun of each state, and its adjective if it has one. */
  states: string[];
  adjectives: string[];
}
type Step = [rows: number, columns: number];
export interface WorldTables {
  kinds: Record<string, Kind>;
  /** Nouns of things that can carry another in this way. */
  carriers: Record<Relation, string[]>;
  night: string;
  nightOf: Record<string, string>;
  dayOf: Record<string, string>;
  sizes: Record<string, Size>;
  numbers: string[];
  rows: string[];
  directions: Record<string, Step>;
  relations: Record<string, Step>;
  singulars: Record<string, string>;
  /** Cells and backgrounds by their words. */
  cells: Record<string, number>;
  nouns: Record<string, string>;
  phrases: Record<string, string>;
  bare: Record<string, string>;
  gaps: Record<string, string>;
  speech: Record<string, string[]>;
  wholes: Expression[];
  expressions: Record<
    | "parts" | "pluralParts" | "thingParts" | "referenceParts" | "relativeParts"
    | "item" | "more" | "closing" | "comma" | "sentence" | "keeping",
    Expression
  >;
  /** What an operation shows, where that does not depend on the scene. */
  done: Record<string, string>;
  /** What a thing shows that could be open. */
  closed: string;
  /** Words for each cell: "at the top left" and "to the top left". */
  positions: string[];
  toPositions: string[];
  /** Nouns of backgrounds, with their articles. */
  placeNouns: Record<string, string>;
  uncountable: string[];
}
export type Operation =
  | { type: "Add"; thing: Thing; cell: number }
  | { type: "Remove"; cell: number }
  | { type: "Recolour"; cell: number; colour: string }
  | { type: "Replace"; cell: number; thing: Thing }
  | { type: "Resize"; cell: number; size: Size }
  | { type: "Move"; cell: number; to: number }
  | { type: "Swap"; cell: number; other: number }
  | { type: "ChangeState"; cell: number; state: number }
  | { type: "ChangeBackground"; background: string }
  | { type: "Put"; cell: number; relation: Relation; to: number }
  | { type: "PutNew"; thing: Thing; relation: Relation; to: number }
  | { type: "Pick"; cell: number }
  | { type: "Place"; cell: number };

/** A sentence or a scene that cannot be. */
export class InputError extends Error {}
/** The words are known, but they match no sentence that can be carried out here. */
export class NotUnderstood extends InputError {
  constructor(message: string, readonly reason?: InputError) {
    super(message);
  }
}
export class Impossible extends InputError {}
/** An operation that would change nothing. */
export class AlreadySo extends Impossible {}

/** What a function returns; `null` if that cannot be. */
export function orNull<T>(run: () => T): T | null {
  try {
    return run();
  } catch (error) {
    if (error instanceof InputError) return null;
    throw error;
  }
}

/** The things in the cells. */
export function thingsOf(scene: Scene): [cell: number, thing: Thing][] {
  return scene.cells.flatMap((thing, cell): [number, Thing][] => (thing ? [[cell, thing]] : []));
}

/** The things by their spots: those in the cells, then those they carry. */
export function everythingIn(scene: Scene): [spot: number, thing: Thing][] {
  const things = thingsOf(scene);
  const loads = things.flatMap(([cell, { load }]): [number, Thing][] => (load ? [[CELLS + cell, load.thing]] : []));
  return [...things, ...loads];
}

/** The thing at a spot, if there is one. */
export function thingAt(scene: Scene, spot: number): Thing | null {
  return (spot < CELLS ? scene.cells[spot] : scene.cells[spot - CELLS]?.load?.thing) ?? null;
}

export function isFree(scene: Scene, cell: number): boolean {
  return !scene.cells[cell] && scene.gripper?.column !== cell;
}

export function carried(thing: Thing): Thing {
  return { ...thing, size: "small" };
}

export function isSame(one: Thing, other: Thing): boolean {
  const parts = ({ kind, colour, size, state, load }: Thing): unknown[] => [kind, colour, size, state, load && [load.relation, parts(load.thing)]];
  return JSON.stringify(parts(one)) === JSON.stringify(parts(other));
}

/** The rules of scenes. */
export class World {
  constructor(readonly tables: WorldTables) {}

  nounOf({ kind, state }: Thing): string {
    return this.tables.kinds[kind]!.states[state]!;
  }

  isUsual({ kind, state }: Thing): boolean {
    return state === this.tables.kinds[kind]!.usual;
  }

  /** The thing at a spot; there must be one. */
  at(scene: Scene, spot: number): Thing {
    const thing = thingAt(scene, spot);
    if (!thing) throw new Impossible("there is nothing to change");
    return thing;
  }

  /** The same scene with one cell changed, or what the thing in it carries. */
  with(scene: Scene, spot: number, thing: Thing | null): Scene {
    if (spot < CELLS) return { ...scene, cells: scene.cells.map((each, cell) => (cell === spot ? thing : each)) };
    const carrier = scene.cells[spot - CELLS]!;
    const load = thing && { relation: carrier.load!.relation, thing: carried(thing) };
    return this.with(scene, spot - CELLS, this.loaded(carrier, load));
  }

  /** The thing with what it carries, if it can. */
  loaded(thing: Thing, load: Thing["load"]): Thing {
    const can = !load || (thing.size === "large" && this.tables.carriers[load.relation].includes(this.nounOf(thing)) && !load.thing.load);
    if (!can) throw new Impossible(`a ${this.nounOf(thing)} cannot carry that`);
    return { ...thing, load };
  }

  apply(scene: Scene, operation: Operation): Scene {
    switch (operation.type) {
      case "Add":
        mustBeFree(scene, operation.cell);
        return this.with(scene, operation.cell, operation.thing);
      case "Remove":
        this.at(scene, operation.cell);
        return this.with(scene, operation.cell, null);
      case "Recolour": {
        const thing = this.at(scene, operation.cell);
        if (thing.colour === operation.colour) throw new AlreadySo("it has this colour already");
        return this.with(scene, operation.cell, { ...thing, colour: operation.colour });
      }
      case "Replace": {
        const old = this.at(scene, operation.cell);
        const thing = operation.cell >= CELLS ? carried(operation.thing) : operation.thing;
        if (isSame({ ...old, load: null }, thing)) throw new AlreadySo("it would be replaced by itself");
        return this.with(scene, operation.cell, this.loaded(thing, old.load));
      }
      case "Resize": {
        const thing = this.at(scene, operation.cell);
        if (thing.size === operation.size) throw new AlreadySo("it has this size already");
        if (operation.cell >= CELLS || thing.load) throw new Impossible("what carries or is carried keeps its size");
        return this.with(scene, operation.cell, { ...thing, size: operation.size });
      }
      case "Move": {
        const thing = this.at(scene, operation.cell);
        mustBeFree(scene, operation.to);
        const moved: Thing = operation.cell >= CELLS ? { ...thing, size: "large" } : thing;
        return this.with(this.with(scene, operation.cell, null), operation.to, moved);
      }
      case "Swap": {
        if (Math.max(operation.cell, operation.other) >= CELLS) throw new Impossible("what is carried cannot change places");
        const [first, second] = [this.at(scene, operation.cell), this.at(scene, operation.other)];
        if (isSame(first, second)) throw new Impossible("two equal things would change places");
        return this.with(this.with(scene, operation.cell, second), operation.other, first);
      }
      case "ChangeState": {
        const thing = this.at(scene, operation.cell);
        if (operation.state === thing.state) throw new AlreadySo("it is so already");
        const changed = { ...thing, load: null, state: operation.state };
        return this.with(scene, operation.cell, this.loaded(changed, thing.load));
      }
      case "ChangeBackground":
        if (scene.background === operation.background) throw new AlreadySo("that is the background already");
        return { ...scene, background: operation.background };
      case "Put": {
        const [thing, carrier] = [this.at(scene, operation.cell), thingAt(scene, operation.to)];
        if (operation.cell === CELLS + operation.to && carrier?.load?.relation === operation.relation) throw new AlreadySo("it is there already");
        if (operation.cell % CELLS === operation.to || thing.load) throw new Impossible("it cannot be carried");
        return this.put(this.with(scene, operation.cell, null), thing, operation.relation, operation.to);
      }
      case "PutNew":
        return this.put(scene, operation.thing, operation.relation, operation.to);
      case "Pick":
        return this.pick(scene, operation.cell);
      case "Place":
        return this.place(scene, operation.cell);
    }
  }

  private put(scene: Scene, thing: Thing, relation: Relation, to: number): Scene {
    if (to >= CELLS) throw new Impossible("what is carried carries nothing");
    const carrier = this.at(scene, to);
    if (carrier.load) throw new Impossible("it carries something already");
    return this.with(scene, to, this.loaded(carrier, { relation, thing: carried(thing) }));
  }

  private pick(scene: Scene, cell: number): Scene {
    const [block, column] = [this.at(scene, cell), cell % GRID];
    if (!scene.gripper || scene.gripper.holds !== null) throw new Impossible("there is no empty gripper");
    if (block.kind !== "block" || block.size !== "small" || cell < GRID || cell >= CELLS) {
      throw new Impossible("the gripper picks up small blocks below the top row");
    }
    if (scene.cells[column]) throw new Impossible("something stands where the gripper has to go");
    return { ...this.with(scene, cell, null), gripper: { column, holds: block.colour } };
  }

  private place(scene: Scene, cell: number): Scene {
    const [holds, column] = [scene.gripper?.holds ?? null, cell % GRID];
    if (holds === null) throw new Impossible("there is no gripper that holds a block");
    mustBeFree(scene, cell);
    if (cell < GRID || scene.cells[column]) throw new Impossible("the gripper cannot get there");
    const block: Thing = { kind: "block", colour: holds, size: "small", state: 0, load: null };
    return { ...this.with(scene, cell, block), gripper: { column, holds: null } };
  }
}

function mustBeFree(scene: Scene, cell: number): void {
  if (!isFree(scene, cell)) throw new Impossible("the place is taken");
}
