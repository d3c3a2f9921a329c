/**
 * Repairs conflicts between the steps of a plan, so that only what happens decides whether it is drawn
 * (`interleave_mini.plan_mending`).
 */

import { compiledAll, type Expression } from "../reading/expressions";
import {
  AlreadySo, CELLS, GRID, InputError, everythingIn, isFree, orNull, thingAt,
  type Operation, type Scene, type Thing, type World,
} from "../world/scene";
import type { Sentences } from "../world/sentences";
import { Wording } from "../world/wording";
import type { Plan } from "./types";

export interface MendingTables {
  /** Changes that make room for one operation. */
  mostMends: number;
  expressions: Record<"sentence" | "reference" | "placed", Expression>;
}
/** An operation that makes room, if one is needed first, and the operation as it is possible then. */
type WithRoom = [first: Operation | null, operation: Operation];

export class PlanMending {
  private readonly world: World;
  private readonly wording: Wording;
  private readonly said: Record<keyof MendingTables["expressions"], RegExp>;

  constructor(private readonly tables: MendingTables, private readonly sentences: Sentences) {
    this.world = sentences.world;
    this.wording = new Wording(sentences);
    this.said = compiledAll(tables.expressions);
  }

  /** A plan with possible prompts where only places are in the way; else the same plan. */
  mended(plan: Plan): Plan {
    const prompts = plan.steps.flatMap(({ prompt }) => prompt ?? []);
    if (prompts.length < plan.steps.length) return plan;
    const found = orNull(() => this.mendedPrompts(prompts));
    if (!found) return plan;
    const steps = plan.steps.map((step, place) => {
      const prompt = found[place]!;
      return step.prompt === prompt ? step : { ...step, prompt, instruction: prompt };
    });
    return { ...plan, steps };
  }

  private mendedPrompts([first, ...others]: string[]): string[] {
    let scene = this.sentences.parsePrompt(first!, null);
    const found = [first!];
    if (found.concat(others).some((prompt) => prompt.includes(" gripper")) && !scene.gripper) {
      scene = this.withGripper(scene);
      found[0] = this.wording.describe(scene);
    }
    for (const prompt of others) {
      const possible = orNull(() => this.sentences.parsePrompt(prompt, scene));
      const [after, said] = possible ? [possible, prompt] : this.prompt(prompt, scene);
      scene = after;
      found.push(said);
    }
    return found;
  }

  /** The scene after a mended prompt, and the prompt; sentences that change nothing are left out. */
  private prompt(prompt: string, before: Scene): [Scene, string] {
    let scene = before;
    const said: string[] = [];
    const unchanged: string[] = [];
    for (const sentence of prompt.split(this.said.sentence)) {
      const possible = orNull(() => this.sentences.parseSentence(sentence, scene));
      const [operations, words] = possible ? [possible, sentence] : this.asPossible(sentence, scene);
      (operations.length ? said : unchanged).push(words);
      for (const operation of operations) scene = this.world.apply(scene, operation);
    }
    return [scene, (said.length ? said : unchanged).join(" ")];
  }

  /** Operations that do what a sentence says, and words for them; no operations if it is so already. */
  private asPossible(sentence: string, scene: Scene): [operations: Operation[], words: string] {
    let problem: InputError | null = null;
    for (const words of [sentence, this.withReferences(sentence, scene)]) {
      try {
        for (const operation of this.sentences.readings(words, scene)) {
          try {
            const operations = this.possible(operation, scene);
            return [operations, this.wording.sayAll(operations, scene)];
          } catch (error) {
            if (error instanceof AlreadySo || !(error instanceof InputError)) throw error;
            problem = error;
          }
        }
      } catch (error) {
        if (error instanceof AlreadySo) return [[], words];
        throw error;
      }
    }
    throw problem ?? new InputError(`nothing fits ${sentence}`);
  }

  /** The operation after others that make room for it. */
  private possible(operation: Operation, scene: Scene): Operation[] {
    const made: Operation[] = [];
    for (let mends = 0; mends < this.tables.mostMends; mends++) {
      try {
        this.world.apply(scene, operation);
      } catch (error) {
        if (error instanceof AlreadySo || !(error instanceof InputError)) throw error;
        const [first, possible] = this.withRoom(operation, scene);
        if (first) {
          made.push(first);
          scene = this.world.apply(scene, first);
        }
        operation = possible;
      }
    }
    this.world.apply(scene, operation);
    return [...made, operation];
  }

  private withRoom(operation: Operation, scene: Scene): WithRoom {
    switch (operation.type) {
      case "Add":
        return [null, { ...operation, cell: freeCell(scene, operation.cell) }];
      case "Move":
        return [null, { ...operation, to: freeCell(scene, operation.to) }];
      case "Put":
      case "PutNew":
        return this.withRoomToCarry(operation, scene);
      case "ChangeState":
        if (thingAt(scene, operation.cell)?.load?.relation === "in") { // what is in a closed box is not seen
          return [{ type: "Remove", cell: CELLS + operation.cell }, operation];
        }
    }
    return [null, operation];
  }

  private withRoomToCarry(operation: Operation & { type: "Put" | "PutNew" }, scene: Scene): WithRoom {
    const { to } = operation;
    if (operation.type === "Put") {
      const { cell } = operation;
      if (cell === CELLS + to) {
        const out = freeCell(scene, to);
        return [{ type: "Move", cell, to: out }, { ...operation, cell: out }];
      }
      if (thingAt(scene, cell)?.load) return [{ type: "Move", cell: CELLS + cell, to: freeCell(scene, cell) }, operation];
    }
    if (to >= CELLS) {
      const out = freeCell(scene, to - CELLS);
      return [{ type: "Move", cell: to, to: out }, { ...operation, to: out }];
    }
    const carrier = thingAt(scene, to);
    if (carrier?.load) return [{ type: "Move", cell: CELLS + to, to: freeCell(scene, to) }, operation];
    if (carrier && operation.relation === "in" && !this.isContainer(this.world.nounOf(carrier))) {
      return [{ type: "ChangeState", cell: to, state: this.openState(carrier) }, operation];
    }
    return [null, operation];
  }

  private isContainer(noun: string): boolean {
    return this.world.tables.carriers.in.includes(noun);
  }

  /** The state in which something can be in a box or a bag that is closed. */
  private openState({ kind }: Thing): number {
    const state = this.world.tables.kinds[kind]!.states.findIndex((noun) => this.isContainer(noun));
    if (state < 0) throw new InputError(`nothing can be in a ${kind}`);
    return state;
  }

  /** A sentence in which every reference fits one thing of the scene, if one can be meant. */
  private withReferences(sentence: string, scene: Scene): string {
    return sentence.replace(this.said.reference, (found) => this.meant(found, scene));
  }

  /** Words for the thing that is meant; a thing that is not there is a new one. */
  private meant(found: string, scene: Scene): string {
    if (orNull(() => this.sentences.find(scene, found)) !== null) return found;
    const wanted = this.sentences.described(found.replace(/^the /i, "").replace(this.said.placed, ""));
    const thing = this.sentences.thing(wanted);
    const [fitting] = this.sentences.fitting(scene, wanted);
    if (fitting !== undefined) return this.wording.refer(scene, fitting);
    const alike = everythingIn(scene).filter(([, { kind }]) => kind === thing.kind);
    const coloured = alike.filter(([, { colour }]) => colour === wanted.colour);
    const [one, ...others] = coloured.length ? coloured : alike;
    if (!one) return this.wording.a(thing, false);
    return others.length ? found : this.wording.refer(scene, one[0]);
  }

  /** The scene with an empty gripper above its first free column, and small blocks to pick. */
  private withGripper(scene: Scene): Scene {
    const column = scene.cells.slice(0, GRID).indexOf(null);
    if (column < 0) throw new InputError("no room for a gripper");
    const cells = scene.cells.map((thing): Thing | null => (thing?.kind === "block" && !thing.load ? { ...thing, size: "small" } : thing));
    return { ...scene, cells, gripper: { column, holds: null } };
  }
}

/** The nearest free cell, in the same row rather than in another. */
function freeCell(scene: Scene, cell: number): number {
  const distance = (other: number) => {
    const rows = Math.abs(Math.floor(other / GRID) - Math.floor((cell % CELLS) / GRID));
    return (rows + Math.abs((other % GRID) - (cell % GRID))) * GRID + rows;
  };
  const free = scene.cells.flatMap((_, other) => (isFree(scene, other) ? other : []));
  if (!free.length) throw new InputError("no cell is free");
  return free.reduce((best, other) => (distance(other) < distance(best) ? other : best));
}
