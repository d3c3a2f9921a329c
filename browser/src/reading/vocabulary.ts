/**
 * Words of a request that the miniature's world lacks, and typing errors (`interleave_mini.language.vocabulary`): a
 * port without requests that hold images. All words and expressions come from Python as data.
 */

import { begins, compiledAll, every, has, unique, type Expression } from "./expressions";

export interface VocabularyTables {
  everyday: string;
  /** Words of a dictionary that are not everyday words, and those that are. */
  english: string;
  dictionary: string;
  trained: string;
  things: string[];
  meant: { drawable: string[]; trained: string };
  oneOfThem: Record<string, string>;
  lackingSingular: Record<string, string>;
  neighbours: Record<string, string[]>;
  misspelt: Record<string, string>;
  harmless: string;
  spokenOf: [word: string, asThing: boolean][];
  riddleContexts: string[];
  foreign: Record<string, string>;
  /** By topic: words that few other topics have. */
  telling: Record<string, string>;
  riddles: Record<string, string[]>;
  /** Requests, and by number of wordings the words that so many of them have. */
  examples: { text: string; wordings: number; counts: Record<string, string> }[];
  expressions: Record<
    "knownPhrases" | "askedFor" | "wantedColour" | "named" | "speaker" | "compared" | "phraseStart" | "phraseEnd" | "title",
    Expression
  >;
  pronouns: string[];
  beforeAdjectives: string[];
  determiners: string[];
  variants: string[];
  shortestTypo: number;
  longWord: number;
  mostTypos: number;
  longestWord: number;
  foreignShare: number;
}
/** A plain request of a topic. */
export interface Example {
  text: string;
  wordings: number;
  counts: Map<string, number>;
}
/** A word for something that the world lacks, and what it has instead. */
export interface Unknown {
  word: string;
  nearest: string[];
}
const WORD = /(?<![\p{L}\p{N}_])\p{L}+(?:['’-]\p{L}+)*/gu;
const ENDINGS: [ending: string, bases: string[]][] = [
  ["s", [""]],
  ["es", ["", "e"]],
  ["ies", ["y"]],
  ["ed", ["", "e"]],
  ["ied", ["y"]],
  ["ing", ["", "e"]],
];
const SHORTEST_BASE = 3;
interface Found {
  word: string;
  start: number;
}

export class Vocabulary {
  readonly examples: Example[];
  private readonly everyday: Set<string>;
  private readonly english: Set<string>;
  private readonly dictionary: Set<string>;
  private readonly trained: Set<string>;
  private readonly things: Set<string>;
  private readonly harmless: Set<string>;
  private readonly neighbours: Map<string, string[]>;
  private readonly lackingSingular: Map<string, string>;
  private readonly oneOfThem: Map<string, string>;
  private readonly meantWords: string[][];
  private readonly spokenOf: Set<string>;
  private readonly telling: Map<string, Set<string>>;
  private readonly said: Record<keyof VocabularyTables["expressions"], RegExp>;
  private trainedForms?: Set<string>;

  constructor(private readonly tables: VocabularyTables) {
    this.everyday = setOf(tables.everyday);
    this.english = setOf(tables.english);
    this.dictionary = setOf(tables.dictionary);
    this.trained = setOf(tables.trained);
    this.things = new Set(tables.things);
    this.harmless = setOf(tables.harmless);
    this.neighbours = new Map(Object.entries(tables.neighbours));
    this.lackingSingular = new Map(Object.entries(tables.lackingSingular));
    this.oneOfThem = new Map(Object.entries(tables.oneOfThem));
    this.meantWords = [tables.meant.drawable, tables.meant.trained.split(" ")];
    this.spokenOf = new Set(tables.spokenOf.map(String));
    this.telling = new Map(Object.entries(tables.telling).map(([topic, words]) => [topic, setOf(words)]));
    this.said = compiledAll(tables.expressions);
    this.examples = tables.examples.map(({ text, wordings, counts }) => {
      const pairs = Object.entries(counts).flatMap(([count, words]) => words.split(" ").map((word): [string, number] => [word, Number(count)]));
      return { text, wordings, counts: new Map(pairs) };
    });
  }

  /** The text with mistyped words exchanged for what they stand for. */
  corrected(text: string, corrections: Record<string, string>): string {
    for (const [wrong, meant] of Object.entries(corrections)) {
      text = text.replace(new RegExp(`(?<![\\p{L}\\p{N}_'’-])${wrong}(?![\\p{L}\\p{N}_'’-])`, "gu"), meant);
    }
    return text;
  }

  /**
   * Words that name things the world lacks, and words that are not English, each once, in order. With `inPassing` also
   * lacking things that some request of the training names, such as a snowman's hat.
   */
  unknownWords(text: string, inPassing = false): Unknown[] {
    const speakers = this.speakersIn(text);
    const found = new Map<number, string>();
    for (const each of [...this.lacking(text, inPassing), ...this.neverSeen(text)]) found.set(each.start, each.word);
    const inOrder = [...found.keys()].sort((one, other) => one - other).filter((start) => !speakers.has(start));
    return unique(inOrder.map((start) => found.get(start)!)).map((word) => ({
      word,
      nearest: this.neighbours.get(this.singularOf(word)) ?? [],
    }));
  }

  /** The English words of a request that the planner has not learned, each once, in order. */
  leftOut(request: string): string[] {
    const text = this.withoutPhrases(request);
    const speakers = this.speakersIn(text);
    const lacking = new Set(this.lacking(text, true).map(({ start }) => start));
    const words = this.wordsButNames(text)
      .filter(({ word, start }) => lacking.has(start) || (!speakers.has(start) && !this.isTrained(word)))
      .filter(({ word }) => word.length > 1);
    return [...new Map(words.map(({ word }) => [word.toLowerCase(), word])).values()];
  }

  /** Whether a word for a lacking thing is plural. */
  isPlural(word: string): boolean {
    return this.lackingSingular.has(word.toLowerCase());
  }

  /** Whether the words of a request name a topic. */
  isAbout(text: string, topic: string): boolean {
    const told = this.telling.get(topic);
    return wordsOf(text).some((word) => told?.has(without(word.toLowerCase(), "'s")));
  }

  /** Whether a request has half the words of a riddle about one of these things. */
  isRiddleOf(text: string, nouns: readonly string[]): boolean {
    const asked = new Set(wordsOf(text).map((word) => word.toLowerCase()));
    const riddles = nouns.flatMap((noun) => this.tables.riddles[noun] ?? []).map((words) => words.split(" "));
    return riddles.some((words) => words.filter((word) => asked.has(word)).length * 2 >= words.length);
  }

  /** A word in lower case, and the words of English of which it may be a form. */
  formsOf(said: string): string[] {
    const word = said.toLowerCase().replaceAll("’", "'");
    return [word, ...baseForms(word).filter((base) => this.english.has(base) || this.dictionary.has(base))];
  }

  /** Starts of what people call themselves: "I'm a baker" asks for no baker. */
  private speakersIn(text: string): Set<number> {
    return new Set(every(this.said.speaker, text).map((found) => startOf(found, found[1]!)));
  }

  /** "An ice cream" asks for no ice. */
  private withoutPhrases(text: string): string {
    return text.replace(this.said.knownPhrases, (phrase) => "_".repeat(phrase.length));
  }

  /** Whether the planner has learned a word, or another form of it. */
  private isTrained(said: string): boolean {
    const word = said.toLowerCase().replaceAll("’", "'");
    if (this.trained.has(word)) return true;
    const known = [...this.trained, ...this.things];
    this.trainedForms ??= new Set([...known, ...known.flatMap(baseForms)]);
    const parts = without(without(word, "'s"), "'").replace(this.said.compared, "").split("-");
    return parts.every((part) => [part, ...baseForms(part)].some((form) => this.trainedForms!.has(form)));
  }

  private singularOf(word: string): string {
    return this.lackingSingular.get(word.toLowerCase()) ?? word.toLowerCase();
  }

  /** Requested things the world lacks: "a dragon", but not "my teacher". */
  private lacking(text: string, inPassing = false): Found[] {
    const open = this.withoutPhrases(text);
    const noRiddle = inPassing && wordsOf(open).some((word) => this.things.has(word.toLowerCase()));
    const askedFor = every(this.said.askedFor, open).filter(
      (found) => (noRiddle && this.isInPassing(found, open)) || this.isAskedFor(found, open),
    );
    return [...askedFor, ...every(this.said.wantedColour, open)].map((found) => {
      const word = found.groups!.word!;
      return { word, start: startOf(found, word) };
    });
  }

  private isAskedFor(found: RegExpExecArray, text: string): boolean {
    const { word, one } = found.groups as { word: string; one: string | undefined };
    if (this.spokenOf.has(String([this.singularOf(word), one !== undefined]))) return false;
    const before = wordsOf(text.slice(0, startOf(found, word))).slice(-2);
    const after = wordsOf(text.slice(found.index + found[0].length)).slice(0, 1);
    return ![[...before, word, ">"], [word, ...after, "<"]].some((each) => this.tables.riddleContexts.includes(each.join(" ").toLowerCase()));
  }

  /** Whether a lacking thing belongs to no topic: a cat's hat, but not a snowman's. */
  private isInPassing(found: RegExpExecArray, text: string): boolean {
    const word = this.singularOf(found.groups!.word!);
    const [before, after] = [text.slice(0, found.index), text.slice(found.index + found[0].length)];
    const isPhrase = begins(this.said.phraseEnd, after) || has(this.said.phraseStart, before);
    if (found.groups!.one === undefined || isPhrase || [...this.telling.values()].some((words) => words.has(word))) return false;
    const said = wordsOf(text).map((each) => each.toLowerCase()).filter((each) => this.things.has(each));
    return !this.examples.some((each) => isOften(word, each) && said.some((thing) => isOften(thing, each)));
  }

  private neverSeen(text: string): Found[] {
    return this.wordsButNames(text).filter(({ word, start }) => !this.isKnown(word) && !this.describes(word, start, text));
  }

  private wordsButNames(text: string): Found[] {
    const named = new Set(every(this.said.named, text).map((found) => startOf(found, found[1]!)));
    const words = [...text.matchAll(WORD)].map((found) => ({ word: found[0], start: found.index }));
    const names = new Set(words.filter(({ word, start }) => this.isName(word, start, text)).map(({ word }) => owner(word)));
    return words.filter(({ word, start }) => !named.has(start) && !names.has(owner(word)));
  }

  /** Whether an English word tells what a thing is like or does: "the apple rots", "a drowsy cat". */
  private describes(said: string, start: number, text: string): boolean {
    const word = said.toLowerCase();
    if (!this.isEnglish(word) || this.neighbours.has(this.singularOf(word))) return false;
    const before = wordsOf(text.slice(0, start)).slice(-1).map((each) => each.toLowerCase());
    const after = wordsOf(text.slice(start + said.length)).slice(0, 1).map((each) => each.toLowerCase());
    return (
      word.endsWith("ly") ||
      before.some((each) => this.things.has(each) || this.tables.pronouns.includes(each) || this.tables.beforeAdjectives.includes(each)) ||
      after.some((each) => this.things.has(each))
    );
  }

  /** Whether a word is in a dictionary of English. */
  private isEnglish(word: string): boolean {
    return bare(word).split("-").every((part) => !part || this.english.has(part) || this.everyday.has(part));
  }

  /** Whether a word belongs to the world or everyday English, or is made of such words. */
  isKnown(said: string): boolean {
    const word = said.toLowerCase().replaceAll("’", "'");
    const plain = bare(word);
    if (this.neighbours.has(this.singularOf(plain)) && !this.trained.has(word) && !this.trained.has(plain)) return false;
    const parts = plain.split("-");
    if (parts.length > 1 && parts.every((part) => this.everyday.has(part))) return true;
    return [word, plain, ...baseForms(plain)].some((form) => this.everyday.has(form));
  }

  /** Whether a word is capitalized as a name, in a sentence that is not all capitals. */
  private isName(word: string, start: number, text: string): boolean {
    const rest = word.slice(1);
    const looksSo = /^\p{Lu}/u.test(word) && /\p{Ll}/u.test(rest) && rest === rest.toLowerCase();
    if (!looksSo || this.neighbours.has(this.singularOf(word))) return false;
    const before = text.slice(0, start).replace(/[ \t"'“‘(]+$/, "");
    if (before && (!".!?:…\n".includes(before.at(-1)!) || has(this.said.title, before))) return true;
    const [after = "", thing = ""] = wordsOf(text.slice(start + word.length)).map((each) => each.toLowerCase());
    if (this.tables.determiners.includes(after)) { // "Swapp the cat and the dog", but "Lucia the rabbit"
      const isSomebody = after === "the" && this.things.has(thing);
      if (!isSomebody || this.meant(word.toLowerCase())) return false;
    }
    return !this.isEnglish(word) && !this.isLikeAThing(word.toLowerCase()); // "Mia has a dog"
  }

  /** Whether a word may be a mistyped thing, colour or place instead of a name. */
  private isLikeAThing(word: string): boolean {
    if (word in this.tables.misspelt) return true;
    return word.length > this.tables.shortestTypo && this.meantWords[0]!.some((known) => isWithin(word, known, 1));
  }

  /** Mistyped words and the known word each stands for. */
  corrections(text: string): Record<string, string> {
    const found: Record<string, string> = {};
    const isUpper = (some: string) => some === some.toUpperCase() && some !== some.toLowerCase();
    for (const { word, nearest } of this.unknownWords(text).slice(0, this.tables.mostTypos)) {
      if (isUpper(word) && !isUpper(text)) continue; // "CPR" is no "car"
      if (this.isEnglish(word) && !this.tables.variants.includes(word.toLowerCase())) continue;
      if (nearest.length || word.length > this.tables.longestWord) continue;
      const right = this.meant(word.toLowerCase());
      if (right) found[word] = /^\p{Lu}/u.test(word) ? right[0]!.toUpperCase() + right.slice(1).toLowerCase() : right;
    }
    return found;
  }

  /** The known word that this one is a typing error of; things and colours come first. */
  private meant(word: string): string | null {
    const { misspelt, shortestTypo, longWord } = this.tables;
    if (Object.hasOwn(misspelt, word)) return misspelt[word]!;
    if (word.length < shortestTypo) return null;
    if (word.length === shortestTypo) {
      // Many words are one letter away: letters swapped come first.
      const swapped = this.meantWords.flat().filter((known) => sorted(known) === sorted(word) && isWithin(word, known, 1));
      const [one, ...others] = new Set(swapped);
      if (one && !others.length) return one;
    }
    const [doubled, ...more] = this.meantWords[0]!.filter((known) => once(known) === once(word));
    if (doubled && !more.length) return doubled; // "balon"
    for (const distance of word.length >= longWord ? [1, 2] : [1])
      for (const words of this.meantWords) {
        const near = words.filter((known) => isWithin(word, known, distance));
        const doubled = near.filter((known) => once(known) === once(word)); // "aple": no ape
        const close = doubled.length ? doubled : near;
        const meanings = new Set(close.map((known) => this.oneOfThem.get(known) ?? this.singularOf(known)));
        if (meanings.size === 1) return close.find((known) => known.at(-1) === word.at(-1)) ?? close[0]!;
        const harmless = close.filter((known) => this.harmless.has(known)).sort();
        if (harmless.length) return harmless[0]!; // whichever was meant changes nothing
        if (close.length) return null;
      }
    return null;
  }

  /** The language of a text that is not English, if known. */
  otherLanguage(text: string): string | null {
    const words = wordsOf(text).map((word) => word.toLowerCase());
    const strange = words.filter((word) => !this.isKnown(word));
    if (!words.length || strange.length / words.length < this.tables.foreignShare) return null;
    const letters = strange.join("");
    if ([...letters].filter((letter) => letter > "\u024f").length > letters.length / 2) return "another language";
    let [best, most] = ["", 0];
    for (const [name, known] of Object.entries(this.tables.foreign)) {
      const those = setOf(known);
      const hits = words.filter((word) => those.has(word)).length;
      if (hits > most) [best, most] = [name, hits];
    }
    return most >= Math.max(2, Math.floor(words.length / 4)) ? best : null;
  }
}

function setOf(words: string): Set<string> {
  return new Set(words.split(" "));
}

/** The start of a group that ends a match, or stands once in it. */
function startOf(found: RegExpExecArray, group: string): number {
  return found.index + found[0].lastIndexOf(group);
}

export function wordsOf(text: string): string[] {
  return text.match(WORD) ?? [];
}

function without(word: string, ending: string): string {
  return word.endsWith(ending) ? word.slice(0, -ending.length) : word;
}

/** A word without the ending of an owner: "Mila's". */
function owner(word: string): string {
  return without(without(word, "'s"), "’s");
}

function bare(word: string): string {
  return without(without(word.toLowerCase().replaceAll("’", "'"), "'s"), "'");
}

function sorted(word: string): string {
  return [...word].sort().join("");
}

/** A word with doubled letters written once. */
function once(word: string): string {
  return word.replace(/(.)\1/g, "$1");
}

/** Whether a quarter of the wordings of an example have a word. */
function isOften(word: string, { counts, wordings }: Example): boolean {
  return (counts.get(word) ?? 0) * 4 >= wordings;
}

/** Possible stems of a verb: "ripens", "ripened" and "ripening" come from "ripen". */
function baseForms(word: string): string[] {
  return ENDINGS.filter(([ending]) => word.endsWith(ending) && word.length - ending.length >= SHORTEST_BASE).flatMap(
    ([ending, bases]) => bases.map((base) => without(word, ending) + base),
  );
}

/** Whether two words are that close: letters left out, put in, changed, or two swapped. */
function isWithin(word: string, other: string, distance: number): boolean {
  if (Math.abs(word.length - other.length) > distance || word[0] !== other[0]) {
    return word.slice(1, 2) + word.slice(0, 1) + word.slice(2) === other; // "hte"
  }
  let above: number[] = [];
  let now = Array.from({ length: other.length + 1 }, (_, column) => column);
  for (let row = 1; row <= word.length; row++) {
    const before = above;
    [above, now] = [now, [row]];
    for (let column = 1; column <= other.length; column++) {
      let cost = Math.min(
        above[column]! + 1,
        now.at(-1)! + 1,
        above[column - 1]! + Number(word[row - 1] !== other[column - 1]),
      );
      if (row > 1 && column > 1 && word[row - 1] === other[column - 2] && word[row - 2] === other[column - 1]) {
        cost = Math.min(cost, before[column - 2]! + 1);
      }
      now.push(cost);
    }
  }
  return now.at(-1)! <= distance;
}
