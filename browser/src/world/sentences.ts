/** Scenes and operations from the sentences of prompts (`language/descriptions.py`, `sentences.py`, `references.py`). */

import { compiled, groupsOf, literally, wholly } from "../reading/expressions";
import {
  AlreadySo, CELLS, GRID, InputError, NotUnderstood, World, carried, everythingIn,
  type Operation, type Relation, type Scene, type Size, type Thing,
} from "./scene";

type Groups = Record<string, string | undefined>;
type Reader = (words: Record<string, string>, scene: Scene) => Operation;
/** A thing as far as it was described. */
export interface Described {
  noun: string;
  colour: string | null;
  size: Size | null;
}
/** A sentence with gaps: its fixed words tell most sentences apart before it is compiled. */
interface Pattern {
  fixed: string[];
  whole(): RegExp;
}

const MIDDLE = 4;

export class Sentences {
  private readonly rows: Pattern[];
  private readonly patterns: [name: string, patterns: Pattern[]][];
  private readonly wholes: RegExp[];
  private readonly found: Record<"parts" | "pluralParts" | "thingParts" | "referenceParts" | "relativeParts" | "item" | "more", RegExp>;
  private readonly readers = this.readersOfSpeech();
  private readonly kinds: Map<string, [kind: string, state: number]>;

  constructor(readonly world: World) {
    const { speech, wholes, expressions } = world.tables;
    const { row, ...others } = speech;
    const { parts, pluralParts, thingParts, referenceParts, relativeParts, item, more } = expressions;
    const whole = { parts, pluralParts, thingParts, referenceParts, relativeParts, item, more };
    this.found = Object.fromEntries(Object.entries(whole).map(([name, each]) => [name, wholly(each)])) as typeof this.found;
    this.wholes = wholes.map(wholly);
    const kinds = Object.entries(world.tables.kinds);
    this.kinds = new Map(kinds.flatMap(([kind, { states }]) => states.map((noun, state) => [noun, [kind, state]])));
    this.rows = row!.map((text) => this.pattern(text));
    this.patterns = Object.entries(others).map(([name, texts]) => [name, texts.map((text) => this.pattern(text))]);
  }

  /** The scene a prompt asks for, given the scene before it. */
  parsePrompt(prompt: string, before: Scene | null): Scene {
    try {
      return this.parseDescription(prompt);
    } catch (error) {
      if (!(error instanceof NotUnderstood) || !before) throw error;
    }
    return this.operationsOf(prompt, before).reduce((scene, each) => this.world.apply(scene, each), before);
  }

  /** The operations a prompt asks for in a scene. */
  operationsOf(prompt: string, before: Scene): Operation[] {
    const { sentence, keeping } = this.world.tables.expressions;
    const found: Operation[] = [];
    let scene = before;
    for (const part of prompt.trim().split(compiled(sentence))) {
      if (!normalised(part) || part.search(compiled(keeping)) === 0) continue;
      for (const operation of this.parseSentence(part, scene)) {
        scene = this.world.apply(scene, operation);
        found.push(operation);
      }
    }
    if (!found.length) throw new NotUnderstood(`this asks for nothing: ${prompt}`);
    return found;
  }

  /** A description as its scene. */
  parseDescription(text: string): Scene {
    const [first = "", ...rest] = text.split(/(?<=[.!]) /).map(normalised).filter(Boolean);
    for (const whole of this.wholes) {
      const groups = groupsOf(whole, first);
      if (!groups) continue;
      try {
        return this.scene(this.backgroundIn(groups), this.itemsIn(groups.items, rest));
      } catch (error) {
        if (!(error instanceof InputError)) throw error;
      }
    }
    throw new NotUnderstood(`not the description of a scene: ${text}`);
  }

  private itemsIn(items: string | undefined, rest: readonly string[]): string[] {
    const { closing, comma } = this.world.tables.expressions;
    const found = items ? items.split(compiled(comma)) : [];
    for (const more of rest) {
      if (more.search(compiled(closing)) === 0) continue;
      const extra = groupsOf(this.found.more, more);
      if (!extra) throw new NotUnderstood(`not part of a description: ${more}`);
      found.push(...extra.items!.split(compiled(comma)));
    }
    return found;
  }

  private backgroundIn({ place, within, bare }: Groups): string {
    const { nouns, phrases, bare: bareNouns } = this.world.tables;
    if (place) return nouns[place.toLowerCase()]!;
    return within ? phrases[within.toLowerCase()]! : bareNouns[bare!.toLowerCase()]!;
  }

  private scene(background: string, items: readonly string[]): Scene {
    const { cells: cellOf, rows, numbers } = this.world.tables;
    const scene: Scene = { background, cells: Array<Thing | null>(CELLS).fill(null), gripper: null };
    const put = (cell: number, thing: Thing) => {
      if (scene.cells[cell]) throw new NotUnderstood("two things in one place");
      scene.cells[cell] = thing;
    };
    for (const item of items) {
      const groups = groupsOf(this.found.item, item.trim());
      if (!groups) throw new NotUnderstood(`not a thing of a scene: ${item}`);
      const { hand, above, holds, things, row, count, thing, where } = groups;
      if (hand) scene.gripper = { column: cellOf[above!.toLowerCase()]!, holds: holds?.toLowerCase() ?? null };
      else if (things) {
        const start = rows.indexOf(row!.toLowerCase()) * GRID;
        const many = numbers.indexOf(count!.toLowerCase());
        for (let column = 0; column < many; column++) put(start + column, this.thing(this.describedMany(things)));
      } else put(where ? cellOf[where.toLowerCase()]! : MIDDLE, this.carrying(groups, this.thing(this.described(thing!))));
    }
    const column = scene.gripper?.column;
    if (column !== undefined && (column >= GRID || scene.cells[column])) throw new InputError("the gripper hangs in the top row");
    return scene;
  }

  private carrying({ load, relation }: Groups, thing: Thing): Thing {
    if (!load) return thing;
    return this.world.loaded(thing, { relation: relation!.toLowerCase() as Relation, thing: carried(this.thing(this.described(load))) });
  }

  /** A sentence as operations on a scene. */
  parseSentence(said: string, scene: Scene): Operation[] {
    const text = normalised(said);
    let [problem, cause]: [string, InputError | undefined] = ["it does not say what to change", undefined];
    for (const pattern of this.rows) {
      const words = read(pattern, text);
      if (words) return this.row(words);
    }
    for (const operationIn of this.matching(text)) {
      try {
        const operation = operationIn(scene);
        this.world.apply(scene, operation);
        return [operation];
      } catch (error) {
        if (!(error instanceof InputError)) throw error;
        [problem, cause] = [error.message, error];
      }
    }
    throw new NotUnderstood(`${text}: ${problem}`, cause);
  }

  /** The operations that a sentence may ask for, possible or not. Throws `AlreadySo`. */
  *readings(text: string, scene: Scene): Generator<Operation> {
    for (const operationIn of this.matching(normalised(text))) {
      let operation: Operation;
      try {
        operation = operationIn(scene);
      } catch (error) {
        if (error instanceof AlreadySo || !(error instanceof InputError)) throw error;
        continue;
      }
      yield operation;
    }
  }

  /** A function for each way to read a sentence: from a scene to the operation. */
  private *matching(text: string): Generator<(scene: Scene) => Operation> {
    for (const [name, patterns] of this.patterns) {
      for (const pattern of patterns) {
        const words = read(pattern, text);
        if (words) yield (scene) => this.readers[name]!(words, scene);
      }
    }
  }

  /** "Add three small red apples in the top row". */
  private row(words: Record<string, string>): Operation[] {
    const { rows, numbers } = this.world.tables;
    const start = rows.indexOf(words.row!.toLowerCase()) * GRID;
    const thing = this.thing(this.describedMany(words.things!));
    return Array.from({ length: numbers.indexOf(words.count!.toLowerCase()) }, (_, column) => ({ type: "Add", thing, cell: start + column }));
  }

  private readersOfSpeech(): Record<string, Reader> {
    const ref = (words: Record<string, string>, scene: Scene) => this.find(scene, words.ref!);
    const resize = (size: Size): Reader => (words, scene) => ({ type: "Resize", cell: ref(words, scene), size });
    const replace: Reader = (words, scene) => this.replacement(ref(words, scene), words.thing!, scene);
    const put: Reader = (words, scene) => ({ type: "Put", cell: ref(words, scene), relation: touching(words), to: this.find(scene, words.other!) });
    const putNew: Reader = (words, scene) => ({ type: "PutNew", thing: this.thing(this.described(words.thing!)), relation: touching(words), to: this.find(scene, words.other!) });
    const turn = (table: "nightOf" | "dayOf"): Reader => (_, scene) => ({ type: "ChangeBackground", background: this.turned(scene, table) });
    return {
      add: (words, scene) => ({ type: "Add", thing: this.thing(this.described(words.thing!)), cell: this.position(scene, words.where!) }),
      remove: (words, scene) => ({ type: "Remove", cell: ref(words, scene) }),
      recolour: (words, scene) => ({ type: "Recolour", cell: ref(words, scene), colour: words.colour!.toLowerCase() }),
      replace,
      change: replace,
      grow: resize("large"),
      shrink: resize("small"),
      move: (words, scene) => {
        const cell = ref(words, scene);
        return { type: "Move", cell, to: this.position(this.world.with(scene, cell, null), words.to!) };
      },
      step: (words, scene) => {
        const cell = ref(words, scene);
        const to = neighbour(cell, this.world.tables.directions[words.direction!.toLowerCase()]!);
        if (to === null) throw new NotUnderstood("there is no room to go there");
        return { type: "Move", cell, to };
      },
      swap: (words, scene) => ({ type: "Swap", cell: ref(words, scene), other: this.find(scene, words.other!) }),
      travel: (words) => ({ type: "ChangeBackground", background: this.world.tables.nouns[words.place!.toLowerCase()]! }),
      pick: (words, scene) => ({ type: "Pick", cell: ref(words, scene) }),
      place: (words, scene) => {
        if (scene.gripper?.holds !== words.colour!.toLowerCase()) throw new NotUnderstood("the gripper holds no such block");
        return { type: "Place", cell: this.position(scene, words.where!) };
      },
      put,
      "put new": putNew,
      give: put,
      "give new": putNew,
      make: (words, scene) => this.newState(ref(words, scene), words.state!.toLowerCase(), scene),
      nightfall: turn("nightOf"),
      daybreak: turn("dayOf"),
    };
  }

  /** "Turn it into …": a new state where the kind stays the same, else another thing in its place. */
  private replacement(cell: number, words: string, scene: Scene): Operation {
    const old = this.world.at(scene, cell);
    const thing = this.thing(this.described(words), old);
    const isSameThing = thing.kind === old.kind && thing.colour === old.colour && thing.size === old.size;
    return isSameThing ? { type: "ChangeState", cell, state: thing.state } : { type: "Replace", cell, thing };
  }

  private newState(cell: number, adjective: string, scene: Scene): Operation {
    const state = this.world.tables.kinds[this.world.at(scene, cell).kind]!.adjectives.indexOf(adjective);
    if (state < 0) throw new NotUnderstood(`it cannot be ${adjective}`);
    return { type: "ChangeState", cell, state };
  }

  private turned({ background }: Scene, table: "nightOf" | "dayOf"): string {
    const turned = this.world.tables[table][background];
    if (!turned) throw new AlreadySo("it is so already");
    return turned;
  }

  /** The spot of "the red cat at the top left" or "the red cat on the brown chair". */
  find(scene: Scene, words: string): number {
    const groups = groupsOf(this.found.referenceParts, words);
    if (!groups) throw new NotUnderstood(`not a reference: ${words}`);
    const { what, anchor, relation, where } = groups;
    let spots = this.fitting(scene, this.parts(this.found.parts, what!));
    if (anchor) {
      const carrier = this.find(scene, anchor);
      const load = carrier < CELLS ? scene.cells[carrier]?.load : null;
      spots = spots.filter((spot) => spot === CELLS + carrier && load?.relation === relation!.toLowerCase());
    }
    if (where) spots = spots.filter((spot) => spot === this.world.tables.cells[where.toLowerCase()]);
    if (spots.length !== 1) throw new NotUnderstood(`${spots.length ? "more than one" : "no"} thing fits ${words}`);
    return spots[0]!;
  }

  /** The cell of "at the top left", "to the top left" or "left of the house". */
  private position(scene: Scene, said: string): number {
    const words = said.toLowerCase();
    const relative = groupsOf(this.found.relativeParts, words);
    if (!relative) return this.world.tables.cells[words]!;
    const cell = neighbour(this.find(scene, relative.anchor!) % CELLS, this.world.tables.relations[relative.relation!]!);
    if (cell === null) throw new NotUnderstood(`there is no room ${words}`);
    return cell;
  }

  /** The spots of all things that a description fits. */
  fitting(scene: Scene, { noun, colour, size }: Described): number[] {
    const fits = (thing: Thing) =>
      this.world.nounOf(thing) === noun && (colour ?? thing.colour) === thing.colour && (size ?? thing.size) === thing.size;
    return everythingIn(scene).filter(([, thing]) => fits(thing)).map(([spot]) => spot);
  }

  described(words: string): Described {
    const what = groupsOf(this.found.thingParts, words)?.what;
    if (!what) throw new NotUnderstood(`not a thing: ${words}`);
    return this.parts(this.found.parts, what);
  }

  private describedMany(words: string): Described {
    const many = this.parts(this.found.pluralParts, words);
    return { ...many, noun: this.world.tables.singulars[many.noun]! };
  }

  private parts(pattern: RegExp, words: string): Described {
    const { noun, colour, size } = groupsOf(pattern, words)!;
    return { noun: noun!.toLowerCase(), colour: colour?.toLowerCase() ?? null, size: size ? this.world.tables.sizes[size.toLowerCase()]! : null };
  }

  /** The thing described; what is not stated is as in `like`, or as is usual for its kind. */
  thing({ noun, colour, size }: Described, like?: Thing): Thing {
    const [kind, state] = this.kinds.get(noun)!;
    const usual = like?.kind === kind ? like.colour : this.world.tables.kinds[kind]!.colour;
    return { kind, colour: colour ?? usual, size: size ?? like?.size ?? "large", state, load: null };
  }

  private pattern(text: string): Pattern {
    const pieces = text.split(/{(\w+)}/);
    const source = pieces.map((piece, place) => (place % 2 ? `(?<${piece}>${this.world.tables.gaps[piece]})` : literally(piece)));
    let expression: RegExp | undefined;
    return {
      fixed: pieces.filter((_, place) => place % 2 === 0).map((piece) => piece.toLowerCase()),
      whole: () => (expression ??= wholly([source.join(""), "i"])),
    };
  }
}

/** The words in each gap of a normalised sentence; `null` if it does not match. */
function read(pattern: Pattern, text: string): Record<string, string> | null {
  const lower = text.toLowerCase();
  if (!pattern.fixed.every((piece) => lower.includes(piece))) return null;
  const found = pattern.whole().exec(text);
  return found && ((found.groups ?? {}) as Record<string, string>);
}

/** The text with single spaces between words and no full stop at the end. */
function normalised(text: string): string {
  return text.replace(/\s+/g, " ").trim().replace(/[.!?]+$/, "").trimEnd();
}

function touching({ touching: words }: Record<string, string>): Relation {
  return words ? (words.toLowerCase().replace(/to$/, "") as Relation) : "held by";
}

/** The cell some rows and columns further, if there is one. */
function neighbour(cell: number, [rows, columns]: readonly [number, number]): number | null {
  const [row, column] = [Math.floor(cell / GRID) + rows, (cell % GRID) + columns];
  return row >= 0 && row < GRID && column >= 0 && column < GRID ? row * GRID + column : null;
}
