/**
 * Words of a request that the miniature's world lacks, and typing errors (`interleave_mini.language.vocabulary`): a
 * port without requests that hold images. All words and expressions come from Python as data.
 */

import type { Plan } from "../loop/types";

export interface Tables {
  everyday: string;
  english: string;
  trained: string;
  things: string[];
  /** Nouns for things, singular and plural, and the kind of thing that each means. */
  kinds: Record<string, string>;
  meant: { drawable: string[]; trained: string };
  singular: Record<string, string>;
  lackingSingular: Record<string, string>;
  neighbours: Record<string, string[]>;
  misspelt: Record<string, string>;
  harmless: string;
  spokenOf: [word: string, asThing: boolean][];
  riddleContexts: string[];
  foreign: Record<string, string>;
  knownPhrases: string;
  askedFor: string;
  wantedColour: string;
  named: string;
  speaker: string;
  pronouns: string[];
  determiners: string[];
  variants: string[];
  shortestTypo: number;
  longWord: number;
  mostTypos: number;
  longestWord: number;
  foreignShare: number;
}
/** A word for something that the world lacks, and what it has instead. */
export interface Unknown {
  word: string;
  nearest: string[];
}
/** A request as the page reads it. */
export interface Reading {
  /** With typing errors corrected. */
  text: string;
  corrected: Record<string, string>;
  unknown: Unknown[];
  /** The language of a text that is not English, if known. */
  language: string | null;
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
const NOT_WANTED = /\b(?:no|not|without|never|except|instead of|leave out)(?: \w+){0,3}/gi;

interface Found {
  word: string;
  start: number;
}

export class Vocabulary {
  private readonly everyday: Set<string>;
  private readonly english: Set<string>;
  private readonly trained: Set<string>;
  private readonly things: Set<string>;
  private readonly harmless: Set<string>;
  private readonly neighbours: Map<string, string[]>;
  private readonly lackingSingular: Map<string, string>;
  private readonly singular: Map<string, string>;
  private readonly meantWords: string[][];

  constructor(private readonly tables: Tables) {
    this.everyday = setOf(tables.everyday);
    this.english = setOf(tables.english);
    this.trained = setOf(tables.trained);
    this.things = new Set(tables.things);
    this.harmless = setOf(tables.harmless);
    this.neighbours = new Map(Object.entries(tables.neighbours));
    this.lackingSingular = new Map(Object.entries(tables.lackingSingular));
    this.singular = new Map(Object.entries(tables.singular));
    this.meantWords = [tables.meant.drawable, tables.meant.trained.split(" ")];
  }

  /** Read a request: correct its typing errors, then look for what the world lacks. */
  read(text: string): Reading {
    const corrected = this.corrections(text);
    let right = text;
    for (const [wrong, meant] of Object.entries(corrected)) {
      right = right.replace(new RegExp(`(?<![\\p{L}\\p{N}_'’-])${wrong}(?![\\p{L}\\p{N}_'’-])`, "gu"), meant);
    }
    const unknown = this.unknownWords(right);
    return { text: right, corrected, unknown, language: unknown.length ? this.otherLanguage(right) : null };
  }

  /** Things that a request names and no step of its plan draws or tells of, in the words of the request. */
  leftOut(request: string, plan: Plan): string[] {
    const planned = plan.steps.map((step) => [step.name, step.prompt, step.caption].join(" ")).join(" ");
    const drawn = new Set([...this.nounsIn(planned + plan.reasoning)].map((noun) => this.tables.kinds[noun.toLowerCase()]));
    const wanted = [...this.nounsIn(request.replace(NOT_WANTED, " "))];
    return [...new Set(wanted.filter((noun) => !drawn.has(this.tables.kinds[noun.toLowerCase()])))];
  }

  private nounsIn(text: string): string[] {
    const longestFirst = Object.keys(this.tables.kinds).sort((one, other) => other.length - one.length);
    return text.match(new RegExp(`\\b(?:${longestFirst.join("|")})\\b`, "gi")) ?? [];
  }

  /** Words that name things the world lacks, and words that are not English, each once, in order. */
  unknownWords(text: string): Unknown[] {
    const speakers = new Set([...text.matchAll(flagged(this.tables.speaker))].map((found) => startOf(found, found[1]!)));
    const found = new Map<number, string>();
    for (const each of [...this.lacking(text), ...this.neverSeen(text)]) found.set(each.start, each.word);
    const inOrder = [...found.keys()].sort((one, other) => one - other).filter((start) => !speakers.has(start));
    return [...new Set(inOrder.map((start) => found.get(start)!))].map((word) => ({
      word,
      nearest: this.neighbours.get(this.singularOf(word)) ?? [],
    }));
  }

  private singularOf(word: string): string {
    return this.lackingSingular.get(word.toLowerCase()) ?? word.toLowerCase();
  }

  /** Requested things the world lacks: "a dragon", but not "my teacher". */
  private lacking(text: string): Found[] {
    const { tables } = this;
    const open = text.replace(flagged(tables.knownPhrases), (phrase) => "_".repeat(phrase.length)); // "an ice cream" asks for no ice
    const spoken = new Set(tables.spokenOf.map(String));
    const riddles = new Set(tables.riddleContexts);
    const askedFor = [...open.matchAll(flagged(tables.askedFor))].filter((found) => {
      const { word, one } = found.groups as { word: string; one: string | undefined };
      if (spoken.has(String([this.singularOf(word), one !== undefined]))) return false;
      const before = wordsOf(open.slice(0, startOf(found, word))).slice(-2);
      const after = wordsOf(open.slice(found.index + found[0].length)).slice(0, 1);
      return ![[...before, word, ">"], [word, ...after, "<"]].some((each) => riddles.has(each.join(" ").toLowerCase()));
    });
    return [...askedFor, ...open.matchAll(flagged(tables.wantedColour))].map((found) => {
      const word = found.groups!.word!;
      return { word, start: startOf(found, word) };
    });
  }

  private neverSeen(text: string): Found[] {
    return this.wordsButNames(text).filter(({ word, start }) => !this.isKnown(word) && !this.describes(word, start, text));
  }

  private wordsButNames(text: string): Found[] {
    const named = new Set([...text.matchAll(flagged(this.tables.named))].map((found) => startOf(found, found[1]!)));
    const words = [...text.matchAll(WORD)].map((found) => ({ word: found[0], start: found.index }));
    const names = new Set(words.filter(({ word, start }) => this.isName(word, start, text)).map(({ word }) => word));
    return words.filter(({ word, start }) => !named.has(start) && !names.has(without(without(word, "'s"), "’s")));
  }

  /** Whether an English word tells what a thing is like or does: "the apple rots", "a drowsy cat". */
  private describes(said: string, start: number, text: string): boolean {
    const word = said.toLowerCase();
    if (!this.isEnglish(word) || this.neighbours.has(this.singularOf(word))) return false;
    const before = wordsOf(text.slice(0, start)).slice(-1).map((each) => each.toLowerCase());
    const after = wordsOf(text.slice(start + said.length)).slice(0, 1).map((each) => each.toLowerCase());
    return (
      word.endsWith("ly") ||
      before.some((each) => this.things.has(each) || this.tables.pronouns.includes(each)) ||
      after.some((each) => this.things.has(each))
    );
  }

  /** Whether a word is in a dictionary of English. */
  private isEnglish(word: string): boolean {
    return bare(word).split("-").every((part) => !part || this.english.has(part) || this.everyday.has(part));
  }

  /** Whether a word belongs to the world or everyday English, or is made of such words. */
  private isKnown(said: string): boolean {
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
    if (before && !".!?:…\n".includes(before.at(-1)!)) return true;
    const after = wordsOf(text.slice(start + word.length)).slice(0, 1).map((each) => each.toLowerCase());
    if (after.some((each) => this.tables.determiners.includes(each))) return false; // "Swapp the cat and the dog"
    return !this.isEnglish(word) && !this.isLikeAThing(word.toLowerCase()); // "Mia has a dog"
  }

  /** Whether a word may be a mistyped thing, colour or place instead of a name. */
  private isLikeAThing(word: string): boolean {
    if (word in this.tables.misspelt) return true;
    return word.length > this.tables.shortestTypo && this.meantWords[0]!.some((known) => isWithin(word, known, 1));
  }

  /** Mistyped words and the known word each stands for. */
  private corrections(text: string): Record<string, string> {
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
    for (const distance of word.length >= longWord ? [1, 2] : [1])
      for (const words of this.meantWords) {
        let close = words.filter((known) => isWithin(word, known, distance));
        if (word.length === shortestTypo) {
          // Many words are one letter away: letters swapped come first.
          const swapped = close.filter((known) => sorted(known) === sorted(word));
          if (swapped.length) close = swapped;
        }
        const meanings = new Set(close.map((known) => this.singular.get(known) ?? this.singularOf(known)));
        if (meanings.size === 1) return close.find((known) => known.at(-1) === word.at(-1)) ?? close[0]!;
        const harmless = close.filter((known) => this.harmless.has(known)).sort();
        if (harmless.length) return harmless[0]!; // whichever was meant changes nothing
        if (close.length) return null;
      }
    return null;
  }

  /** The language of a text that is not English, if known. */
  private otherLanguage(text: string): string | null {
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

function flagged(pattern: string): RegExp {
  return new RegExp(pattern, "gi");
}

/** The start of a group that ends a match, or stands once in it. */
function startOf(found: RegExpExecArray, group: string): number {
  return found.index + found[0].lastIndexOf(group);
}

function wordsOf(text: string): string[] {
  return text.match(WORD) ?? [];
}

function without(word: string, ending: string): string {
  return word.endsWith(ending) ? word.slice(0, -ending.length) : word;
}

function bare(word: string): string {
  return without(without(word.toLowerCase().replaceAll("’", "'"), "'s"), "'");
}

function sorted(word: string): string {
  return [...word].sort().join("");
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
