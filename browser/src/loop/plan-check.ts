/**
 * A plan must contain what its request names, and be drawable (`interleave_mini.plan_check`): a port for requests of
 * text alone. All words and expressions come from Python as data.
 */

import { compiled, compiledAll, counted, every, has, listed, literally, unique, type Expression } from "../reading/expressions";
import type { Accepted } from "../reading/requests";
import type { Vocabulary } from "../reading/vocabulary";
import { shownBy } from "../world/effects";
import { AlreadySo, GRID, InputError, NotUnderstood, everythingIn, thingsOf, type Scene } from "../world/scene";
import type { Sentences } from "../world/sentences";
import type { Plan, Question } from "./types";

export interface CheckTables {
  /** Nouns for things, singular and plural → kinds. */
  kindOf: Record<string, string>;
  ownNouns: string[];
  drawnAs: string[];
  unmeant: string[];
  colourOf: Record<string, string>;
  /** Phrases → backgrounds that they may mean. */
  places: Record<string, string[]>;
  vaguePlaces: string[];
  emptyPlaces: Record<string, string>;
  /** Words for a relation → sides of the other thing, as cells around the middle. */
  related: Record<string, number[]>;
  effects: Record<string, { shown: string[]; of: string[] }>;
  /** Such words with the word after them that mean something else: "break out". */
  otherwise: string[];
  /** What is shown of a thing that moves. */
  motion: string[];
  riddleTopics: string[];
  meantBy: Record<string, Expression>;
  expressions: Record<
    | "thing" | "colour" | "counted" | "coloured" | "colouredAfter" | "moreThanNine" | "negated" | "takenBack"
    | "noThing" | "saidOtherwise" | "putDown" | "relation" | "place" | "notHere" | "robot" | "animal"
    | "placeNoun" | "near" | "notShown" | "after",
    Expression
  >;
  /** Reasoning of a critic that accepts. */
  accepted: string;
  /** Probability of a rejection from which on the critic is believed. */
  certain: number;
  auditTokens: number;
}

const MARKS = new Set(".,:;!?\n^$");
const WORD = /(?<![\p{L}\p{N}_])\p{L}+(?:['’-]\p{L}+)*/gu;

export class PlanCheck {
  private readonly said: Record<keyof CheckTables["expressions"], RegExp>;
  private readonly meantBy: [kind: string, words: RegExp][];
  private readonly bareOf: Map<string, string>;

  constructor(
    readonly tables: CheckTables,
    private readonly sentences: Sentences,
    private readonly vocabulary: Vocabulary,
    /** Nouns of requests → nouns of the world. */
    private readonly nounOf: Record<string, string>,
    private readonly namedSteps: (text: string) => number | null,
  ) {
    this.said = compiledAll(tables.expressions);
    this.meantBy = Object.entries(tables.meantBy).map(([kind, each]) => [kind, compiled(each)]);
    this.bareOf = new Map(Object.entries(sentences.world.tables.bare).map(([noun, background]) => [background, noun]));
  }

  /** What to ask the user about a plan; `null` if no rule finds a problem. */
  question(request: Accepted, plan: Plan): Question | null {
    const { text, captions } = request;
    const missing = this.missingFrom(plan, request);
    if (missing.length) return this.askedBack(text, plan, `leaves out ${listed(missing.map((each) => `“${each}”`))}`, missing);
    const wanted = captions.length || this.namedSteps(text);
    if (wanted !== null && wanted !== plan.steps.length) {
      const have = counted(plan.steps.length, "step");
      const why = captions.length ? `has ${have} for your ${counted(wanted, "sentence")}` : `has ${have}, not ${wanted}`;
      return this.askedBack(text, plan, why, [counted(wanted, "step")]);
    }
    const impossible = this.impossibleStep(plan);
    const unwanted = this.unwantedIn(plan, text);
    if (unwanted.length) return this.askedBack(text, plan, `has ${listed(unwanted)}, which you do not want`, unwanted.map((each) => `no ${each}`));
    if (this.isAboutSomethingElse(plan, text)) {
      return this.askedBack(text, plan, `shows ${listed(this.namedThings(plan)) || "something else"} instead of what you asked for`, []);
    }
    return impossible === null ? null : this.askedBack(text, plan, `cannot be drawn at ${impossible}`, [impossible]);
  }

  askedBack(text: string, plan: Plan, why: string, missing: string[]): Question {
    const understood = this.understoodIn(plan, text);
    const said = understood.length ? `the miniature understood ${listed(understood.map((each) => `“${each}”`))}, but its plan` : "the miniature's plan";
    return { text: `${said} ${why}. Say it in other words, or in smaller steps`, understood, missing };
  }

  /** A riddle does not name what answers it: "the vegetable that bunnies love" asks for no rabbit. */
  isRiddle(plan: Plan): boolean {
    return this.tables.riddleTopics.includes(topicOf(plan));
  }

  /** A number of things that exceeds the room of an image. */
  moreThanFit(text: string): string | null {
    return every(this.said.moreThanNine, text.replace(this.said.saidOtherwise, " "))[0]?.[0] ?? null;
  }

  /** The things of the world that a text names, in the world's words. */
  namedIn(text: string): string[] {
    const words = this.nouns(text.replace(this.said.place, " "));
    return unique(words.filter((word) => Object.hasOwn(this.nounOf, word)).map((word) => this.nounOf[word]!));
  }

  /** What a request names and the plan does not draw, in the request's words. */
  missingFrom(plan: Plan, request: Accepted): string[] {
    const planned = plannedText(plan);
    const whole = this.stillMeant(request.text.replace(this.said.saidOtherwise, " ")).replace(this.said.negated, " ");
    const scenes = this.scenesOf(plan);
    const places = [...this.missingPlaces(whole, planned, scenes)];
    const asked = whole.replace(this.said.place, " "); // "among the trees" asks for no tree
    const kinds = this.drawnKinds(plan);
    const isRiddle = this.isRiddle(plan);
    const named = isRiddle ? [] : every(this.said.thing, asked).filter((found) => this.isMeant(found));
    return unique([
      ...this.missingPairs(asked, planned, kinds),
      ...named.map((found) => found[0]).filter((word) => !this.mayBe(word.toLowerCase(), kinds)),
      ...this.missingCounts(asked, planned, scenes),
      ...this.missingRelations(asked, scenes),
      ...this.notPutDown(asked, scenes),
      ...places,
      ...(isRiddle || !scenes.length ? [] : this.missingEffects(request, plan)),
    ]);
  }

  /** "A red car, no wait, a boat" asks for a boat. */
  private stillMeant(asked: string): string {
    const takenBack = every(this.said.takenBack, asked)[0];
    if (!takenBack) return asked;
    const kept = asked.slice(takenBack[0].length);
    if (has(this.said.thing, kept)) return kept;
    return has(this.said.colour, kept) ? takenBack[0].replace(this.said.colour, " ") + kept : asked;
  }

  /** Whether a noun in a text asks for its thing: not in "a book about", "my child's". */
  private isMeant(found: RegExpExecArray): boolean {
    const noun = found[0].toLowerCase();
    const wordsOf = (text: string) => (text.match(this.said.near) ?? []).map((word) => word.toLowerCase());
    const before = wordsOf(found.input.slice(0, found.index)).slice(-2);
    const after = wordsOf(found.input.slice(found.index + noun.length)).slice(0, 2);
    const around = [[before.at(-1) ?? "^", "_"], ["_", after[0] ?? "$"], [...before, "_"], ["_", ...after]]
      .map((each) => each.join(" "))
      .filter((each) => ![...each].some((letter) => MARKS.has(letter)));
    const as = (word: string) => around.map((each) => each.replaceAll("_", word));
    const contexts = [...as(noun), ...around, ...(this.categoryOf(this.tables.kindOf[noun]!) === "person" ? as("@") : [])];
    return !contexts.some((each) => this.tables.unmeant.includes(each));
  }

  /** Whether one of these kinds can be what a noun of a request names. */
  private mayBe(noun: string, kinds: ReadonlySet<string>): boolean {
    const kind = this.tables.kindOf[noun]!;
    if (kinds.has(kind)) return true;
    if (noun === "egg" || noun === "eggs") return ["hen", "butterfly", "frog"].some((each) => kinds.has(each));
    if (kind === "hat" && kinds.has("snowman")) return true; // it is drawn with one
    if (this.categoryOf(kind) !== "person" || this.tables.ownNouns.includes(noun)) return false;
    const living = this.tables.drawnAs.includes(noun) ? ["person"] : ["person", "animal"]; // a hen's child is a chick
    return [...kinds].some((each) => living.includes(this.categoryOf(each)));
  }

  private categoryOf(kind: string): string {
    return this.sentences.world.tables.kinds[kind]!.category;
  }

  /** Nouns for things in a text, in lower case. */
  private nouns(text: string): string[] {
    return every(this.said.thing, text).map((found) => found[0].toLowerCase());
  }

  private kindsIn(text: string): Set<string> {
    return new Set(this.nouns(text).map((noun) => this.tables.kindOf[noun]!));
  }

  /** The kinds a plan draws or teaches to draw; if none, the kinds it mentions. */
  private drawnKinds(plan: Plan): Set<string> {
    const prompts = promptsOf(plan);
    const lesson = topicOf(plan).startsWith("drawing") ? topicOf(plan) : "";
    const words = prompts.trim() ? `${lesson} ${prompts}` : plannedText(plan);
    const kinds = this.kindsIn(words);
    return words.includes("gripper") ? kinds.add("robot") : kinds;
  }

  /** The first step that cannot be drawn: its number and prompt. */
  private impossibleStep(plan: Plan): string | null {
    let scene: Scene | null = null;
    for (const { prompt } of plan.steps) {
      if (prompt === null) return null;
      try {
        scene = this.sentences.parsePrompt(prompt, scene);
      } catch (error) {
        if (!(error instanceof InputError)) throw error;
        const reason = error instanceof NotUnderstood ? (error.reason ?? error) : error;
        if (reason instanceof AlreadySo) continue; // painting a thing its own colour is harmless
        return `step ${plan.steps.find((step) => step.prompt === prompt)!.number}, “${prompt}”`;
      }
    }
    return null;
  }

  /** The scenes of a plan; empty if a prompt cannot be drawn. */
  private scenesOf(plan: Plan): Scene[] {
    const scenes: Scene[] = [];
    for (const { prompt } of plan.steps) {
      try {
        scenes.push(this.sentences.parsePrompt(prompt ?? "", scenes.at(-1) ?? null));
      } catch (error) {
        if (error instanceof InputError) return [];
        throw error;
      }
    }
    return scenes;
  }

  /** Things that a request excludes and the last scene of the plan has. */
  private unwantedIn(plan: Plan, request: string): string[] {
    const last = this.scenesOf(plan).at(-1);
    if (!last) return [];
    const kinds = new Set(everythingIn(last).map(([, thing]) => thing.kind));
    const asked = request.replace(this.said.saidOtherwise, " ");
    for (const wanted of this.kindsIn(asked.replace(this.said.negated, " "))) kinds.delete(wanted);
    return every(this.said.negated, asked)
      .filter((negated) => !has(this.said.colour, negated[0])) // "not a red heart but a blue one"
      .flatMap((negated) => every(this.said.thing, negated[0]).map((found) => found[0]))
      .filter((word) => kinds.has(this.tables.kindOf[word.toLowerCase()]!));
  }

  /** Whether the request has neither a thing of the plan nor a word of its topic. */
  private isAboutSomethingElse(plan: Plan, request: string): boolean {
    const kinds = this.drawnKinds(plan);
    const text = request.replace(this.said.noThing, " ");
    if ([...this.kindsIn(text)].some((kind) => kinds.has(kind))) return false;
    const scenes = this.scenesOf(plan);
    const named = every(this.said.placeNoun, request).map((found) => this.tables.emptyPlaces[found[0].toLowerCase()]);
    if (!kinds.size && scenes.some((scene) => named.includes(scene.background))) return false;
    if (scenes.some((scene) => scene.gripper) && has(this.said.robot, request)) return false;
    if ([...kinds].some((kind) => this.categoryOf(kind) === "animal") && has(this.said.animal, request)) return false;
    if (this.meantBy.some(([kind, words]) => kinds.has(kind) && has(words, request))) return false;
    if (!this.isRiddle(plan)) return !this.vocabulary.isAbout(text, topicOf(plan));
    const prompts = promptsOf(plan);
    const nouns = Object.values(this.sentences.world.tables.kinds).flatMap(({ states }) => states);
    return !this.vocabulary.isRiddleOf(request, nouns.filter((noun) => prompts.includes(noun)));
  }

  /** The things a plan draws, in order. */
  private namedThings(plan: Plan): string[] {
    return unique(this.nouns(promptsOf(plan).toLowerCase()));
  }

  /** What both a request and its plan have: things and places, in the request's words. */
  private understoodIn(plan: Plan, request: string): string[] {
    const kinds = this.drawnKinds(plan);
    const things = this.nouns(request.replace(this.said.place, " ")).filter((noun) => kinds.has(this.tables.kindOf[noun]!));
    const missing = new Set(this.missingPlaces(request, plannedText(plan), this.scenesOf(plan)));
    const places = every(this.said.place, request).map((found) => found[0]).filter((place) => !missing.has(place));
    return unique([...things, ...places.map((place) => place.toLowerCase())]);
  }

  /** Coloured things that the plan never mentions. */
  private *missingPairs(asked: string, planned: string, kinds: ReadonlySet<string>): Generator<string> {
    for (const { groups } of [...every(this.said.coloured, asked), ...every(this.said.colouredAfter, asked)]) {
      const { colour, thing } = groups as { colour: string; thing: string };
      const isDrawn = kinds.has(this.tables.kindOf[thing.toLowerCase()]!);
      if (isDrawn && !says(planned, this.tables.colourOf[colour.toLowerCase()]!)) yield `${colour} ${thing}`;
    }
  }

  /** Counts that no image has or, if the scenes are unknown, that no prompt mentions. */
  private *missingCounts(asked: string, planned: string, scenes: readonly Scene[]): Generator<string> {
    const { numbers } = this.sentences.world.tables;
    for (const { groups } of every(this.said.counted, asked)) {
      const { count, things } = groups as { count: string; things: string };
      const number = /^\d+$/.test(count) ? Number(count) : numbers.indexOf(count.toLowerCase());
      const kind = this.tables.kindOf[things.toLowerCase()]!;
      const mentions = (text: string) => this.nouns(text).filter((noun) => this.tables.kindOf[noun] === kind).length;
      const kinds = /^(children|kids)$/i.test(things) ? CHILDREN : [kind];
      const shown = scenes.flatMap((scene) => numbersOf(kinds, scene));
      const isWrong = scenes.length
        ? mentions(asked) === 1
          ? !shown.includes(number)
          : Math.max(...shown) < number
        : !says(planned, numbers[number]!) && mentions(planned) < number;
      if (isWrong) yield `${count} ${things}`;
    }
  }

  /** Relations of two things that no image shows. */
  private *missingRelations(asked: string, scenes: readonly Scene[]): Generator<string> {
    for (const found of every(this.said.relation, asked)) {
      const { thing, relation, other } = found.groups as { thing: string; relation: string; other: string };
      const [one, another] = [this.tables.kindOf[thing.toLowerCase()]!, this.tables.kindOf[other.toLowerCase()]!];
      if (one === another || !scenes.length) continue;
      const sides = this.tables.related[relation.toLowerCase()]!;
      if (!sides.some((side) => scenes.some((scene) => stands(one, side, another, scene)))) yield found[0];
    }
  }

  /** Requested moves of a block that the gripper still holds in the last image. */
  private *notPutDown(asked: string, scenes: readonly Scene[]): Generator<string> {
    const said = every(this.said.putDown, asked)[0];
    if (said && scenes.at(-1)?.gripper?.holds) yield said[0];
  }

  /** Places that no image shows or, if the scenes are unknown, that the plan does not mention. */
  private *missingPlaces(asked: string, planned: string, scenes: readonly Scene[]): Generator<string> {
    const { dayOf, night } = this.sentences.world.tables;
    const backgrounds = scenes.map((scene) => scene.background);
    const shown = new Set([
      ...backgrounds,
      ...backgrounds.map((each) => dayOf[each]),
      ...backgrounds.filter((each) => each.includes(night)).map(() => "night"),
    ]);
    for (const found of every(this.said.place, asked)) {
      const phrase = found[0].toLowerCase();
      if (this.tables.vaguePlaces.includes(phrase) || has(this.said.notHere, asked.slice(0, found.index))) continue;
      if (phrase.split(/\s+/).some((word) => Object.hasOwn(this.tables.effects, word))) continue; // "at night" is an effect
      const places = this.tables.places[phrase]!;
      const isShown = scenes.length
        ? places.some((each) => shown.has(each))
        : places.some((each) => says(planned, this.bareOf.get(each)!) || says(planned, each));
      if (!isShown) yield found[0];
    }
  }

  /**
   * The words for what happens that no image shows. The first image of a story in own sentences stands still: "A bus
   * drove through the desert." needs no more.
   */
  private missingEffects({ text, captions }: Accepted, plan: Plan): string[] {
    const shown = shownBy(plan.steps.map((step) => step.prompt ?? ""), this.sentences);
    const missing = this.notShown(text, shown);
    if (!captions.length) return missing;
    const [first, ...others] = text.toLowerCase().split("\n");
    const atRest = this.notShown(text, new Set([...shown, ...this.tables.motion]));
    return missing.filter((word) => atRest.includes(word) || !first!.includes(word) || others.join("\n").includes(word));
  }

  /** The words of a text for what is none of the things shown (`language/effects.py`). */
  private notShown(asked: string, shown: ReadonlySet<string>): string[] {
    const kinds = this.kindsIn(asked);
    const text = asked.replace(this.said.notShown, (words) => " ".repeat(words.length));
    const missing = every(WORD, text).filter((found) => {
      const form = this.vocabulary.formsOf(found[0]).find((each) => Object.hasOwn(this.tables.effects, each));
      const known = form === undefined ? null : this.tables.effects[form]!;
      if (!known || known.shown.some((each) => shown.has(each)) || this.isSaidOtherwise(found)) return false;
      return !known.of.length || known.of.some((kind) => kinds.has(kind));
    });
    return unique(missing.map(([word]) => word.toLowerCase()));
  }

  /** Whether a word with the one after it means something else: "the storm broke out". */
  private isSaidOtherwise(found: RegExpExecArray): boolean {
    const [after] = every(this.said.after, found.input.slice(found.index + found[0].length));
    if (after?.index !== 0) return false; // before a mark
    return this.vocabulary.formsOf(found[0]).some((form) => this.tables.otherwise.includes(`${form} ${after[1]!.toLowerCase()}`));
  }
}

/** The topic named in the plan's reasoning: "A walk: 3 to do.". */
function topicOf(plan: Plan): string {
  return plan.reasoning.split(":")[0]!.trim().toLowerCase();
}

function promptsOf(plan: Plan): string {
  return plan.steps.map((step) => step.prompt ?? "").join(" ");
}

function plannedText({ reasoning, steps }: Plan): string {
  return [reasoning, ...steps.flatMap((step) => [step.name, step.prompt, step.caption])].map((each) => each ?? "").join(" ").toLowerCase();
}

function says(text: string, word: string): boolean {
  return new RegExp(`\\b${literally(word)}s?\\b`).test(text);
}

const CHILDREN = ["boy", "girl", "baby"];

/** How many things of some kinds there are: all, and of each colour. */
function numbersOf(kinds: readonly string[], scene: Scene): number[] {
  const colours = everythingIn(scene).filter(([, thing]) => kinds.includes(thing.kind)).map(([, thing]) => thing.colour);
  const held = kinds.includes("block") && scene.gripper?.holds ? 1 : 0;
  return [colours.length + held, ...colours.map((colour) => colours.filter((each) => each === colour).length)];
}

/** Whether a thing of one kind is on that side of a thing of the other, or carried by it. */
function stands(one: string, side: number, other: string, scene: Scene): boolean {
  const things = thingsOf(scene);
  if (things.some(([, thing]) => thing.kind === other && thing.load?.thing.kind === one)) return true;
  const [rows, columns] = [Math.floor(side / GRID) - 1, (side % GRID) - 1];
  const cellsOf = (kind: string) => things.filter(([, thing]) => thing.kind === kind).map(([cell]) => cell);
  return cellsOf(one).some((cell) =>
    cellsOf(other).some((anchor) => (Math.floor(cell / GRID) - Math.floor(anchor / GRID)) * rows > 0 || ((cell % GRID) - (anchor % GRID)) * columns > 0),
  );
}
