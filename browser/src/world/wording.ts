/** Scenes and operations in words, each in its first wording (`language/descriptions.py`, `sentences.py`, `references.py`). */

import { listed } from "../reading/expressions";
import { CELLS, GRID, isSame, thingAt, thingsOf, type Operation, type Scene, type Size, type Thing, type World } from "./scene";
import type { Sentences } from "./sentences";

const NAMES: Partial<Record<Operation["type"], string>> = { ChangeState: "change", ChangeBackground: "travel" };

export class Wording {
  private readonly world: World;
  private readonly pluralOf: Map<string, string>;

  constructor(private readonly sentences: Sentences) {
    this.world = sentences.world;
    this.pluralOf = new Map(Object.entries(this.world.tables.singulars).map(([plural, noun]) => [noun, plural]));
  }

  /** A prompt that draws this scene without a source image. */
  describe(scene: Scene): string {
    const items = [...this.items(scene)];
    return sentence(items.length ? `${this.world.tables.placeNouns[scene.background]} with ${listed(items)}` : `an empty ${this.bareNoun(scene.background)}`);
  }

  private *items(scene: Scene): Generator<string> {
    const { positions, rows, uncountable } = this.world.tables;
    let end = 0;
    for (const [cell, thing] of thingsOf(scene)) {
      if (cell < end) continue;
      const row = uncountable.includes(this.world.nounOf(thing)) || thing.load ? 1 : run(scene, cell);
      yield row > 1 ? `${this.counted(row, thing)} ${rows[cell / GRID]}` : `${this.loaded(thing)} ${positions[cell]}`;
      end = cell + row;
    }
    if (!scene.gripper) return;
    const { column, holds } = scene.gripper;
    yield `${holds ? `a gripper holding ${this.withArticle(`${holds} block`)}` : "an empty gripper"} ${positions[column]}`;
  }

  /** A sentence for each operation. */
  sayAll(operations: readonly Operation[], before: Scene): string {
    let scene = before;
    return operations
      .map((operation) => {
        const said = this.say(operation, scene);
        scene = this.world.apply(scene, operation);
        return said;
      })
      .join(" ");
  }

  private say(operation: Operation, scene: Scene): string {
    const [text] = this.world.tables.speech[this.speechOf(operation, scene)]!;
    const words = this.wordsOf(operation, scene);
    return sentence(text!.replace(/{(\w+)}/g, (_, gap: string) => words[gap]!));
  }

  private speechOf(operation: Operation, { background }: Scene): string {
    const { nightOf, dayOf } = this.world.tables;
    switch (operation.type) {
      case "Resize":
        return operation.size === "large" ? "grow" : "shrink";
      case "Put":
        return operation.relation === "held by" ? "give" : "put";
      case "PutNew":
        return operation.relation === "held by" ? "give new" : "put new";
      case "ChangeBackground":
        if (nightOf[background] === operation.background) return "nightfall";
        if (background !== "night" && dayOf[background] === operation.background) return "daybreak";
    }
    return NAMES[operation.type] ?? operation.type.toLowerCase();
  }

  private wordsOf(operation: Operation, scene: Scene): Record<string, string> {
    const { positions, toPositions } = this.world.tables;
    const refer = (spot: number) => this.refer(scene, spot);
    switch (operation.type) {
      case "Add":
        return { thing: this.a(operation.thing), where: positions[operation.cell]! };
      case "Remove":
      case "Resize":
      case "Pick":
        return { ref: refer(operation.cell) };
      case "Recolour":
        return { ref: refer(operation.cell), colour: operation.colour };
      case "Replace":
        return { ref: refer(operation.cell), thing: this.a(operation.thing, operation.thing.size !== this.world.at(scene, operation.cell).size) };
      case "ChangeState":
        return { ref: refer(operation.cell), thing: this.a({ ...this.world.at(scene, operation.cell), state: operation.state }, false) };
      case "Move":
        return { ref: refer(operation.cell), to: toPositions[operation.to]! };
      case "Swap":
        return { ref: refer(operation.cell), other: refer(operation.other) };
      case "ChangeBackground":
        return { place: `the ${this.bareNoun(operation.background)}` };
      case "Put":
        return { ref: refer(operation.cell), touching: operation.relation, other: refer(operation.to) };
      case "PutNew":
        return { thing: this.a(operation.thing, false), touching: operation.relation, other: refer(operation.to) };
      case "Place":
        return { where: positions[operation.cell]!, colour: scene.gripper?.holds ?? "" };
    }
  }

  /** Words that fit this thing of the scene and no other. */
  refer(scene: Scene, spot: number): string {
    const thing = this.world.at(scene, spot);
    if (spot >= CELLS) return this.referToLoad(scene, spot, thing);
    if (this.isAlone(scene, thing)) return this.the(thing);
    return this.isAlone(scene, thing, thing.size) ? this.the(thing, true) : `${this.the(thing)} ${this.world.tables.positions[spot]}`;
  }

  /** "The red cat", or "the red cat on the brown chair" where there are more. */
  private referToLoad(scene: Scene, spot: number, thing: Thing): string {
    if (this.isAlone(scene, thing)) return this.the(thing);
    return `${this.the(thing)} ${thingAt(scene, spot - CELLS)!.load!.relation} ${this.refer(scene, spot - CELLS)}`;
  }

  private isAlone(scene: Scene, thing: Thing, size: Size | null = null): boolean {
    return this.sentences.fitting(scene, { noun: this.world.nounOf(thing), colour: thing.colour, size }).length === 1;
  }

  /** "A small red cat". */
  a(thing: Thing, saysSize = thing.size === "small"): string {
    return this.withArticle(this.named(thing, saysSize), this.world.nounOf(thing));
  }

  private the(thing: Thing, saysSize = false): string {
    return `the ${this.named(thing, saysSize)}`;
  }

  private named(thing: Thing, saysSize: boolean): string {
    return `${saysSize ? `${thing.size} ` : ""}${thing.colour} ${this.world.nounOf(thing)}`;
  }

  /** "A red cat", or "a red cat on a brown chair". */
  private loaded(thing: Thing): string {
    const { load } = thing;
    return load ? `${this.a(load.thing, false)} ${load.relation} ${this.a(thing)}` : this.a(thing);
  }

  /** "Three small red apples". */
  private counted(count: number, thing: Thing): string {
    const noun = this.world.nounOf(thing);
    return `${this.world.tables.numbers[count]} ${this.named(thing, thing.size === "small").slice(0, -noun.length)}${this.pluralOf.get(noun)}`;
  }

  private withArticle(words: string, noun = ""): string {
    if (this.world.tables.uncountable.includes(noun)) return `some ${words}`;
    return `${"aeiou".includes(words[0]!) ? "an" : "a"} ${words}`;
  }

  private bareNoun(background: string): string {
    return this.world.tables.placeNouns[background]!.replace(/^\S+ /, "");
  }
}

/** How many equal things stand side by side, from the left end of a row. */
function run({ cells }: Scene, cell: number): number {
  const isAnother = (other: Thing | null | undefined) => !!other && isSame(cells[cell]!, other);
  let count = 1;
  while (cell % GRID === 0 && count < GRID && isAnother(cells[cell + count])) count++;
  return count;
}

/** With a capital at its beginning and a full stop at its end. */
function sentence(words: string): string {
  return `${words[0]!.toUpperCase()}${words.slice(1)}.`;
}
